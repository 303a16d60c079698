"""Target: the address to which a login leads back, and that to which a view leads that believes the visitor.

A ``Location`` that a browser would take for another site breaks the promise (S8). The first byte says which
view is asked, and in which way it answers. After that, a byte above 127 stands for one of ``PIECES``, as the
fuzzer would otherwise be busy with finding them.
"""

from __future__ import annotations

import logging
import re
from urllib.parse import quote, quote_from_bytes

import atheris
import webob
from webob.exc import HTTPFound

from fuzz.target import ROOT, Broken, Environ, Folder, Pipeline, Request, environ, judged, pipeline, run, view

with atheris.instrument_imports(include=["pipeline"]):
    from pipeline.auth.login import fields, way_back
    from pipeline.http.redirects import redirect
    from pipeline.interfaces import UnsafeRedirect

PIECES = (
    *(b"http:", b"https:", b"//", b"/\\", b"\\", b"localhost", b":80", b"@", b"evil.example", b"javascript:"),
    *(b"\t", b"\r\n", b"\0", b" ", "\u2028".encode(), "\uff0f".encode(), "ä".encode(), b"\xe4", b"%2f", b"%5c"),
    *(b"?", b"#", b";", b"..", b"[::1]"),
)
TARGETS = (
    bytes(range(128, 128 + len(PIECES))),
    *(bytes([0x80, 0x82, 0x85, 0x87, 0x88]), bytes([0x80, 0x82, 0x85, 0x86]), bytes([0x83, 0x88])),
    *(b"/a/b?c=d#e", b"//evil.example", b"/\\evil.example", b"\thttp://evil.example", b"javascript:x"),
    *(b"http://localhost/a", b"http://localhost@evil.example/", b"http://localhost:80/", b"/\n/evil.example"),
    *("/ä\u2028".encode(), b"?", b"", b"a:b", b"./a:b", b"http:\\\\evil.example", b"//localhost/a"),
)
SEEDS = tuple(bytes([way]) + target for way in range(5) for target in TARGETS)


def leaves(location: str) -> bool:
    """Return whether a browser leaves http://localhost (WHATWG URL, basic parser), in other words than ours."""
    location = re.sub("[\t\n\r]", "", location.strip("".join(map(chr, range(33))))).replace("\\", "/")
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", location)
    if scheme is None and not location.startswith("//"):
        return False
    return re.match(r"(http:)?//localhost(:80)?(?=[/?#]|$)", location, re.IGNORECASE) is None


@view(context=Folder, name="back")
def back(context: Folder, request: Request) -> object:
    return way_back(request, fields(request).get("came_from", ""))


@view(context=Folder, name="on")
def on(context: Folder, request: Request, response: webob.Response) -> object:
    """Go on to where the visitor says, without a look at it."""
    target = fields(request).get("came_from", "").encode().decode("latin-1")
    way = request.GET["way"]
    if way == "0":
        return redirect(target)
    if way == "1":
        if "\r" in target or "\n" in target:
            return "WebOb refuses it"
        raise HTTPFound(location=target)
    answer = response if way == "2" else webob.Response(status=303)
    answer.status = 303
    answer.headerlist.append(("Location", target))
    return answer


@view(context=UnsafeRedirect)
def refused(error: UnsafeRedirect, request: Request, response: webob.Response) -> str:
    response.status = 422
    return "refused"


def judge(environ: Environ, status: str, headers: dict[str, str], body: bytes) -> None:
    location = headers.get("Location")
    if location is not None and leaves(location):
        raise Broken(f"leads to {location!r}")


def make(data: bytes) -> Environ:
    way = data[0] % 5 if data else 0
    target = b"".join([PIECES[byte & 127] if 0 <= byte - 128 < len(PIECES) else bytes([byte]) for byte in data[1:]])
    came_from = "came_from=" + quote_from_bytes(target)
    if way == 4:
        return environ("/back", QUERY_STRING=came_from)
    return environ("/on", QUERY_STRING=f"way={way}&{came_from}")


if __name__ == "__main__":
    logging.disable()
    app = Pipeline(
        pipeline.elements.errors.errors(),
        pipeline.elements.traverse.traverse(root=lambda: ROOT),
        pipeline.publisher.publisher(scan=("fuzz.redirect_target",)),
    )
    run(judged(app, judge), make, lambda length: quote("4/" + "a" * length).encode(), SEEDS)
