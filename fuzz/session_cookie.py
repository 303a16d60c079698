"""The header Cookie with a session in it, and what a form says to be of that session: a line for each.
``COOKIE`` stands for a session that is good."""

from __future__ import annotations

import tempfile
from functools import partial
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import atheris

from fuzz.target import ROOT, Broken, Environ, Pipeline, ask, environ, judged, pipeline, run

with atheris.instrument_imports(include=["pipeline", "itsdangerous"]):
    import pipeline.auth.login
    import pipeline.auth.sessions
    from pipeline.elements.authenticate import authenticate

NAMES = ("HTTP_COOKIE", "HTTP_X_CSRF_TOKEN", "HTTP_ORIGIN")
SEEDS = (
    b"pipeline_login=COOKIE\ntoken",
    b"a=b; pipeline_login=COOKIE; pipeline_login=x\n\nhttp://localhost",
    b'pipeline_login="COOKIE"; =x; $Path=/\n\xff',
    b"pipeline_login=.eJyrVkrNS0lVslJKTC9VqgUAJBAFBw.Zz.x",
)


def make(cookie: str, data: bytes) -> Environ:
    lines = data.decode("latin-1").replace("COOKIE", cookie).split("\n")
    sent = environ("/a/b/edit", **dict(zip(NAMES, lines, strict=False)))
    sent["REQUEST_METHOD"] = "POST" if len(data) % 2 else "GET"
    return sent


def check(request: object, login: str, password: str) -> str | None:
    return login if password == "right" else None


def logged_in(app: Any) -> str:
    """Return the value of the cookie of a session, which is good."""
    said: list[tuple[str, str]] = []
    form = environ("/@@login", b"login=ann&password=right", CONTENT_TYPE="application/x-www-form-urlencoded")
    for _ in app(form, lambda status, headers: said.extend(headers)):
        pass
    cookie = SimpleCookie(dict(said)["Set-Cookie"])["pipeline_login"].value
    sent = environ("/a/b", HTTP_COOKIE=f"pipeline_login={cookie}")
    ask(app, sent)
    if sent.get("REMOTE_USER") != "ann":
        raise Broken("a new session is not a login")
    return cookie


def judge(cookie: str, sent: Environ, status: str, headers: dict[str, str], body: bytes) -> None:
    """A visitor is logged in by the whole cookie alone."""
    if sent.get("REMOTE_USER") and cookie not in sent["HTTP_COOKIE"]:
        raise Broken(f"{sent['HTTP_COOKIE']!r} is a session of {sent['REMOTE_USER']!r}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        app = Pipeline(
            pipeline.elements.errors.errors(),
            authenticate(check=check, by=("session",), keys=str(Path(directory) / "keys")),
            pipeline.elements.traverse.traverse(root=lambda: ROOT),
            pipeline.publisher.publisher(scan=("fuzz.target", "pipeline.auth.login")),
        )
        good = logged_in(app)
        promising = judged(app, partial(judge, good))
        run(promising, partial(make, good), lambda length: b"pipeline_login=" + b"x" * length, SEEDS)
