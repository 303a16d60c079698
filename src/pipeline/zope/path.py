"""``zope_path``: the path as Zope reads it."""

from __future__ import annotations

from typing import Any

from webob.exc import HTTPBadRequest
from ZPublisher import WSGIPublisher

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response


@element(
    inside={
        "vhost": "the address of the site is taken off first",
        "retry": "every attempt starts with the same path",
    },
    outside={"zope_request": "the request of Zope has the path that it finds"},
)
def zope_path(next: Handler) -> Handler:
    """Decode the path as UTF-8, and lead requests to the port for WebDAV sources to what they mean.

    A path that is not UTF-8 is a 400 (S14). The port is ``webdav-source-port`` of the zope.conf.
    """

    def zope_path(request: Request, response: Response) -> None:
        environ = request.environ
        path = environ.get("PATH_INFO", "")
        if path.isascii() and not WSGIPublisher._WEBDAV_SOURCE_PORT:
            next(request, response)
            return
        put_path(environ, path)
        try:
            next(request, response)
        finally:
            environ["PATH_INFO"] = path  # for the log

    return zope_path


def put_path(environ: dict[str, Any], path: str) -> None:
    """Change ``PATH_INFO`` as ``publish_module`` does."""
    try:
        path = path.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise HTTPBadRequest("The path is not UTF-8.") from None
    port = WSGIPublisher._WEBDAV_SOURCE_PORT
    if port and str(environ.get("SERVER_PORT")) == str(port):
        environ["WEBDAV_SOURCE_PORT"] = 1
        if environ["REQUEST_METHOD"].upper() == "GET":
            path = f"{path}/manage_DAVget"
    environ["PATH_INFO"] = path
