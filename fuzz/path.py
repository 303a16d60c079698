"""Names, wherever they come from: NUL, dots, underscores, namespaces, broken UTF-8 (S3, S14, S16).

The first byte chooses: the path and query of a GET or PUT, the body of a form, the method or the whole of an
XML-RPC call.
"""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

from fuzz.target import Environ, environ, run, site
from pipeline.interfaces import IXMLRPCRequest

XML = "text/xml"
SEEDS = (
    *(b"0a/b/", b"0a/edit/x", b"0a/@@edit", b"0a/++view++edit", b"0../a", b"0_x/%00", b"0\xc3\xa4/./a?x=1"),
    *(b"0++item++_x", b"0a/++own++b/++item++..", b"0++attribute++__class__", b"0a/?:method=edit", b"0++own++.."),
    *(b"1new", b"1a/?..%2fx:method=", b"1?_x:method=", b"1?:method=x%00", b"1@@a", b"1++own++a/x"),
    *(b"2:method=edit", b"2edit:method=x", b"2:action=..%2fedit", b"2__class__:method="),
    *(b"3a.b.echo", b"3++own++a.echo", b"3_x.echo", b"3++item++_x.echo", b"3a/b.echo", b"3@@echo"),
    b"4<methodCall><methodName>a.echo</methodName><params><param><value><int>1</int></value></param><param><value>"
    b"<i8>1000000000000000000000</i8></value></param></params></methodCall>",
    b"4<methodCall><methodName>echo</methodName><params><param><value><array><data><value><struct><member><name>a"
    b"</name><value>x</value></member></struct></value></data></array></value></param></params></methodCall>",
)


def make(data: bytes) -> Environ:
    way, rest = data[:1], data[1:]
    if way == b"2":
        return environ("/a/", rest, CONTENT_TYPE="application/x-www-form-urlencoded")
    if way in (b"3", b"4"):
        if way == b"3":
            name = escape(rest.decode("latin-1"))
            rest = f"<methodCall><methodName>{name}</methodName><params/></methodCall>".encode()
        return environ("/", rest, CONTENT_TYPE=XML, REQUEST_METHOD="POST")
    path, _, query = rest.decode("latin-1").partition("?")
    return environ("/" + path, QUERY_STRING=query, REQUEST_METHOD="PUT" if way == b"1" else "GET")


def main() -> None:
    of_browsers, of_calls = site(), site(request_type=IXMLRPCRequest)

    def app(environ: Environ, start_response: Any) -> Any:
        chosen = of_calls if environ.get("CONTENT_TYPE") == XML else of_browsers
        return chosen(environ, start_response)

    run(app, make, lambda length: b"0" + b"a/" * (length // 2), SEEDS)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
