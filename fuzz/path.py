"""Paths: NUL, dots, underscores, namespaces, broken UTF-8 (S3, S14, S16); what follows a "?" is the query."""

from __future__ import annotations

from fuzz.target import Environ, environ, run, site

SEEDS = (b"a/b/", b"a/edit/x", b"a/@@edit", b"a/++view++edit", b"../a", b"_x/%00", b"\xc3\xa4/./a?x=1")


def make(data: bytes) -> Environ:
    path, _, query = data.decode("latin-1").partition("?")
    return environ("/" + path, QUERY_STRING=query)


if __name__ == "__main__":
    run(site(), make, lambda length: b"a/" * (length // 2), SEEDS)
