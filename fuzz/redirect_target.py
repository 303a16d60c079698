"""Where a login leads back to. What a browser would take for another site breaks the promise (S8).

A byte above 127 stands for one of ``PIECES``, as the fuzzer would otherwise be busy with finding them.
"""

from __future__ import annotations

import re
from urllib.parse import quote, quote_from_bytes

import atheris

from fuzz.target import ROOT, Broken, Environ, Folder, Pipeline, Request, environ, pipeline, run, view

with atheris.instrument_imports(include=["pipeline"]):
    from pipeline.auth.login import fields, way_back

HOST = "http://localhost"
PIECES = (
    *(b"http:", b"https:", b"//", b"/\\", b"\\", b"localhost", b":80", b"@", b"evil.example", b"javascript:"),
    *(b"\t", b"\r\n", b"\0", b" ", "\u2028".encode(), "\uff0f".encode(), "ä".encode(), b"\xe4", b"%2f", b"%5c"),
    *(b"?", b"#", b";", b"..", b"[::1]"),
)
SEEDS = (
    bytes(range(128, 128 + len(PIECES))),
    *(bytes([0x80, 0x82, 0x85, 0x87, 0x88]), bytes([0x80, 0x82, 0x85, 0x86]), bytes([0x83, 0x88])),
    *(b"/a/b?c=d#e", b"//evil.example", b"/\\evil.example", b"\thttp://evil.example", b"javascript:x"),
    *(b"http://localhost/a", b"http://localhost@evil.example/", b"http://localhost:80/", b"/\n/evil.example"),
    *("/ä\u2028".encode(), b"?", b"", b"a:b", b"./a:b", b"http:\\\\evil.example"),
)


def leaves(location: str) -> bool:
    """Whether a browser leaves ``HOST`` (WHATWG URL, basic parser), by its rules in other words than ours."""
    location = re.sub("[\t\n\r]", "", location.strip("".join(map(chr, range(33))))).replace("\\", "/")
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", location)
    if scheme is not None:
        return re.match(rf"{HOST}(:80)?(?=[/?#]|$)", location, re.IGNORECASE) is None
    return location.startswith("//")


@view(context=Folder, name="back")
def back(context: Folder, request: Request) -> object:
    answer = way_back(request, fields(request).get("came_from", ""))
    location = answer.headers["Location"]  # type: ignore[attr-defined]
    if leaves(location):
        raise Broken(f"leads to {location!r}")
    return answer


def make(data: bytes) -> Environ:
    target = b"".join([PIECES[byte & 127] if 0 <= byte - 128 < len(PIECES) else bytes([byte]) for byte in data])
    return environ("/back", QUERY_STRING="came_from=" + quote_from_bytes(target))


if __name__ == "__main__":
    app = Pipeline(
        pipeline.elements.errors.errors(),
        pipeline.elements.traverse.traverse(root=lambda: ROOT),
        pipeline.publisher.publisher(scan=("fuzz.redirect_target",)),
    )
    run(app, make, lambda length: quote("/" + "a" * length).encode(), SEEDS)
