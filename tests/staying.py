"""A site with all elements, and what its process still has of its requests when they are over.

Each part of a request has a mark of its own, a word that is nowhere else. Requests of all kinds and outcomes are
sent, others follow, and then everything that Python can reach is searched for the marks. Run as a program, with a
directory, this prints the statuses and the parts whose marks are found, as JSON.
"""

from __future__ import annotations

import gc
import json
import re
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import text
from webob.exc import HTTPForbidden, HTTPSeeOther
from ZODB.POSException import ConflictError

from asking import Answer, ask
from inis import ini_of
from pipeline import Request, Response, view
from pipeline.auth.login import log_in
from pipeline.interfaces import PUBLIC
from pipeline.paste import load
from proving.any_site import Root

ORDER = (
    *("log", "request_id", "timing", "vhost", "cors", "shield", "retry", "causal", "zodb", "sql", "errors"),
    *("transaction", "events", "session", "forms", "authenticate", "keep", "traverse", "sendfile", "base"),
    *("compress", "coalesce"),
)
OPTIONS = {
    "zodb": "uri = file://%(here)s/Data.fs\nroot = proving.any_site:stored",
    "sql": "url = sqlite:///%(here)s/site.sqlite",
    "session": "keys = %(here)s/keys",
    "causal": "keys = %(here)s/keys",
    "authenticate": "check = staying:check\nby = session basic\nkeys = %(here)s/keys",
    "log": "file = %(here)s/access.log",
    "sendfile": "locations = /srv/files = /files/",
    "timing": "metrics = true",
    "request_id": "trusted = unix",
    "cors": "origins = *",
}
HEADERS = (
    *("USER_AGENT", "REFERER", "ACCEPT", "ACCEPT_LANGUAGE", "ACCEPT_ENCODING", "IF_NONE_MATCH", "IF_MATCH"),
    *("RANGE", "IF_RANGE", "IF_MODIFIED_SINCE", "ORIGIN", "X_FORWARDED_FOR", "X_FORWARDED_HOST", "FORWARDED"),
    *("TRACEPARENT", "TRACESTATE", "X_REQUEST_ID", "X_WSGI_PIPELINE_POSITION", "SEC_FETCH_SITE"),
    *("CACHE_CONTROL", "CONTENT_ENCODING"),
)
FORM = "application/x-www-form-urlencoded"
VIEWS = ("", "@@form", "@@fails", "@@refuses", "@@redirects", "@@answers", "@@remembers", "@@again", "@@stream")
"""The addresses that are asked for; the first is the default view."""
addresses = count()
"""Each request has an address of its own, or logins that fail would block the others."""
control: list[Any] = []
"""What the view ``leaks`` forgets to drop."""


def check(request: Request, login: str, password: str) -> str | None:
    return login if login.startswith("known") else None


def values(request: Any) -> list[str]:
    """Everything that a view may read of a request."""
    read = [*request.headers.values(), *request.cookies.values(), *request.GET.values(), request.url]
    if request.method == "POST" and "form" in request.content_type:
        read += [str(value) for value in request.form.values()]
    return [str(value) for value in read]


@view(context=Root)
@view(context=Root, name="form", methods=("GET", "POST"), permission=PUBLIC)
def form(root: Root, request: Any) -> str:
    for value in values(request)[:3]:
        request.sql.execute(text("SELECT :value"), {"value": value})
    return f"<html><head></head><body>{len(values(request))}</body></html>"


@view(context=Root, name="fails", methods=("GET", "POST"), permission=PUBLIC)
def fails(root: Root, request: Any) -> str:
    raise ValueError(values(request))


@view(context=Root, name="refuses", methods=("GET", "POST"), permission=PUBLIC)
def refuses(root: Root, request: Any) -> str:
    raise HTTPForbidden(" ".join(values(request)))


@view(context=Root, name="redirects", methods=("GET", "POST"), permission=PUBLIC)
def redirects(root: Root, request: Any) -> str:
    raise HTTPSeeOther(location=request.url)


@view(context=Root, name="answers", methods=("GET", "POST"), permission=PUBLIC)
def answers(root: Root, request: Any, response: Response) -> str:
    for number, value in enumerate(values(request)):
        response.headers[f"X-Answer-{number}"] = re.sub("[^ -~]", "", value)
    response.set_cookie("answer", "".join(re.findall(r"\w+", str(values(request))))[:500])
    return " ".join(values(request))


@view(context=Root, name="remembers", methods=("GET", "POST"), permission=PUBLIC)
def remembers(root: Root, request: Any) -> str:
    if request.method == "POST":
        request.session["seen"] = str(values(request))[:1000]
        request.flash(str(values(request))[:1000])
        root.value += 1
    return " ".join(request.take_messages())


@view(context=Root, name="again", methods=("GET", "POST"), permission=PUBLIC)
def again(root: Root, request: Any) -> str:
    if request.attempt == 1:
        raise ConflictError(str(values(request)))
    return "done"


@view(context=Root, name="stream")
def stream(root: Root, request: Any) -> Iterator[bytes]:
    for value in values(request):
        yield value.encode()


@view(context=Root, name="kept")
def kept(root: Root, request: Any) -> str:
    request.keep = 60
    return "".join(request.GET.values())


@view(context=Root, name="enters", methods=("POST",), permission=PUBLIC)
def enters(root: Root, request: Any, response: Response) -> str:
    return str(log_in(request, response, request.form["login"], request.form["password"]))


@view(context=Root, name="leaks")
def leaks(root: Root, request: Any) -> str:
    control.extend(request.GET.values())
    return "leaked"


