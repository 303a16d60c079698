"""The requests that are compared: name, method, path with query, further headers, body."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

NOTE = "/folder/note"
EDITOR = {"HTTP_AUTHORIZATION": "Basic ZWRpdG9yOnNlY3JldA=="}
WRONG = {"HTTP_AUTHORIZATION": "Basic ZWRpdG9yOndyb25n"}
FORM = {"CONTENT_TYPE": "application/x-www-form-urlencoded"}
MULTIPART = {"CONTENT_TYPE": "multipart/form-data; boundary=xyz"}
XML = {"CONTENT_TYPE": "text/xml"}
UPLOAD = (
    b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n'
    b'the file\r\n--xyz\r\nContent-Disposition: form-data; name="title"\r\n\r\na title\r\n--xyz--\r\n'
)


def call(method: str, *numbers: int) -> bytes:
    """Return a call of XML-RPC."""
    parameters = "".join(f"<param><value><int>{number}</int></value></param>" for number in numbers)
    return f"<methodCall><methodName>{method}</methodName><params>{parameters}</params></methodCall>".encode()


class Asked(NamedTuple):
    """One request."""

    name: str
    method: str
    path: str
    headers: Mapping[str, Any] = MappingProxyType({})
    body: bytes = b""


GETS = {
    "a Grok page": f"{NOTE}/index",
    "the default view": NOTE,
    "the default view at a slash": f"{NOTE}/",
    "a view by its namespace": f"{NOTE}/@@index",
    "a plain page": f"{NOTE}/plain",
    "the root": "/",
    "a folder": "/folder/",
    "empty steps and a dot": "//folder/./note//index",
    "two dots": "/folder/../folder/note/index",
    "nothing there": "/folder/none",
    "nothing below a view": f"{NOTE}/index/none",
    "a namespace that is missing": "/folder/++none++x/note",
    "a path in UTF-8": "/%C3%BCnicode/index",
    "a step that a traverser makes": "/dynamic/made1/url",
    "a step that a traverser refuses": "/dynamic/other",
    "a step that fails": "/dynamic/lost",
    "a view that fails with an error view of its own": f"{NOTE}/loses",
    "a local site": "/site/note/index",
    "a site without a view": "/site/none",
    "the process": "/++etc++process/none",
    "a virtual host": f"/++vh++https:www.example.org:443/++{NOTE}/url",
    "a virtual host below": "/folder/++vh++http:www.example.org:80/a/b/++/note/url",
    "a virtual host and a redirect": f"/++vh++https:www.example.org:443/++{NOTE}/here",
    "urls": f"{NOTE}/url",
    "another skin": f"/++skin++other{NOTE}/shown",
    "a skin that is missing": f"/++skin++none{NOTE}/shown",
    "a query": f"{NOTE}/form?b=2&a=1&a=3&text=%C3%BC",
    "a query with types": f"{NOTE}/form?a:list=1&b:int=x",
    "a method in the query": "/folder?note/form:method=x",
    "no status given": f"{NOTE}/headers",
    "a charset": f"{NOTE}/charset",
    "JSON": f"{NOTE}/json",
    "no content": f"{NOTE}/nothing",
    "not modified": f"{NOTE}/unmodified",
    "a stream": f"{NOTE}/stream",
    "a result that is none": f"{NOTE}/bad",
    "a redirect": f"{NOTE}/here",
    "a trusted redirect": f"{NOTE}/away",
    "a redirect that is not trusted": f"{NOTE}/astray",
    "a raised redirect": f"{NOTE}/raised",
    "an error": f"{NOTE}/fails",
    "nothing was written by it": f"{NOTE}/shown",
    "a redirect of WebOb": f"{NOTE}/webob",
    "nothing was written by that": f"{NOTE}/shown",
    "a raised NotFound": f"{NOTE}/missing",
    "a raised Unauthorized": f"{NOTE}/refused",
    "a write": f"{NOTE}/count",
    "its annotation": f"{NOTE}/annotated",
    "a write that answers 404": f"{NOTE}/counted404",
    "it is committed": f"{NOTE}/shown",
    "doom": f"{NOTE}/doomed",
    "it is not committed": f"{NOTE}/shown",
    "commit and abort in mid-view": f"{NOTE}/midway",
    "the first is committed": f"{NOTE}/shown",
    "begin in mid-view": f"{NOTE}/begun",
    "a savepoint": f"{NOTE}/savepoint",
    "another connection": f"{NOTE}/other",
    "a conflict": f"{NOTE}/again?key=a&times=1",
    "three conflicts": f"{NOTE}/again?key=b&times=3",
    "Retry": f"{NOTE}/retry?key=c&times=2",
    "all of them counted once": f"{NOTE}/shown",
    "who": f"{NOTE}/who",
    "a page that needs a login": f"{NOTE}/edit",
    "a plain page that needs a login": f"{NOTE}/secret",
}

TABLE = [
    *(Asked(name, "GET", path) for name, path in GETS.items()),
    Asked("more conflicts than attempts", "GET", f"{NOTE}/again?key=d&times=9"),
    Asked("an editor", "GET", f"{NOTE}/edit", EDITOR),
    Asked("an editor on a plain page", "GET", f"{NOTE}/secret", EDITOR),
    Asked("an editor, who", "GET", f"{NOTE}/who", EDITOR),
    Asked("an editor in a local site", "GET", "/site/note/edit", EDITOR),
    Asked("an editor writes", "GET", f"{NOTE}/count", EDITOR),
    Asked("the annotation with the editor", "GET", f"{NOTE}/annotated"),
    Asked("a wrong password", "GET", f"{NOTE}/edit", WRONG),
    Asked("cookies", "GET", f"{NOTE}/cookies", {"HTTP_COOKIE": 'a=1; b="two words"; c=%C3%BC'}),
    Asked("plain cookies", "GET", f"{NOTE}/cookies", {"HTTP_COOKIE": "a=1; b=two; a=3"}),
    Asked("a charset that is wanted", "GET", f"{NOTE}/index", {"HTTP_ACCEPT_CHARSET": "iso-8859-1"}),
    Asked("a language", "GET", f"{NOTE}/index", {"HTTP_ACCEPT_LANGUAGE": "de-AT,de;q=0.8,en;q=0.5"}),
    Asked("HTTP/1.0 and a redirect", "GET", f"{NOTE}/here", {"SERVER_PROTOCOL": "HTTP/1.0"}),
    Asked("HEAD", "HEAD", f"{NOTE}/index"),
    Asked("HEAD of an error", "HEAD", f"{NOTE}/fails"),
    Asked("HEAD of nothing", "HEAD", "/none"),
    Asked("POST", "POST", f"{NOTE}/form", FORM, b"b=2&a=1&text=%C3%BC"),
    Asked("POST of a method", "POST", NOTE, FORM, b"form:method=x&a=1"),
    Asked("POST that is tried again", "POST", f"{NOTE}/again", FORM, b"key=e&times=2"),
    Asked("an upload", "POST", f"{NOTE}/upload", MULTIPART, UPLOAD),
    Asked("an upload without its end", "POST", f"{NOTE}/upload", MULTIPART, UPLOAD[:60]),
    Asked("PUT where it is not allowed", "PUT", NOTE, {}, b"text"),
    Asked("DELETE where it is not allowed", "DELETE", NOTE),
    Asked("OPTIONS", "OPTIONS", NOTE),
    Asked("REST, GET", "GET", f"/++rest++rest{NOTE}"),
    Asked("REST, POST", "POST", f"/++rest++rest{NOTE}", {"CONTENT_TYPE": "text/plain"}, b"text"),
    Asked("REST, PUT", "PUT", f"/++rest++rest{NOTE}", {"CONTENT_TYPE": "text/plain"}, b"text"),
    Asked("REST, DELETE", "DELETE", f"/++rest++rest{NOTE}"),
    Asked("XML-RPC", "POST", NOTE, XML, call("add", 1, 2)),
    Asked("XML-RPC, an error", "POST", NOTE, XML, call("fail")),
    Asked("XML-RPC, no such method", "POST", NOTE, XML, call("none")),
    Asked("XML-RPC, not XML", "POST", NOTE, XML, b"<methodCall>"),
    Asked("the end: all counts", "GET", f"{NOTE}/shown"),
]
