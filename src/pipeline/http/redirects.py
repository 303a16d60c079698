"""Redirects, and the check that keeps them on this site (S8).

``judge`` checks the ``Location`` of every 3xx answer of a view or an element, however it was made: by ``redirect``,
by an exception of ``webob.exc``, by ``response.location`` or by a returned response. The publisher calls it after
each view, so that a view that fails stores nothing. The edge calls it for every answer. The answer of a foreign
WSGI app is not checked.

It reads an address as a browser does (WHATWG URL, basic parser), and refuses addresses that not all clients read in
the same way.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from webob.exc import HTTPException, HTTPFound, status_map

from pipeline.http.exceptions import make_exception
from pipeline.http.hosts import PORTS
from pipeline.interfaces import UnsafeRedirect
from pipeline.request import PATH_SAFE, Request
from pipeline.response import HeaderList, Response

_ASCII = "".join(map(chr, range(33, 127)))
_MALFORMED = re.compile(r"[\x00-\x20\x7f]")
_PATH_ALONE = re.compile(r"/(?!/)[!-\[\]-~]*+")
"""A path on this host, in which no client reads anything else: one slash at its start, and no backslash."""
_ABSOLUTE = re.compile(r"(?:(https?):)?//([^/?#]*)", re.IGNORECASE)
_HAS_SCHEME = re.compile(r"[^/?#]*:")


class Trusted(str):
    """A location that may leave this site: one of ``redirect(trusted=True)``, or of a foreign app."""


def redirect(location: str, status: int = 302, *, trusted: bool = False) -> HTTPException:
    """Make a redirect to ``location``, which a view returns or raises. It must stay on this origin (S8).

    ``location`` is a path, a query, a relative reference, or an absolute URL of this site, such as one of
    ``request.absolute_url``. ``trusted=True`` allows any address. Raises UnsafeRedirect if the location contains a
    blank or a control character. The origin is checked when the view has returned.
    """
    _refuse_malformed(location)
    if not location.isascii():
        try:
            location = quote(location, safe=_ASCII)
        except UnicodeEncodeError:
            raise UnsafeRedirect(f"a redirect to {location!r}, which cannot be encoded as UTF-8") from None
    if status not in (301, 302, 303, 307, 308):
        raise ValueError(f"{status} is not the status of a redirect: use 301, 302, 303, 307 or 308")
    return make_exception(status_map[status], location=Trusted(location) if trusted else location)


def judge_redirect(request: Request, response: Response, view: object = None) -> bool:
    """Raise UnsafeRedirect if the answer, made by ``view`` or by an element, is a redirect that may not be sent.
    Return whether it has a Trusted location."""
    status = response.status
    has_trusted = False
    if status[:1] != "3":
        return False
    for name, location in response.headerlist:
        if len(name) != 8 or name.lower() != "location":
            continue
        if type(location) is Trusted:
            has_trusted = True
        elif status[:3] != "304" and not _PATH_ALONE.fullmatch(location):
            try:
                refuse_leaving(location, request.host_url)
            except UnsafeRedirect as error:
                maker = "an element" if view is None else f"view {view}"
                raise UnsafeRedirect(f"{maker} answers {status} with {error}") from None
    return has_trusted


def refuse_leaving(location: str, origin: str) -> None:
    """Raise UnsafeRedirect if a browser that is at ``origin`` (``request.host_url``) would leave it."""
    _refuse_malformed(location)
    read = location.replace("\\", "/")
    absolute = _ABSOLUTE.match(read)
    if absolute is None:
        stays = _HAS_SCHEME.match(read) is None
    else:
        own_scheme, _, own_host = origin.partition("://")
        scheme, host = absolute.groups()
        hosts = [one.lower().removesuffix(f":{PORTS.get(own_scheme)}") for one in (host, own_host)]
        same = (scheme or own_scheme).lower() == own_scheme and host != "" and hosts[0] == hosts[1]
        stays = same and "\\" not in location[: absolute.end() + 1]  # other clients read on to an "@" behind it
    if not stays:
        raise UnsafeRedirect(
            f"a redirect to {location!r}, which leaves {origin}: if that is meant, use redirect(..., trusted=True)"
        )


def _refuse_malformed(location: str) -> None:
    """Refuse blanks and control characters. A browser drops some of them, and so reads another address."""
    if _MALFORMED.search(location) is not None:
        raise UnsafeRedirect(
            f"a redirect to {location!r}, which has a blank or control character: percent-encode it"
        )


def of_foreign(headers: HeaderList) -> HeaderList:
    """Return the headers of a redirect of a foreign app, marked as trusted."""
    return [(name, Trusted(value) if name.lower() == "location" else value) for name, value in headers]


def check_redirect(request: Request, response: Response) -> None:
    """Judge an answer that is about to be sent, and turn Trusted values into plain ``str``, as servers want them
    (PEP 3333)."""
    if judge_redirect(request, response):
        headers = response.headerlist
        headers[:] = [(name, str(value)) if type(value) is Trusted else (name, value) for name, value in headers]


def add_slash(request: Request) -> None:
    """Redirect GET and HEAD to the same path with a slash. The address is made from the segments and not from the
    path: a browser would read ``//host`` as another site (S8)."""
    environ = request.environ
    path = environ.get("PATH_INFO", "")
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD") or (not path and not environ.get("SCRIPT_NAME")):
        return
    segments = path.encode("latin-1").decode("utf-8").split("/")
    walked = [quote(segment, safe=PATH_SAFE) for segment in segments if segment and segment != "."]
    location = "/".join((quote(request.script_name, safe="/" + PATH_SAFE), *walked, ""))
    if query := environ.get("QUERY_STRING"):
        location += f"?{quote(query.encode('latin-1', 'replace'), safe=PATH_SAFE + '/?%')}"
    raise make_exception(HTTPFound, location=location)
