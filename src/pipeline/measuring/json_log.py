"""The line of the access log as a JSON object."""

from __future__ import annotations

import json
import time
from typing import Any

from pipeline.measuring.measures import attempts, view_name
from pipeline.request import Request
from pipeline.response import Response


def json_line(request: Request, response: Response, url: str, seconds: float, longest: int) -> str:
    """Return the line of a request that is closed: ASCII, without an end of line in it.

    url      the URL as the client sent it
    seconds  from the element ``log`` until the request was closed
    longest  upper limit of the characters of a field
    """
    environ = request.environ
    now = time.time()
    fields: dict[str, Any] = {
        "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z",
        "host": environ.get("REMOTE_ADDR") or None,
        "user": request.principal,
        "method": environ.get("REQUEST_METHOD"),
        "url": url,
        "protocol": environ.get("SERVER_PROTOCOL"),
        "status": int(response.status_line[:3]),
        "bytes": request.bytes_sent,
        "referrer": environ.get("HTTP_REFERER"),
        "agent": environ.get("HTTP_USER_AGENT"),
        "seconds": round(seconds, 6),
    }
    fields = {name: value[:longest] if isinstance(value, str) else value for name, value in fields.items()}
    ids = ((name, request.__dict__.get(name)) for name in ("_request_id", "error_id"))
    fields |= {name.lstrip("_"): id for name, id in ids if id}
    if (measures := request.measures) is not None:
        fields |= {
            "view": view_name(measures.view) or None,
            "attempts": attempts(request),
            "elements": {part: round(took, 6) for part, took in measures.own_times().items()},
        }
        if measures.span is not None and (traced := measures.span.get_span_context()).is_valid:
            fields |= {"trace_id": f"{traced.trace_id:032x}", "span_id": f"{traced.span_id:016x}"}
    return json.dumps(fields)
