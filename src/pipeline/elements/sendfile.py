"""``sendfile``: nginx sends files itself, and the site only says which (``X-Accel-Redirect``)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from pipeline.composition import element
from pipeline.http.conditional import precondition
from pipeline.http.files import PASSED_ON, FileBody
from pipeline.interfaces import Facts, Handler, OptionError
from pipeline.request import Request
from pipeline.response import Response

_KEPT = {"accept-ranges", "cache-control", "content-disposition", "content-length", "content-type", "expires"}
_KNOWN = _KEPT | {name.lower() for name in PASSED_ON} | {"set-cookie"}

_LOCATION = re.compile(r"/(?:[A-Za-z0-9_.~-]+/)+")


@element(
    facts=lambda *, locations: Facts(locations=locations or {}),
    inside={"errors": "a file that is left to nginx is the answer of a view, and not of an error page"},
    outside={
        "base": "a file that a filter changes is sent by the site, so all filters must be known",
        "compress": "nginx sends the bytes of the file, so the filters of the delivery are taken away",
    },
)
def sendfile(next: Handler, *, locations: dict[str, str] | None = None) -> Handler:
    """Leave files beneath some directories to nginx: it reads them from the disk, and serves ranges of them.

    locations  lines "directory = /location/": an absolute path, and the internal location of nginx that has this
               directory. Empty turns this element off

    The answer gets the header ``X-Accel-Redirect`` in place of its body. ``pipeline deploy nginx`` writes the
    internal locations. Without such an nginx in front, clients would get an empty file.

    The site sends the file itself if nginx could not give the same answer: for another method than GET, a part of a
    file, a file that a filter changes, and an answer with a header that the location does not pass on. It also
    answers 304 and 412 itself, since its ETag is the one that counts. A symbolic link that leads out of the
    directory is not followed.
    """
    if not locations:
        return next
    tops = _tops(locations)

    def sendfile(request: Request, response: Response) -> None:
        next(request, response)
        body = response.blocks
        if type(body) is not FileBody or response.filters or not _is_for_nginx(request.environ, response):
            return
        location = _location_of(body, tops)
        if location is not None:
            request.close_with(body)
            response.app_iter = []
            response.delivery_filters = ()
            response.conditional_response = False
            response.headers.pop("Accept-Ranges", None)  # nginx says it itself
            response.headers["X-Accel-Redirect"] = location

    return sendfile


def _tops(locations: Mapping[str, str]) -> list[tuple[bytes, str]]:
    """Return the resolved directories, each with a slash at its end, and their locations; the longest first."""
    tops = []
    for directory, location in locations.items():
        if not os.path.isabs(directory) or not _LOCATION.fullmatch(location):
            raise OptionError(
                f"option 'locations': {directory} = {location} is not an absolute path and a location that begins "
                f"and ends with a slash, such as /srv/site/blobs = /_blobs/"
            )
        tops.append((os.path.join(os.fsencode(os.path.realpath(directory)), b""), location))
    return sorted(tops, key=lambda top: len(top[0]), reverse=True)


def _is_for_nginx(environ: dict[str, Any], response: Response) -> bool:
    """Return whether nginx can give the answer that the site would give."""
    if environ["REQUEST_METHOD"] != "GET" or response.status_code != 200:
        return False
    if "HTTP_IF_MATCH" in environ or "HTTP_IF_UNMODIFIED_SINCE" in environ:
        return False  # nginx would compare them with a state of the file that is its own
    names = [name.lower() for name, _ in response.headerlist if name.lower() != "set-cookie"]
    if not _KNOWN.issuperset(names) or len(set(names)) < len(names):
        return False
    validators = response.headers.get("ETag"), response.headers.get("Last-Modified")
    return not response.conditional_response or precondition(environ, *validators) is None


def _location_of(body: FileBody, tops: list[tuple[bytes, str]]) -> str | None:
    """Return the location of a whole file in nginx, or None if it is not beneath one of the directories.

    The path without symbolic links must still be that of the open file.
    """
    name = getattr(body.file, "name", None)
    if body.state is None or body.left != body.state.st_size or not isinstance(name, (str, bytes)):
        return None
    path = os.path.realpath(os.fsencode(name))
    for top, location in tops:
        if path.startswith(top):
            with suppress(OSError):  # it was deleted
                if os.path.samestat(os.stat(path), body.state):
                    return location + quote(path[len(top) :])
    return None
