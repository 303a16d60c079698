"""Requests that another site has a browser send. They are refused, unless their view says otherwise (S23)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webob.exc import HTTPForbidden

from pipeline.interfaces import OptionError
from pipeline.request import SAFE_METHODS, Request

LET_IN = "pipeline.let_in"
"""Key of the environ if ``cors`` has let in the script of an origin: True if it may act as the visitor."""


class CrossSiteRequest(HTTPForbidden):
    """The refusal of an unsafe request that another site has made a browser send."""


def is_cross_site(request: Request) -> bool:
    """Return whether a browser says that another site made it send this request."""
    environ: dict[str, Any] = request.environ
    if LET_IN in environ:
        return False
    site = environ.get("HTTP_SEC_FETCH_SITE")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = environ.get("HTTP_ORIGIN")
    if origin is None:
        return False
    # host_url, since a browser leaves out the default port. The scheme is not compared: behind a proxy that
    # ``vhost`` does not trust, it differs from that of the browser.
    return bool(origin.partition("://")[2].lower() != request.host_url.partition("://")[2].lower())


def refuse_cross_site(request: Request) -> None:
    """Raise CrossSiteRequest if a browser says that another site made it send this request, and its method may
    change something. A link of another site may lead here."""
    if request.environ["REQUEST_METHOD"] not in SAFE_METHODS and is_cross_site(request):
        raise CrossSiteRequest("This request came from another site.")


def mount_at(option: str, path: str) -> str:
    """Return the path of a mounted application as an environ has it (PEP 3333). Raise an OptionError for any other
    text."""
    if not path.startswith("/") or path.endswith("/") or "//" in path:
        raise OptionError(f"option {option!r}: {path!r} is not the path of an application, such as /api")
    return path.encode().decode("latin-1")


def mount_of(asked: str, paths: Iterable[str]) -> str | None:
    """Return the first of some paths that is the path of a request, or above it; None if there is none, or if the
    request goes up: Pyramid and Zope take ``/api/../admin`` for ``/admin``."""
    above = (path for path in paths if asked == path or asked.startswith(path + "/"))
    return next(above, None) if "/../" not in f"{asked}/" else None


def guard_end(request: Request) -> None:
    """Refuse requests of other sites where no view can say that it accepts them, unless ``vhost`` lets them in."""
    if not request.cross_site:
        refuse_cross_site(request)
