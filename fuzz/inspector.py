"""Target: what the inspector notes of a request, and its pages. The first byte says where the rest stands.

Beside it is a secret, which no page may show. Each request is followed by its page and by the list, which are as
quick as any other answer (S12).
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any

import atheris

KEY = os.environ["PIPELINE_DEBUG_KEY"] = "k" * 40

from fuzz.target import ROOT, Broken, Environ, Folder, Pipeline, Request, environ, judged, pipeline, run, view

with atheris.instrument_imports(include=["pipeline"]):
    import pipeline.inspector.inspecting
    from pipeline.elements.inspector import PATH, inspector

SECRET = "swordfish"
WAYS = (
    *("PATH_INFO", "QUERY_STRING", "HTTP_COOKIE", "HTTP_REFERER", "HTTP_X_TEXT"),
    *("error", "log", "filter"),
)
TEXTS = (
    *(b"session.session.", b"a=1&%70assword=x&b", b"{'a': 1, \"token", b"a='b", b'key="', b"pin=[", b"://a:b@c"),
    *(b"code\\\\", b"%3D%26%3F", b"Authorization: Basic", b"('otp', ", b"\0\x1b\xff", "ä€".encode(), b"<b>&amp;"),
)
SEEDS = tuple(bytes([way]) + text for way in range(len(WAYS)) for text in TEXTS)


@view(context=Folder, name="fail")
def fail(context: Folder, request: Request) -> str:
    text = f"{request.environ['fuzz.text']} {{'password': '{SECRET}'}}"
    if request.environ["fuzz.log"]:
        logging.getLogger("fuzz").warning("%s", text)
        return "logged"
    raise LookupError(text)


def make(data: bytes) -> Environ:
    way, text = WAYS[(data or b"\0")[0] % len(WAYS)], data[1:].decode("latin-1")
    sent = environ("/a/fail" if way in ("error", "log") else "/a/b")
    sent |= {"HTTP_AUTHORIZATION": f"Basic {SECRET}", "fuzz.text": text, "fuzz.log": way == "log"}
    sent |= {"QUERY_STRING": f"token={SECRET}", "HTTP_COOKIE": f"a={SECRET}", "HTTP_X_AUTH": SECRET}
    if way == "PATH_INFO":
        sent[way] = "/" + text
    elif way in ("QUERY_STRING", "HTTP_REFERER"):
        sent[way] = f"{text}&password={SECRET}"
    elif way == "HTTP_COOKIE":
        sent[way] = f"{text.replace('=', '')}={SECRET}"
    elif way in sent or way == "HTTP_X_TEXT":
        sent[way] = text
    return sent


def main() -> None:
    app = Pipeline(
        inspector(keep=5),
        pipeline.elements.errors.errors(),
        pipeline.elements.forms.forms(),
        pipeline.elements.traverse.traverse(root=lambda: ROOT),
        pipeline.publisher.publisher(scan=("fuzz.target", "fuzz.inspector")),
    )

    def page(path: str, query: str = "") -> bytes:
        """Return a page of the inspector."""
        statuses: list[str] = []
        asked = environ(PATH.rstrip("/") + path, QUERY_STRING=query, HTTP_COOKIE=f"debug-key={KEY}")
        body = b"".join(app(asked, lambda status, headers: statuses.append(status)))
        if statuses != ["200 OK"]:
            raise Broken(f"the page {path!r} is answered {statuses}")
        if SECRET.encode() in body:
            raise Broken(f"the page {path!r} shows the secret")
        return body

    def judge(sent: Environ, status: str, headers: dict[str, str], body: bytes) -> None:
        newest = re.search(rb'<a href="(\d+)">', page("/"))
        if newest is not None:
            page(f"/{newest[1].decode()}")
        page("/", sent["fuzz.text"])

    def lenient(environ: Environ, start_response: Any) -> Any:
        """Answer a view that fails as it should with a 404."""
        return app(environ, lambda status, headers: start_response(status.replace("500", "404"), headers))

    logging.getLogger().addHandler(logging.NullHandler())
    run(judged(lenient, judge), make, lambda length: b"\0" + b"a/" * (length // 2), SEEDS)


if __name__ == "__main__":
    main()
