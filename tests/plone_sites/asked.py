"""The requests that two Plone sites are compared by. {cookie} and {token} are those of answers before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode
from wsgiref.util import FileWrapper

from zope_sites.asked import FORM, MULTIPART, NONE, PROPFIND, Asked, basic

ADMIN, EDITOR, READER = basic("admin"), basic("editor", "secret-word"), basic("reader", "secret-word")
LOGGED_IN = {"HTTP_COOKIE": "{cookie}"}
TO_JSON = {"HTTP_ACCEPT": "application/json"}
JSON = {**TO_JSON, "CONTENT_TYPE": "application/json"}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100"
    "c9fe92ef0000000049454e44ae426082"
)
LATER = {"HTTP_IF_MODIFIED_SINCE": "Fri, 01 Jan 2038 00:00:00 GMT"}
ANONYMOUS = """
    /  /Plone  /Plone/about  /Plone/about/view  /Plone/about/@@view  /Plone/folder  /Plone/folder/
    /Plone/folder/page  /Plone/folder/news  /Plone/folder/link  /Plone/folder/collection  /Plone/folder/picture
    /Plone/folder/picture/view  /Plone/folder/picture/@@images/image  /Plone/folder/picture/@@images/image/thumb
    /Plone/folder/picture/@@images/image/none  /Plone/folder/data  /Plone/folder/data/view
    /Plone/folder/data/@@download/file  /Plone/folder/data/@@display-file/file  /Plone/folder/secret
    /Plone/folder/secret/edit  /Plone/folder/closed  /Plone/none  /Plone/folder/page/none  /Plone/folder/about
    /Plone/folder/page/folder/page  /Plone/login  /Plone/logout  /Plone/require_login  /Plone/sitemap
    /Plone/sitemap.xml.gz  /Plone/contact-info  /Plone/@@search?SearchableText=text
    /Plone/search?sort_on=x&b_start:int=none
    /Plone/folder/@@search?SearchableText=%C3%BCnicode  /Plone/robots.txt  /Plone/favicon.ico  /Plone/manage_main
    /manage_main  /Plone/@@overview-controlpanel  /Plone/portal_catalog  /Plone/acl_users  /Plone/folder/RSS
    /Plone/++theme++barceloneta/index.html  /Plone/++theme++barceloneta/none.css  /Plone/++plone++static/none.js
    /Plone/++resource++plone-logo.svg  /Plone/++api++/about  /Plone/ruled/some/path
    /Plone/@@error-log-form  /Plone/aq_base  /Plone/about/_secret  /Plone/about/Title  /Plone/about/setTitle
    /Plone/about/@@plone_context_state/object_url  /Plone/about/sendto_form  /Plone/about?ajax_load=1
    /VirtualHostBase/https/www.example.org:443/Plone/VirtualHostRoot/folder/page
    /VirtualHostBase/http/www.example.org:80/Plone/VirtualHostRoot/_vh_a/folder
    /VirtualHostBase/http/www.example.org:80/Plone/VirtualHostRoot/folder/secret
"""
OF_RESTAPI = """
    /Plone  /Plone/about  /Plone/folder  /Plone/folder/secret  /Plone/none  /Plone/folder/picture
    /Plone/@search?SearchableText=text  /Plone/@types  /Plone/@navigation  /Plone/folder?fullobjects=1
    /Plone/@users  /Plone/folder/page/@workflow  /Plone/@querystring-search  /Plone/@site  /Plone/@nothing
    /Plone/about/@breadcrumbs  /Plone/about/@actions  /Plone/++api++/about
"""


def sent(method: str, path: str, value: Any, headers: Mapping[str, str] = EDITOR) -> Asked:
    """Return a request of restapi with a body."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Asked(f"restapi {method} {path} {body[:40]!r}", method, path, {**JSON, **headers}, body)


def field_name(name: str) -> str:
    return name if name.startswith("__") else name.replace("__", ".")


def posted(name: str, path: str, headers: Mapping[str, str] = LOGGED_IN, **fields: str) -> Asked:
    """Return a form that is sent."""
    body = urlencode({field_name(name): value for name, value in fields.items()}).encode()
    return Asked(name, "POST", path, {**FORM, **headers}, body.replace(b"%7Btoken%7D", b"{token}"))


