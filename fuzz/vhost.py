"""Virtual hosts: two bytes say which headers follow, a line each; the last line is the path (S9, S10)."""

from __future__ import annotations

from fuzz.target import Environ, environ, pipeline, run, site
from pipeline.http.forwarding import HEADERS, READERS

NAMES = (*HEADERS, "HTTP_HOST", "REMOTE_ADDR")


SEEDS = (
    b"\0\0VirtualHostBase/https/www.example.com:443/a/VirtualHostRoot/_vh_x/b/",
    b"\0\0a/++vh++https:[::1]:443/x/++/b/",
    b"\0\xc0https://www.example.com:443/x\n/a\nb",
    b'\0\x01for="[::1]:80";host=www.example.com;proto=https, for=127.0.0.1\na',
    b"\0\x3e127.0.0.1, ::1\nwww.example.com:80\n443\n/x\nhttps\na",
    b"\x03\0[::1]:80\n\na",
)


def make(data: bytes) -> Environ:
    chosen = int.from_bytes(data[:2], "big")
    *values, path = data[2:].decode("latin-1").split("\n")
    names = [name for place, name in enumerate(NAMES) if chosen >> place & 1]
    return environ("/" + path, **dict(zip(names, values, strict=False)))


if __name__ == "__main__":
    element = pipeline.elements.vhost.vhost(
        trusted=("127.0.0.0/8", "unix"), accept=tuple(READERS), allowed_hosts=("*",), hosts={"a": "/a"}
    )
    run(site(element), make, lambda length: b"\0\0" + b"a/" * (length // 2), SEEDS)
