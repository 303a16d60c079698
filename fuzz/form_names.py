"""Names of fields with their converters: the data is a query, and a body if there is a line break in it."""

from __future__ import annotations

from fuzz.target import Environ, environ, run, site

SEEDS = (
    b"a:int=1&a:int:list=2&b:float:default=1.5&c:bool=on&d:date=2024-01-01&e:datetime=2024-01-01T12:00",
    b"a.b:record=1&a.c:int:record=2&x.y:records=1&x.y:records=2&x.z:tuple:records=3",
    b"a:lines=1%0D%0A2&b:tokens:required=a+b&c:text:ignore_empty=&edit:method=1",
    b"x=1\n:action=edit&_charset_=latin-1&a=%FC&:default_method=show&edit:method.x=1",
)


def make(data: bytes) -> Environ:
    query, _, body = data.partition(b"\n")
    return environ(
        body=body, QUERY_STRING=query.decode("latin-1"), CONTENT_TYPE="application/x-www-form-urlencoded"
    )


if __name__ == "__main__":
    run(site(), make, lambda length: b"a:int=1&" * (length // 8), SEEDS)
