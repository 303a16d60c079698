"""A request as text to copy: the command that explains it once more, and a test. Secrets are masked."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from pipeline.telling.secrets import masked_query, value_of


def ini_of(request: Any) -> str:
    """Return the path of the ini that the request's pipeline comes from, or ""."""
    pipeline = request.pipeline
    contracts = pipeline.all_contracts if pipeline is not None else ()
    files = [str(contract.place[0].file) for contract in contracts if contract.place[0] is not None]
    return next((file.removeprefix(f"{Path.cwd()}/") for file in files), "")


def address_of(request: Any) -> str:
    """Return the path of a request with its query, percent-encoded."""
    environ = request.environ
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    query = masked_query(environ.get("QUERY_STRING", ""))
    return quote(path.encode("latin-1")) + (f"?{query}" if query else "")


def fields_of(request: Any) -> dict[str, str]:
    """Return the fields of the form of a request, if its body was one; without files."""
    form = request.__dict__.get("form") if request.environ["REQUEST_METHOD"] not in ("GET", "HEAD") else None
    return {str(name): value_of(str(name), value) for name, value in (form or {}).items() if isinstance(value, str)}


def command_of(request: Any, ini: str) -> str:
    """Return the ``pipeline explain`` that runs a request again."""
    environ = request.environ
    words = ["pipeline", "explain", ini, environ["REQUEST_METHOD"], address_of(request)]
    host = environ.get("HTTP_HOST", "localhost")
    if host.partition(":")[0] not in ("localhost", "127.0.0.1"):
        words += ["-H", f"Host: {host}"]
    if fields := fields_of(request):
        words += ["-d", urlencode(fields)]
    if request.principal:
        words += ["--user", str(request.principal)]
    return shlex.join(words)


def test_of(request: Any, ini: str) -> str:
    """Return a test of pytest that sends a request and fails as long as the answer is an error."""
    method, address = request.environ["REQUEST_METHOD"], address_of(request)
    name = re.sub(r"[^a-z0-9]+", "_", f"{method} {address.partition('?')[0]}".lower()).strip("_")
    fields = fields_of(request)
    sent = f", {fields!r}" if fields else ""
    call = f"{method.lower()}({address!r}{sent})"
    if method not in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        call = f"request({address!r}, method={method!r})"
    login = f'    # log_in(visitor, {request.principal!r}, "the password")\n' if request.principal else ""
    imported = "log_in, site" if login else "site"
    return (
        f"from pipeline.testing import {imported}\n\n\n"
        f"def test_{name}() -> None:\n"
        f"    # Name a database of its own, if the ini has a variable for it: database=...\n"
        f"    visitor = site({ini!r})\n{login}"
        f"    visitor.{call}\n"
    )
