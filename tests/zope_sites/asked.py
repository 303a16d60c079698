"""The requests that Zope and we are compared by."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from wsgiref.util import FileWrapper

NONE: Mapping[str, Any] = MappingProxyType({})


class Asked(NamedTuple):
    """One request."""

    name: str
    method: str
    path: str
    headers: Mapping[str, Any] = NONE
    body: bytes = b""


def basic(user: str, password: str = "secret") -> dict[str, str]:
    """Return the header of a login."""
    return {"HTTP_AUTHORIZATION": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


ADMIN, EDITOR = basic("admin"), basic("editor")
FORM = {"CONTENT_TYPE": "application/x-www-form-urlencoded"}
XML = {"CONTENT_TYPE": "text/xml"}
MULTIPART = {"CONTENT_TYPE": "multipart/form-data; boundary=b"}
LATER = {"HTTP_IF_MODIFIED_SINCE": "Fri, 01 Jan 2038 00:00:00 GMT"}
UPLOAD = (
    b'--b\r\nContent-Disposition: form-data; name="id"\r\n\r\nuploaded\r\n--b\r\nContent-Disposition: form-data; '
    b'name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\ncontents\r\n--b--\r\n'
)
CALL = b"<?xml version='1.0'?><methodCall><methodName>%s</methodName><params>%s</params></methodCall>"
TWO = b"<param><value><int>2</int></value></param>"
PROPFIND = b'<?xml version="1.0"?><propfind xmlns="DAV:"><allprop/></propfind>'


def table() -> list[Asked]:
    """Return the requests, in an order in which later ones see what earlier ones have stored."""
    get = """
        /  /f1  /f1/  /f1/f2/@@plain  /f1/f2/plain  /f1/f2/note  /f1/f2/note/index_html  /f1/f2/note/hidden
        /f1/f2/note/private  /f1/f2/note/_secret  /f1/f2/@@text  /f1/f2/page  /f1/f2/dtml
        /f1/f2/note/@@form?a=1&b:int=2&c:list=3&r.x:record=4  /f1/@@form?n:int=none  /f1/f2/m%C3%BCnchen/@@where
        /f1/f2/../@@where  /f1/./f2/@@where  /f1//f2/@@where  /../@@plain  /f1/f2/f3/note/@@where
        /f1/f2/f3/f2/f1/@@where  /f1/@@nothing  /f1/nothing  /aq_base  /f1/REQUEST  /f1/@@refuse  /f1/@@forbid
        /f1/@@private  /@@private  /f1/manage_main  /f1/@@go_on  /f1/@@go_away  /f1/@@fail  /dynamic/lost
        /dynamic/made1  /dynamic/made1/index_html  /dynamic/none  /hooked  /hooked/@@plain
        /hooked/@@plain?away=1  /f1/@@nothing?x  /f1/f2/@@nothing_at_all/more  /f1/@@bytes  /f1/@@streamed
        /f1/@@opened  /f1/@@clone  /f1/@@who  /f1/f2/@@who  /f1/@@cookies  /++resource++style.css
        /++resource++logo.png  /++resource++none.css  /@@/style.css  /f1/@@/style.css  /f1/f2/file.bin
        /f1/f2/image.png  /f1/f2/image.png/tag  /f1/f2/image.png/nothing  /acl_users
        /VirtualHostBase/https/www.example.org:443/f1/VirtualHostRoot/_vh_a/f2/@@where  /f1/f2/virtual_hosting
        /VirtualHostBase/http/www.example.org:80/VirtualHostRoot/@@where  /f1/f2/note/add  /p_/sp
        /f1/@@doom?title=d  /f1/@@write?title=one  /f1/@@write_404?title=two  /f1/@@write_and_refuse?title=three
        /f1/@@commit?title=four  /f1/@@again?title=a&key=x&times=2  /f1/@@write  /f1/@@written
        /f1/@@nothing_returned
    """
    found = [Asked(path, "GET", path) for path in get.split()]
    found += [
        Asked("who, editor", "GET", "/f1/f2/@@who", EDITOR),
        Asked("who, editor outside", "GET", "/@@who", EDITOR),
        Asked("who, admin", "GET", "/f1/f2/@@who", ADMIN),
        Asked("wrong password", "GET", "/f1/@@private", basic("admin", "wrong")),
        Asked("private, editor", "GET", "/f1/@@private", EDITOR),
        Asked("private, admin", "GET", "/f1/@@private", ADMIN),
        Asked("manage_main", "GET", "/f1/manage_main", ADMIN),
        Asked("edit refused", "POST", "/f1/f2/note/edit", FORM, b"text=x"),
        Asked("edit", "POST", "/f1/f2/note/edit", {**FORM, **ADMIN}, b"text=changed+%C3%BC"),
        Asked("edit without a text", "POST", "/f1/f2/note/edit", {**FORM, **ADMIN}, b"a=1"),
        Asked("after the edit", "GET", "/f1/f2/note"),
        Asked("add a folder", "POST", "/f1/manage_addFolder", {**FORM, **ADMIN}, b"id=new&title=New"),
        Asked("add it again", "POST", "/f1/manage_addFolder", {**FORM, **ADMIN}, b"id=new&title=New"),
        Asked("add a file", "POST", "/f1/new/manage_addFile", {**MULTIPART, **ADMIN}, UPLOAD),
        Asked("the file", "GET", "/f1/new/uploaded"),
        Asked("rename", "POST", "/f1/new/manage_renameObject?id=uploaded&new_id=renamed", ADMIN),
        Asked("properties", "POST", "/f1/new/manage_changeProperties", {**FORM, **ADMIN}, b"title=T"),
        Asked("delete", "POST", "/f1/manage_delObjects", {**FORM, **ADMIN}, b"ids:list=new"),
        Asked("after the deletion", "GET", "/f1/new/renamed"),
        Asked("a method in the form", "POST", "/f1/f2/note", FORM, b"add:method=1&number=3"),
        Asked("a default method", "POST", "/f1/f2/note", FORM, b"add:default_method=1&number=3"),
        Asked("range", "GET", "/f1/f2/file.bin", {"HTTP_RANGE": "bytes=10-19"}),
        Asked("two ranges", "GET", "/f1/f2/file.bin", {"HTTP_RANGE": "bytes=0-4,-5"}),
        Asked("unsatisfiable range", "GET", "/f1/f2/file.bin", {"HTTP_RANGE": "bytes=999999-"}),
        Asked("file, by the server", "GET", "/f1/@@opened", {"wsgi.file_wrapper": FileWrapper}),
        Asked("not modified", "GET", "/f1/f2/file.bin", LATER),
        Asked("resource not modified", "GET", "/++resource++style.css", LATER),
        Asked("HEAD of a file", "HEAD", "/f1/f2/file.bin"),
        Asked("HEAD of a view", "HEAD", "/f1/@@plain"),
        Asked("HEAD of nothing", "HEAD", "/f1/none"),
        Asked("cookies", "GET", "/f1/@@cookies", {"HTTP_COOKIE": "x=1; y=2"}),
        Asked("XML-RPC", "POST", "/f1/f2/note", XML, CALL % (b"add", TWO)),
        Asked("XML-RPC, a fault", "POST", "/f1/f2/note", XML, CALL % (b"none", b"")),
        Asked("XML-RPC, refused", "POST", "/f1/f2/note", XML, CALL % (b"edit", TWO)),
        Asked("XML-RPC, a list", "POST", "/f1/f2", {**XML, **ADMIN}, CALL % (b"objectIds", b"")),
        Asked("OPTIONS", "OPTIONS", "/f1/f2"),
        Asked("PROPFIND refused", "PROPFIND", "/f1/f2", {"HTTP_DEPTH": "1"}, PROPFIND),
        Asked("PROPFIND", "PROPFIND", "/f1/f2", {**ADMIN, "HTTP_DEPTH": "1"}, PROPFIND),
        Asked("PUT", "PUT", "/f1/f2/put.txt", {**ADMIN, "CONTENT_TYPE": "text/plain"}, b"put"),
        Asked("PUT again", "PUT", "/f1/f2/put.txt", {**ADMIN, "CONTENT_TYPE": "text/plain"}, b"again"),
        Asked("MKCOL", "MKCOL", "/f1/f2/made", ADMIN),
        Asked("MOVE", "MOVE", "/f1/f2/put.txt", {**ADMIN, "HTTP_DESTINATION": "http://localhost/f1/f2/made/put.txt"}),
        Asked("COPY", "COPY", "/f1/f2/made", {**ADMIN, "HTTP_DESTINATION": "http://localhost/f1/f2/copied"}),
        Asked("DELETE refused", "DELETE", "/f1/f2/copied"),
        Asked("DELETE", "DELETE", "/f1/f2/copied", ADMIN),
        Asked("WebDAV below nothing", "PROPFIND", "/f1/none", {**ADMIN, "HTTP_DEPTH": "0"}, PROPFIND),
        Asked("PURGE", "PURGE", "/f1/f2"),
    ]  # fmt: skip
    return found


TABLE = table()