class Marks:
    """Makes marks. A mark says its part, so no list of them is kept beside the site."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, part: str) -> str:
        part = f"long {part}" if self.length else part
        return f"zq{part.encode().hex()}qz{'x' * self.length}"

    @staticmethod
    def found_in(value: str) -> Iterable[str]:
        return (bytes.fromhex(found).decode() for found in re.findall(r"zq([0-9a-f]+)qz", value.lower()))


def send(app: Any, method: str, path: str, query: str = "", body: bytes = b"", **headers: str) -> Answer:
    """Send a request from an address of its own, and read its answer to the end."""
    address = f"192.0.2.{next(addresses) % 250}"
    return ask(app, path, method, body, QUERY_STRING=query, REMOTE_ADDR=address, valid=False, **headers)


def requests(app: Any, mark: Marks) -> Iterator[int]:
    """Send requests of all kinds, with a mark in each part. Yield the statuses."""
    for name in VIEWS:
        for method in ("GET", "POST", "HEAD", "PUT", mark("method").upper()):
            one = partial(send, app, method)
            for headers in with_marks(mark):
                yield one(f"/{name}", **headers).status
            yield one(f"/{name}", f"{mark('name in the query')}={mark('query')}").status
            for path in (f"/{name}/{mark('path')}", f"/@@{mark('path')}", f"/++{mark('path')}++name"):
                yield one(path).status
            if method in ("POST", "PUT"):
                for content_type, body in bodies(mark):
                    yield one(f"/{name}", body=body.encode(), CONTENT_TYPE=content_type).status


def with_marks(mark: Marks) -> Iterator[dict[str, str]]:
    """Yield headers with marks."""
    for header in HEADERS:
        yield {f"HTTP_{header}": mark(header)}
    yield {f"HTTP_X_{mark('name of a header').upper()}": "1"}
    yield {"HTTP_ACCEPT": f"application/json;x={mark('ACCEPT')}"}
    yield {"HTTP_ACCEPT": f"text/html;x={mark('ACCEPT')}"}
    yield {"HTTP_ACCEPT_ENCODING": f"gzip, {mark('ACCEPT_ENCODING')}"}
    yield {"HTTP_COOKIE": f"{mark('name of a cookie')}={mark('cookie')}; session_data={mark('session')}"}
    yield {"HTTP_HOST": f"{mark('HOST')}.example.com"}
    yield {"HTTP_AUTHORIZATION": f"Bearer {mark('token')}"}
    for login in ("known", "known" + mark("login"), mark("login"), "no"):
        credentials = b64encode(f"{login}:{mark('password')}".encode()).decode()
        yield {"HTTP_AUTHORIZATION": f"Basic {credentials}"}


def bodies(mark: Marks) -> Iterator[tuple[str, str]]:
    """Yield content types and bodies with marks."""
    form = f"{mark('name of a field')}={mark('field')}"
    yield FORM, form
    yield f"{FORM}; charset={mark('charset')}", form
    part = f'Content-Disposition: form-data; name="{mark("name of a field")}"; filename="{mark("name of a file")}"'
    ends = f"--{mark('boundary')}"
    file = f"{part}\r\nContent-Type: text/{mark('type of a file')}\r\n\r\n{mark('file')}"
    yield f"multipart/form-data; boundary={mark('boundary')}", f"{ends}\r\n{file}\r\n{ends}--\r\n"
    yield "application/json", json.dumps({mark("name of a field"): mark("field")})
    yield f"{mark('type of a body')}/x", "x"


def logins(app: Any, mark: Marks) -> Iterator[int]:
    """Log in, read a page with the session, and send a session that was changed."""
    form = f"login=known{mark('principal')}&password={mark('password')}".encode()
    answer = send(app, "POST", "/@@enters", body=form, CONTENT_TYPE=FORM)
    cookies = [value.partition(";")[0] for value in answer.headers.getall("Set-Cookie")]
    assert cookies, answer
    for sent in (cookies, [f"{cookie}{mark('changed cookie')}" for cookie in cookies]):
        yield send(app, "GET", "/@@form", HTTP_COOKIE="; ".join(sent)).status


def usual(app: Any) -> None:
    """The requests of other visitors."""
    for _ in range(30):
        for name in VIEWS:
            send(app, "GET", f"/{name}")


def staying() -> set[str]:
    """The parts whose marks can be reached in this process."""
    for _ in range(3):
        gc.collect()
    found: set[str] = set()
    todo = gc.get_objects()
    seen = {id(todo), id(found), *map(id, todo)}
    while todo:
        for other in gc.get_referents(todo.pop()):
            if isinstance(other, str):
                found.update(Marks.found_in(other))
            elif isinstance(other, bytes | bytearray):
                found.update(Marks.found_in(other.decode("latin-1")))
            elif id(other) not in seen:
                seen.add(id(other))
                todo.append(other)
    return found


def main(directory: str) -> None:
    ini = Path(directory, "site.ini")
    ini.write_text(ini_of(ORDER, "staying", **OPTIONS))
    app = load(f"config:{ini}")
    usual(app)
    statuses: set[int] = set()
    for mark in (Marks(0), Marks(5_000)):
        statuses |= {*requests(app, mark), *logins(app, mark)}
        for path in ("/@@leaks", "/@@kept", "/@@kept"):
            send(app, "GET", path, f"a={mark(path)}")
    usual(app)
    print(json.dumps({"statuses": sorted(map(str, statuses)), "stays": sorted(staying())}))


if __name__ == "__main__":
    sys.modules["staying"] = sys.modules["__main__"]
    main(sys.argv[1])
