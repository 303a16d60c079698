"""A Zope site as one WSGI application: the drop-in for ``zope.app.wsgi.WSGIPublisherApplication``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import zope.app.wsgi
from zope.app.publication.httpfactory import HTTPPublicationRequestFactory
from zope.app.wsgi.interfaces import WSGIPublisherApplicationCreated
from zope.event import notify

from pipeline.composition import Element, Pipeline
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import zodb
from pipeline.paste import with_facts
from pipeline.toolkit.manager import ImplicitManager
from pipeline.toolkit.site import facts_of, options_of
from pipeline.ztk.authenticate import ztk_authenticate
from pipeline.ztk.errors import ztk_errors
from pipeline.ztk.publisher import ztk_publisher
from pipeline.ztk.request import ztk_request
from pipeline.ztk.site import database, load
from pipeline.ztk.traverse import ztk_traverse


class WSGIPublisherApplication(zope.app.wsgi.WSGIPublisherApplication):  # type: ignore[misc]
    """A Zope site on the pipeline, with the signature and the name of zope.app.wsgi's class."""

    def __init__(
        self,
        db: Any = None,
        factory: Any = HTTPPublicationRequestFactory,
        handle_errors: bool = True,
        *,
        attempts: int | None = None,
    ) -> None:
        super().__init__(db, factory, handle_errors)
        request = ztk_request(factory=self.requestFactory)
        self.pipeline = Pipeline(*elements(db, attempts, request, ztk_errors(handle_errors=handle_errors)))

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not self.handleErrors:
            environ.setdefault("wsgi.handleErrors", False)  # for the edge too
        if "REQUEST_METHOD" in environ:
            return self.pipeline(environ, start_response)
        environ["REQUEST_METHOD"] = "GET"  # no server leaves it out, but Zope's own tests do
        try:
            return self.pipeline(environ, start_response)
        finally:
            del environ["REQUEST_METHOD"]


def elements(db: Any, attempts: int | None, request: Element, errors: Element, **options: Any) -> list[Element]:
    """Return the elements of a Toolkit site.

    options  those of ``ztk_publisher``
    """
    return [
        retry() if attempts is None else retry(attempts=attempts),
        *(() if db is None else (zodb(db=db, manager=ImplicitManager),)),
        request,
        errors,
        transaction(),
        ztk_authenticate(),
        ztk_traverse(),
        ztk_publisher(**options),
    ]


def parts_of(global_conf: Mapping[str, str], **strings: str) -> list[Element]:
    """Return the elements of ``ztk``, outermost first, for ``show`` and ``check``. Nothing is loaded."""
    options = options_of(ztk, global_conf, strings)
    conf = options["zope_conf"]
    return elements(database, options.get("attempts"), ztk_request(), ztk_errors(), zope_conf=conf)


@with_facts(lambda **strings: facts_of(strings.get("zope_conf")))
def ztk(global_conf: Mapping[str, str], **strings: str) -> Pipeline:
    """Make a whole Zope site: ``[app:main] use = egg:wsgi-pipeline#ztk``.

    zope_conf  the zope.conf of the site
    attempts   upper limit of the attempts at one request; default that of ``retry``

    It is a pipeline, which elements around it join: ``log``, ``vhost``, ``compress``. Its own are ``retry``,
    ``zodb`` with the database of the zope.conf, ``ztk_request``, ``ztk_errors``, ``transaction``,
    ``ztk_authenticate``, ``ztk_traverse`` and ``ztk_publisher``.
    """
    options = options_of(ztk, global_conf, strings)
    application = WSGIPublisherApplication(load(options["zope_conf"]), attempts=options.get("attempts"))
    notify(WSGIPublisherApplicationCreated(application))
    return application.pipeline


ztk.parts = parts_of  # type: ignore[attr-defined]
