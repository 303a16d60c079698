"""Reports of a developer's browser: what it did not take, by the Content-Security-Policy of a page."""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import urlsplit

from pipeline.http.content_policy import NAME, REPORT_ONLY
from pipeline.telling.secrets import masked_text

log = logging.getLogger("pipeline.notices")

PATH = "/++inspect++/blocked"
MOST = 64 * 1024
"""Bytes of a report that are read."""


def ask_for_reports(request: Any, response: Any) -> None:
    """Have the browser report what it blocks, if the page has a policy that does not name an address for that."""
    for name in (NAME, REPORT_ONLY):
        value = response.headers.get(name)
        if value and "report-" not in value:
            response.headers[name] = f"{value}; report-uri {request.script_name}{PATH}"


def note_report(inspector: Any, request: Any, response: Any) -> None:
    """Log what a browser has blocked, and note it beside the last request for that page."""
    response.status = "204 No Content"
    try:
        sent = json.loads(request.body_file.read(MOST))["csp-report"]
        page = urlsplit(str(sent["document-uri"])).path
        what, directive = str(sent["blocked-uri"]), str(sent["effective-directive"])
    except (ValueError, KeyError, TypeError, RecursionError):
        response.status = "400 Bad Request"
        return
    if "inline" in what:
        what = "a script or style sheet in the page"
        remedy = "Give it the nonce (request.csp_nonce), or move it to a file"
    else:
        remedy = f'Allow it by request.allow_source("{directive}", ...), or in the option sources of shield'
    line = f", line {sent['line-number']}" if sent.get("line-number") else ""
    found = f"{page}{line}: the browser did not take {what}: {directive} of the Content-Security-Policy. {remedy}"
    text = masked_text(found[:1_000]).encode("unicode_escape").decode()
    log.warning("%s", text)
    record = next((one for one in inspector.kept() if urlsplit(one.path).path == page), None)
    if record is not None:
        record.add("log", text)
