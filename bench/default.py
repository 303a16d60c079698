"""The suite ``default``: ``etc/deploy.ini`` as it is shipped, asked as browsers ask.

All its elements stand, ``log`` writes a line for each request, and the site is that of ``pipeline_demo`` as it is
first made. What the template takes is measured within the same request, and shown apart.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import HEADERS, App, Contender, Environ, Figure, Result, Table, calls, compare, environ, get

INI = Path(__file__).resolve().parent.parent / "etc" / "deploy.ini"
COOKIES = "theme=dark; seen=2026-11-20"
WHOLE, TEMPLATE = "whole", "its template"


def default(rounds: int = 100, seconds: float = 0.02) -> Result:
    directory = tempfile.mkdtemp(prefix="bench-default-")
    with _access_log(os.devnull), _template_times() as times:
        app, session = _site(directory)
        contenders = [Contender(row, app, *asked) for row, asked in _requests(app, session).items()]
        rows = {row: {WHOLE: figure} for row, figure in compare(contenders, rounds, seconds).items()}
        for contender in contenders:
            if taken := list(_templates(contender, times, rounds)):
                rows[contender.name][TEMPLATE] = Figure.of(taken)
    return {"default": Table("A request to etc/deploy.ini", "µs", rows)}


def _site(directory: str) -> tuple[App, str]:
    """The site in a new database, and the cookie of its user's session."""
    from pipeline.paste import load

    keys = f"{directory}/keys"
    uri = f"file://{directory}/Data.fs?blobstorage_dir={directory}/blobs"
    app = load(f"config:{INI}", zodb_uri=uri, session_keys=keys)
    session = app.offered["login_session"]
    return app, f"{session.name}={session.serializer.dumps(('admin', 'a token of the session', 0))}"


def _requests(app: App, session: str) -> dict[str, tuple[Environ, None, None, str]]:
    """The requests, with the status of the answer, by the name of the row."""
    plain = {name: value for name, value in HEADERS.items() if name != "HTTP_ACCEPT_ENCODING"}

    def asked(path: str, **more: str) -> Environ:
        made = environ(path)
        for name in HEADERS.keys() - plain.keys():
            del made[name]
        return made | more

    packed = {"HTTP_ACCEPT_ENCODING": HEADERS["HTTP_ACCEPT_ENCODING"]}
    page = get(app, asked("/"))[2].decode()
    style = re.search(r'href="http://[^/"]+(/[^"]+\.css)"', page)
    if style is None:
        raise SystemExit("the home page of etc/deploy.ini has no style sheet")
    etag = dict(get(app, asked(style[1], **packed))[1])["ETag"]
    found = {
        "the home page, not compressed": (asked("/"), "200"),
        "the home page": (asked("/", **packed), "200"),
        "the same with a session and cookies": (asked("/", **packed, HTTP_COOKIE=f"{COOKIES}; {session}"), "200"),
        "its style sheet, 304": (asked(style[1], **packed, HTTP_IF_NONE_MATCH=etag), "304"),
        "an address that leads nowhere, 404": (asked("/wp-login.php", **packed), "404"),
    }
    return {row: (sent, None, None, status) for row, (sent, status) in found.items()}


def _templates(contender: Contender, times: list[float], rounds: int) -> Iterator[float]:
    """Microseconds that the template takes in a request, once for each round."""
    call = calls(contender.app, contender.request)
    for _ in range(rounds):
        del times[:]
        call()
        if times:
            yield sum(times) * 1e6


@contextmanager
def _template_times() -> Iterator[list[float]]:
    """Keep the seconds that each template takes."""
    from jinja2 import Template

    render = Template.render
    times: list[float] = []

    def timed(*arguments: Any, **values: Any) -> str:
        began = time.perf_counter()
        try:
            return render(*arguments, **values)
        finally:
            times.append(time.perf_counter() - began)
            del times[:-100]

    Template.render = timed  # type: ignore[method-assign]
    try:
        yield times
    finally:
        Template.render = render  # type: ignore[method-assign]


@contextmanager
def _access_log(path: str) -> Iterator[None]:
    """Have the access log written to a file, in the format of etc/deploy.ini."""
    access = logging.getLogger("pipeline.access")
    before = logging.root.manager.disable
    logging.disable(logging.NOTSET)
    with open(path, "w", encoding="utf-8") as file:
        handler = logging.StreamHandler(file)
        access.addHandler(handler)
        access.setLevel(logging.INFO)
        access.propagate = False
        try:
            yield
        finally:
            access.removeHandler(handler)
            logging.disable(before)
