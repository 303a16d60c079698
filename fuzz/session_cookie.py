"""The header Cookie with a session in it, and what a form says to be of that session: a line for each.
``COOKIE`` stands for a session that is good."""

from __future__ import annotations

import tempfile
from pathlib import Path

import atheris

from fuzz.target import ROOT, Environ, Pipeline, environ, pipeline, run

with atheris.instrument_imports(include=["pipeline", "itsdangerous"]):
    from pipeline.auth.sessions import Session, read_keys
    from pipeline.elements.authenticate import authenticate

NAMES = ("HTTP_COOKIE", "HTTP_X_CSRF_TOKEN", "HTTP_ORIGIN")
KEYS = Path(tempfile.mkdtemp(prefix="fuzz-")) / "keys"
SESSION = Session(read_keys(str(KEYS)), 3600, "@@login")
COOKIE = SESSION.serializer.dumps(("ann", "token"))
SEEDS = (
    b"session=COOKIE\ntoken",
    b"a=b; session=COOKIE; session=x\n\nhttp://localhost",
    b'session="COOKIE"; =x; $Path=/\n\xff',
    b"session=.eJyrVkrNS0lVslJKTC9VqgUAJBAFBw.Zz.x",
)


def make(data: bytes) -> Environ:
    lines = data.decode("latin-1").replace("COOKIE", COOKIE).split("\n")
    sent = environ("/a/b/edit", **dict(zip(NAMES, lines, strict=False)))
    sent["REQUEST_METHOD"] = "POST" if len(data) % 2 else "GET"
    return sent


def check(request: object, login: str, password: str) -> str | None:
    return None


if __name__ == "__main__":
    app = Pipeline(
        pipeline.elements.errors.errors(),
        authenticate(check=check, by=("session",), keys=str(KEYS)),
        pipeline.elements.traverse.traverse(root=lambda: ROOT),
        pipeline.publisher.publisher(scan=("fuzz.target",)),
    )
    run(app, make, lambda length: b"session=" + b"x" * length, SEEDS)
