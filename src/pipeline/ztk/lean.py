"""The request and the response of Zope, made in less time where their classes are the ones that Zope ships."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import zope.contenttype.parse
from webob.exc import HTTPBadRequest
from zope.app.publication.httpfactory import HTTPPublicationRequestFactory, chooseClasses
from zope.component import getSiteManager
from zope.i18n.interfaces import IUserPreferredCharsets, IUserPreferredLanguages
from zope.i18n.locales import locales
from zope.interface import providedBy
from zope.interface.declarations import Provides
from zope.interface.interfaces import IInterface
from zope.publisher.base import DebugFlags
from zope.publisher.browser import (
    BrowserLanguages,
    BrowserRequest,
    BrowserResponse,
    CacheableBrowserLanguages,
    ModifiableBrowserLanguages,
    base_re_search,
    isHTML,
    start_of_header_search,
)
from zope.publisher.http import (
    DEFAULT_PORTS,
    HTTPCharsets,
    HTTPInputStream,
    sane_environment,
    splitport,
    unicode_mimetypes_re,
)
from zope.publisher.interfaces import IDefaultSkin, ISkinnable, ISkinType
from zope.publisher.interfaces.http import IResult
from zope.publisher.skinnable import setDefaultSkin

from pipeline.ztk.known import has_plain_headers, is_plain_request, is_plain_response

OURS = ("pipeline.request", "pipeline.response")


def make_zope_request(factory: Any, environ: dict[str, Any]) -> Any:
    """Return the request that ``factory`` makes, with its publication and its skin.

    Raises HTTPBadRequest for a path that is not UTF-8, which Zope would raise to the server.
    """
    path = environ.get("PATH_INFO", "")
    if not path.isascii():
        try:
            path.encode("latin-1").decode()
        except UnicodeDecodeError:
            raise HTTPBadRequest("The path is not UTF-8.") from None
    if type(factory) is not HTTPPublicationRequestFactory:
        request = factory(environ["wsgi.input"], environ)
        hide_pipeline(request, environ)
        return request
    method = environ["REQUEST_METHOD"].upper()
    cls, publication_class = chooseClasses(method, environ)
    cache = factory._publication_cache
    publication = cache.get(publication_class)
    if publication is None:
        publication = cache[publication_class] = publication_class(factory._db)
    if type(cls) is type and is_plain_request(cls):
        request = plain_request(cls, method, environ)
        request._publication = publication
    else:
        request = cls(environ["wsgi.input"], environ)
        hide_pipeline(request, environ)
        request.setPublication(publication)
    if ISkinnable.providedBy(request):
        put_default_skin(request)
    return request


def hide_pipeline(request: Any, environ: dict[str, Any]) -> None:
    """Take our objects out of the copy of the environ that a request of Zope has made: they refer to it."""
    copy = getattr(request, "_environ", environ)
    if copy is not environ:
        for key in OURS:
            copy.pop(key, None)


def plain_request(cls: Any, method: str, environ: dict[str, Any]) -> Any:
    """Make a request as ``BrowserRequest.__init__`` and ``HTTPRequest.__init__`` do."""
    request = cls.__new__(cls)
    if issubclass(cls, BrowserRequest):
        request.form = {}
        request.charsets = None
    request._traversal_stack = []
    request._last_obj_traversed = None
    request._traversed_names = []
    request._args = request._held = ()
    response = request._response = request._createResponse()
    response._request = request
    request._body_instream = HTTPInputStream(environ["wsgi.input"], environ)
    request._principal = request.interaction = request._vh_root = None
    request.debug = DebugFlags()
    request.annotations = {}
    request._orig_env = environ
    request.method = method
    sane = request._environ = sane_copy(environ)
    request._auth = sane.pop("HTTP_AUTHORIZATION", None)
    header = sane.get("HTTP_COOKIE")
    request._cookies = {} if header is None else cookies_of(request, header)
    put_path(request, sane.get("PATH_INFO", "/"))
    put_server(request, sane)
    put_locale(request, sane)
    return request


def sane_copy(environ: dict[str, Any]) -> dict[str, Any]:
    """Return what ``sane_environment`` returns, without our own objects."""
    if "HTTP_CGI_AUTHORIZATION" in environ or "REDIRECT_" in "\n".join(environ):
        sane: dict[str, Any] = sane_environment(environ)
    else:
        sane = environ.copy()
        path = sane.get("PATH_INFO")
        if path is not None and not path.isascii():
            sane["PATH_INFO"] = path.encode("latin1").decode("utf-8")
    for key in OURS:
        sane.pop(key, None)
    return sane


_SIMPLE_COOKIES = re.compile(r"[A-Za-z0-9_.-]+=[A-Za-z0-9_.%+/:=@-]*(; [A-Za-z0-9_.-]+=[A-Za-z0-9_.%+/:=@-]*)*")
_ATTRIBUTES = frozenset(
    {"expires", "path", "comment", "domain", "max-age", "secure", "httponly", "version", "samesite", "partitioned"}
)


def cookies_of(request: Any, header: str) -> dict[str, str]:
    """Return the cookies of a header; plain ones without ``http.cookies``, which takes 5 microseconds for each."""
    if _SIMPLE_COOKIES.fullmatch(header):
        cookies = dict(pair.split("=", 1) for pair in header.split("; "))
        if _ATTRIBUTES.isdisjoint(map(str.lower, cookies)):
            return cookies
    return request._parseCookies(header, {})  # type: ignore[no-any-return]


def put_path(request: Any, path: str) -> None:
    """Set the steps to be walked, as ``_setupPath_helper`` does."""
    if "/." in path or path[:1] == ".":
        request._setupPath_helper("PATH_INFO")
        return
    request._endswithslash = path[-1:] == "/"
    stack = [name for name in path.split("/") if name]
    stack.reverse()
    request._traversal_stack = stack
    request._path_suffix = None


LANGUAGES = (BrowserLanguages, CacheableBrowserLanguages, ModifiableBrowserLanguages)
"""Adapters that look at the header alone."""


def put_server(request: Any, environ: dict[str, Any]) -> None:
    """Set the server and the path of the application, which URLs begin with."""
    if "SERVER_URL" in environ:
        request._HTTPRequest__setupURLBase()
        return
    script = environ.get("SCRIPT_NAME", "")
    request._app_names = [name for name in script.strip().split("/") if name] if script else []
    request._app_server = server_of(
        environ.get("HTTPS", "").lower() == "on" or environ.get("SERVER_PORT_SECURE") == "1",
        environ.get("HTTP_HOST"),
        environ.get("SERVER_NAME", ""),
        environ.get("SERVER_PORT", ""),
    )


@lru_cache(maxsize=256)
def server_of(is_secure: bool, header: str | None, name: str, port: str | None) -> str:
    """Return the address of the server, as the request says it."""
    scheme = "https" if is_secure else "http"
    host = name.strip()
    if header is not None:
        host, port = splitport(header.strip())
    if port and port != DEFAULT_PORTS[scheme]:
        host = f"{host}:{port}"
    return f"{scheme}://{host}".removesuffix("/")


def put_locale(request: Any, environ: dict[str, Any]) -> None:
    """Set the locale of a request; the one of a client that says nothing is always the same."""
    if "HTTP_ACCEPT_LANGUAGE" in environ:
        request.setupLocale()
    elif getSiteManager().adapters.lookup1(providedBy(request), IUserPreferredLanguages) in LANGUAGES:
        request._locale = locales.getLocale(None, None, None)
    else:
        request.setupLocale()


def put_default_skin(request: Any) -> None:
    """Set the skin of a request, as ``setDefaultSkin`` does."""
    adapters = getSiteManager().adapters
    provided = (providedBy(request),)
    skin = adapters.lookup(provided, IDefaultSkin, "")
    if skin is None:
        skin = adapters.lookup(provided, IDefaultSkin, "default")
    if skin is None:
        setDefaultSkin(request)
        return
    if not IInterface.providedBy(skin):
        skin = skin(request)
    if ISkinType.providedBy(skin):
        request.__provides__ = skinned(type(request), skin)
    else:
        setDefaultSkin(request)  # which says what is wrong


skinned: Callable[[Any, Any], Any] = lru_cache(maxsize=256)(Provides)
"""Makes what ``directlyProvides`` puts on a request of a class with a skin."""


# The response.


def put_result(request: Any, answer: Any, result: Any) -> None:
    """Set the result of a response, as ``setResult`` does."""
    if (
        type(result) is str
        and is_plain_response(type(answer))
        and getSiteManager().adapters.lookup((providedBy(result), providedBy(request)), IResult) is None
        and not IResult.providedBy(result)
        and wants_utf8(request)
        and put_text(answer, result)
    ):
        return
    answer.setResult(result)


def wants_utf8(request: Any) -> bool:
    """Return whether the charset of the answer is UTF-8, as far as can be told without parsing a header."""
    if getSiteManager().adapters.lookup1(providedBy(request), IUserPreferredCharsets) is not HTTPCharsets:
        return False
    if getattr(request, "form", True) or not is_plain_request(type(request)):
        return not request.get("HTTP_ACCEPT_CHARSET")
    return not (request._cookies.get("HTTP_ACCEPT_CHARSET") or request._environ.get("HTTP_ACCEPT_CHARSET"))


def put_text(answer: Any, text: str) -> bool:
    """Set text in UTF-8 as the result; False if the response has to do it."""
    headers = answer._headers
    is_browser = isinstance(answer, BrowserResponse)
    given = headers.get("content-type")
    if given:
        content_type = given[0]
    elif is_browser and answer._status != 304:
        content_type = "text/html" if is_html(text) else "text/plain"
    else:
        return False
    sent = in_utf8(content_type)
    if sent is None:
        return False
    body = text.encode()
    if is_browser and content_type.startswith("text/html") and (base := answer.getBase()):
        body = with_base(body, base)
    if not given:
        headers["x-content-type-warning"] = ["guessed from content"]
    headers["content-type"] = [sent]
    headers["content-length"] = [str(len(body))]
    answer._result = (body,)
    if not answer._status_set:
        answer.setStatus(200)
    return True


def is_html(text: str) -> bool:
    """Return what ``isHTML`` returns, which changes the whole text to lower case."""
    start = text[:15]
    if start[:1].isspace() or start.startswith("<!--"):
        return isHTML(text)  # type: ignore[no-any-return]
    start = start.lower()
    return start.startswith("<!doctype html") or start[:6] in ("<html", "<html ", "<html>")


def with_base(body: bytes, base: str | bytes) -> bytes:
    """Return a page with the address in its head that relative links start from."""
    head = start_of_header_search(body)
    if head is None or base_re_search(body) is not None:
        return body
    if isinstance(base, str):
        base = base.encode()
    return b"".join([body[: head.end()], b'\n<base href="', base, b'" />\n', body[head.end() :]])


@lru_cache(maxsize=256)
def in_utf8(content_type: str) -> str | None:
    """Return the header ``Content-Type`` of a text in UTF-8; None if the response has to find it out."""
    if len(content_type) > 200 or not unicode_mimetypes_re.match(content_type):
        return None
    try:
        major, minor, parameters = zope.contenttype.parse.parse(content_type)
    except ValueError:
        return None
    if parameters.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        return None
    if (major, minor) != ("application", "json"):
        parameters["charset"] = parameters.get("charset", "utf-8")
    return ";".join([f"{major}/{minor}", *(f"{name}={value}" for name, value in parameters.items())])


POWERED_BY = ("X-Powered-By", "Zope (www.zope.org), Python (www.python.org)")


def headers_of(answer: Any, in_memory: bool) -> list[tuple[str, str]]:
    """Return the headers of a response, as ``getHeaders`` does; the edge knows the length of a body in memory."""
    if answer._cookies or not has_plain_headers(type(answer)):
        return answer.getHeaders()  # type: ignore[no-any-return]
    found = [POWERED_BY]
    for name, values in sorted(answer._headers.items(), key=_lower):
        if in_memory and name == "content-length":
            continue
        shown = _capitals(name)
        for value in values:
            found.append((shown, value))
    return found


def _lower(header: tuple[str, Any]) -> str:
    return header[0].lower()


@lru_cache(maxsize=1024)
def _capitals(name: str) -> str:
    if name.lower() != name:
        return name  # a literal one
    return "-".join(part.capitalize() for part in name.split("-"))
