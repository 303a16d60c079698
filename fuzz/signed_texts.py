"""The header Cookie with signed texts in it, and the header X-Written: a line for each. ``SESSION``, ``WRITTEN``
and ``BROWSER`` stand for texts that are good, each for one purpose and all by one key."""

from __future__ import annotations

import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import atheris

from fuzz.target import Broken, Environ, Pipeline, ask, environ, pipeline, run

with atheris.instrument_imports(include=["pipeline", "itsdangerous"]):
    import pipeline.auth.sessions
    from pipeline.auth.browsers import KnownBrowsers
    from pipeline.auth.keys import read_keys
    from pipeline.auth.limiter import digest_of
    from pipeline.composition import element
    from pipeline.elements.causal import COOKIE, causal
    from pipeline.elements.session import session

NAMES = ("HTTP_COOKIE", "HTTP_X_WRITTEN")
SEEDS = (
    b"session_data=SESSION; written.0123abcd=WRITTEN; browser=BROWSER",
    b"\nWRITTEN",
    b"session_data=WRITTEN; written.0123abcd=BROWSER; browser=SESSION\nSESSION",
    b"written=WRITTEN; written.0123abc=WRITTEN; written.0123abcd=WRITTENx\nWRITTEN.",
    b"session_data=.eJyrVkrNS0lVslJKTC9VqgUAJBAFBw.Zz.x; browser=e30.Zz.x\ne30.Zz.x",
)
USED_AS = {"SESSION": "session_data", "WRITTEN": COOKIE, "BROWSER": "browser"}


@element
def end(*, browsers: Any) -> Any:
    """The end of the pipeline: judges what is believed of a request."""

    def end(request: Any, response: Any) -> None:
        believed = {
            "SESSION": request.session,
            "WRITTEN": request.written,
            "BROWSER": browsers.id_of(request, "ann"),
        }
        sent, good = request.environ, request.environ["fuzz.good"]
        for what in sorted(what for what, value in believed.items() if value):
            sent.get("fuzz.believed", []).append(what)
            places = [one.partition("=") for one in re.split("[;,]", sent["HTTP_COOKIE"])]
            values = [value for name, _, value in places if USED_AS[what] in name]
            values += [sent.get("HTTP_X_WRITTEN", "")] if what == "WRITTEN" else []
            if not any(good[what] in value for value in values):
                raise Broken(f"{what} is believed of {values!r}")
        response.plain("200 OK", "judged")

    return end


def make(good: dict[str, str], data: bytes) -> Environ:
    text = data.decode("latin-1")
    for what, value in good.items():
        text = text.replace(what, value)
    sent: Environ = environ("/", **{"HTTP_COOKIE": "", **dict(zip(NAMES, text.split("\n"), strict=False))})
    return sent | {"fuzz.good": good}


def good_texts(keys: list[str]) -> dict[str, str]:
    """Return a text for each purpose."""
    signed = pipeline.auth.sessions.SignedCookie
    texts = {
        "SESSION": signed("session_data", "session data ", keys, 60).serializer.dumps([{"a": 1}, [], None]),
        "WRITTEN": signed(COOKIE, "what is written", keys, 60).serializer.dumps({"db": 5}),
        "BROWSER": KnownBrowsers(keys).serializer.dumps({digest_of("ann"): "id"}),
    }
    return {what: str(text) for what, text in texts.items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        file = str(Path(directory) / "keys")
        keys = list(read_keys(file))
        good = good_texts(keys)
        app = Pipeline(
            causal(keys=file),
            pipeline.elements.errors.errors(),
            session(keys=file),
            end(browsers=KnownBrowsers(keys)),
        )
        expected = []
        ask(app, make(good, SEEDS[0]) | {"fuzz.believed": expected})
        if expected != ["BROWSER", "SESSION", "WRITTEN"]:
            raise Broken(f"of the good texts only {expected} are believed, so nothing could be found")
        run(app, partial(make, good), lambda length: b"session_data=" + b"x" * length, SEEDS)