def table() -> list[Asked]:
    """Return the requests, in an order in which later ones see what earlier ones have stored."""
    found = [Asked(path, "GET", path) for path in ANONYMOUS.split()]
    found += [Asked(f"restapi {path}", "GET", path, TO_JSON) for path in OF_RESTAPI.split()]
    data, picture = "/Plone/folder/data/@@download/file", "/Plone/folder/picture/@@images/image"
    dexterity = {"_authenticator": "{token}", "form__buttons__save": "Save"}
    title = "form__widgets__IDublinCore__title"
    found += [
        posted("wrong password", "/Plone/login", NONE, __ac_name="editor", __ac_password="x",
               buttons__login="Log in"),
        posted("login", "/Plone/login", NONE, __ac_name="editor", __ac_password="secret-word",
               buttons__login="Log in"),
        Asked("a page, logged in", "GET", "/Plone/about", LOGGED_IN),
        Asked("secret, logged in", "GET", "/Plone/folder/secret", LOGGED_IN),
        Asked("closed, logged in", "GET", "/Plone/folder/closed", LOGGED_IN),
        Asked("form to add", "GET", "/Plone/folder/++add++Document", LOGGED_IN),
        posted("add", "/Plone/folder/++add++Document", **dexterity, **{title: "New page"}),
        posted("add without a title", "/Plone/folder/++add++Document", **dexterity),
        Asked("add a picture", "POST", "/Plone/folder/++add++Image", {**MULTIPART, **LOGGED_IN}, PICTURE),
        Asked("what was added", "GET", "/Plone/folder/new-page", LOGGED_IN),
        Asked("form to edit", "GET", "/Plone/folder/new-page/edit", LOGGED_IN),
        posted("edit", "/Plone/folder/new-page/edit", **dexterity, **{title: "Changed ü"}),
        posted("edit without a token", "/Plone/folder/new-page/edit", form__buttons__save="Save", **{title: "No"}),
        Asked("publish", "GET", "/Plone/folder/new-page/content_status_modify?workflow_action=publish"
              "&_authenticator={token}", LOGGED_IN),
        Asked("publish without a token", "GET", "/Plone/about/content_status_modify?workflow_action=retract",
              LOGGED_IN),
        Asked("contents", "GET", "/Plone/folder/folder_contents", LOGGED_IN),
        Asked("form to delete", "GET", "/Plone/folder/new-page/delete_confirmation", LOGGED_IN),
        posted("delete", "/Plone/folder/new-page/delete_confirmation", _authenticator="{token}",
               form__buttons__Delete="Delete"),
        Asked("what was deleted", "GET", "/Plone/folder/new-page", LOGGED_IN),
        Asked("control panel, editor", "GET", "/Plone/@@overview-controlpanel", LOGGED_IN),
        Asked("logout", "GET", "/Plone/logout", LOGGED_IN),
        Asked("secret, Basic", "GET", "/Plone/folder/secret", EDITOR),
        Asked("secret, reader", "GET", "/Plone/folder/secret", READER),
        Asked("secret, wrong password", "GET", "/Plone/folder/secret", basic("editor", "x")),
        Asked("control panel", "GET", "/Plone/@@overview-controlpanel", ADMIN),
        Asked("management of Zope", "GET", "/manage_main", ADMIN),
        Asked("management of Plone", "GET", "/Plone/manage_main", ADMIN),
        Asked("folder of Zope, no token", "POST", "/manage_addFolder", {**FORM, **ADMIN}, b"id=made&title=Made"),
        Asked("delete what is not there", "POST", "/manage_delObjects", {**FORM, **ADMIN}, b"ids:list=made"),
        Asked("range", "GET", data, {"HTTP_RANGE": "bytes=10-19"}),
        Asked("last bytes", "GET", data, {"HTTP_RANGE": "bytes=-5"}),
        Asked("file, by the server", "GET", data, {"wsgi.file_wrapper": FileWrapper}),
        Asked("two ranges", "GET", data, {"HTTP_RANGE": "bytes=0-4,-5"}),
        Asked("unsatisfiable range", "GET", data, {"HTTP_RANGE": "bytes=999999-"}),
        Asked("file not modified", "GET", data, LATER),
        Asked("picture not modified", "GET", picture, LATER),
        Asked("HEAD of a page", "HEAD", "/Plone/about"),
        Asked("HEAD of a file", "HEAD", data),
        Asked("HEAD of nothing", "HEAD", "/Plone/none"),
        sent("POST", "/Plone/@login", {"login": "editor", "password": "secret-word"}, NONE),
        sent("POST", "/Plone/@login", {"login": "editor", "password": "x"}, NONE),
        sent("POST", "/Plone/folder", {"@type": "Document", "title": "By restapi"}),
        sent("POST", "/Plone/folder", {"@type": "Document", "title": "Refused"}, NONE),
        sent("POST", "/Plone/folder", {"@type": "Nothing", "title": "x"}),
        sent("POST", "/Plone/folder", b"{not json"),
        sent("POST", "/Plone/folder", {"@type": "File", "title": "f", "file": {
            "data": "YWJj", "encoding": "base64", "filename": "f.txt", "content-type": "text/plain"}}),
        Asked("the file of restapi", "GET", "/Plone/folder/f.txt/@@download/file", EDITOR),
        sent("PATCH", "/Plone/folder/by-restapi", {"title": "Changed", "text": "<p>x<script>y</script></p>"}),
        sent("PATCH", "/Plone/folder/by-restapi", {"title": None}),
        sent("POST", "/Plone/folder/by-restapi/@workflow/publish", {}),
        sent("POST", "/Plone/folder/by-restapi/@workflow/none", {}),
        sent("POST", "/Plone/@copy", {"source": "/folder/by-restapi"}, ADMIN),
        sent("POST", "/Plone/@move", {"source": "/copy_of_by-restapi"}, ADMIN),
        sent("PATCH", "/Plone/folder", {"ordering": {"obj_id": "by-restapi", "delta": "top"}}),
        sent("DELETE", "/Plone/folder/by-restapi", b""),
        sent("GET", "/Plone/folder", b""),
        sent("POST", "/Plone/@users", {
            "username": "made", "email": "a@example.org", "password": "secret-word"}, ADMIN),
        Asked("OPTIONS", "OPTIONS", "/Plone/folder", EDITOR),
        Asked("PROPFIND", "PROPFIND", "/Plone/folder", {**EDITOR, "HTTP_DEPTH": "1"}, PROPFIND),
        Asked("PROPFIND refused", "PROPFIND", "/Plone/folder", {"HTTP_DEPTH": "0"}, PROPFIND),
        Asked("PUT", "PUT", "/Plone/folder/put.txt", {**ADMIN, "CONTENT_TYPE": "text/plain"}, b"put"),
        Asked("what was put", "GET", "/Plone/folder/put.txt", ADMIN),
        Asked("MKCOL", "MKCOL", "/Plone/folder/collected", ADMIN),
        Asked("MOVE", "MOVE", "/Plone/folder/put.txt", {
            **ADMIN, "HTTP_DESTINATION": "http://localhost/Plone/folder/collected/put.txt"}),
        Asked("LOCK", "LOCK", "/Plone/folder/page", {**ADMIN, "CONTENT_TYPE": "text/xml"}, LOCK),
        Asked("DELETE", "DELETE", "/Plone/folder/collected", ADMIN),
        Asked("DELETE refused", "DELETE", "/Plone/folder/page"),
        Asked("PURGE", "PURGE", "/Plone/folder"),
        Asked("XML-RPC", "POST", "/Plone/about", {"CONTENT_TYPE": "text/xml"}, b"<methodCall><methodName>Title"
              b"</methodName><params/></methodCall>"),
    ]  # fmt: skip
    return found


PARTS = {
    "_authenticator": b"{token}",
    "form.widgets.IDublinCore.title": b"Uploaded",
    "form.widgets.image.action": b"replace",
    'form.widgets.image"; filename="dot.png': PIXEL,
    "form.buttons.save": b"Save",
}
PICTURE = b"".join(
    b'--b\r\nContent-Disposition: form-data; name="%s"\r\n%s\r\n%s\r\n'
    % (name.encode(), b"Content-Type: image/png\r\n" if "filename" in name else b"", value)
    for name, value in PARTS.items()
)
PICTURE += b"--b--\r\n"
LOCK = (
    b'<?xml version="1.0"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype>'
    b"<owner>me</owner></lockinfo>"
)
TABLE = table()
