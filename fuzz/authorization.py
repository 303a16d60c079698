"""The header Authorization, and Origin, Sec-Fetch-Site and the user that a server says: a line for each.

A first line that begins with "=" is put in base64, as the fuzzer would otherwise be busy with that.
"""

from __future__ import annotations

from base64 import b64encode

import atheris

from fuzz.target import ROOT, Environ, Pipeline, environ, pipeline, run

with atheris.instrument_imports(include=["pipeline"]):
    from pipeline.elements.authenticate import authenticate

NAMES = ("HTTP_AUTHORIZATION", "HTTP_ORIGIN", "HTTP_SEC_FETCH_SITE", "REMOTE_USER")
SEEDS = (
    b"Basic " + b64encode(b"ann:right") + b"\nhttp://localhost\nsame-origin\nann",
    b"Basic " + b64encode("änn:€".encode()) + b"\nhttp://[\ncross-site",
    b"Bearer x\nnull",
    b"=ann:right\nhttp://localhost:80",
    b"=ann:right:\nHTTP://LOCALHOST\nnone",
    b"=a\0nn:\xff",
)


def make(data: bytes) -> Environ:
    if data[:1] == b"=":
        credentials, _, others = data[1:].partition(b"\n")
        data = b"Basic " + b64encode(credentials) + b"\n" + others
    sent = environ("/a/b/edit", **dict(zip(NAMES, data.decode("latin-1").split("\n"), strict=False)))
    sent["REQUEST_METHOD"] = "POST" if len(data) % 2 else "GET"
    return sent


def check(request: object, login: str, password: str) -> str | None:
    return login if password == "right" else None


if __name__ == "__main__":
    app = Pipeline(
        pipeline.elements.errors.errors(),
        authenticate(check=check, failures=1_000_000_000, interval=0.001),
        pipeline.elements.traverse.traverse(root=lambda: ROOT),
        pipeline.publisher.publisher(scan=("fuzz.target",)),
    )
    run(app, make, lambda length: b"Basic " + b64encode(b"a:" + b"x" * (length * 3 // 4)), SEEDS)
