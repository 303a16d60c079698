"""Headers that say what the visitor wants, where an error page is chosen by them: a line for each."""

from __future__ import annotations

from fuzz.target import Environ, environ, run, site

NAMES = ("HTTP_ACCEPT", "HTTP_ACCEPT_LANGUAGE", "HTTP_ACCEPT_ENCODING", "HTTP_ACCEPT_CHARSET")


SEEDS = (
    b"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\nde-DE,de;q=0.9\ngzip, br;q=0\nutf-8",
    b'application/json;version="1\\"2"; q=0.001, text/*;level=1\n*\n*;q=0',
)


def make(data: bytes) -> Environ:
    values = data.decode("latin-1").split("\n")
    return environ("/missing", **dict(zip(NAMES, values, strict=False)))


if __name__ == "__main__":
    run(site(), make, lambda length: b"text/html;q=0.5," * (length // 16), SEEDS)
