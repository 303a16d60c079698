"""A Zope site as one WSGI application: the drop-in for ``zope.app.wsgi.WSGIPublisherApplication``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import zope.app.wsgi
from zope.app.publication.httpfactory import HTTPPublicationRequestFactory

from pipeline.composition import Pipeline
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import zodb
from pipeline.ztk.authenticate import ztk_authenticate
from pipeline.ztk.errors import ztk_errors
from pipeline.ztk.manager import ImplicitManager
from pipeline.ztk.publisher import ztk_publisher
from pipeline.ztk.request import ztk_request
from pipeline.ztk.traverse import ztk_traverse

ATTEMPTS = 4
"""How often Zope tries a request: once, and three times again."""


class WSGIPublisherApplication(zope.app.wsgi.WSGIPublisherApplication):  # type: ignore[misc]
    """A Zope site on the pipeline, with the signature and the name of zope.app.wsgi's class."""

    def __init__(self, db: Any = None, factory: Any = HTTPPublicationRequestFactory, handle_errors: bool = True):
        super().__init__(db, factory, handle_errors)
        self.pipeline = Pipeline(
            retry(attempts=ATTEMPTS),
            *(() if db is None else (zodb(db=db, manager=ImplicitManager),)),
            ztk_request(factory=self.requestFactory),
            ztk_errors(),
            transaction(),
            ztk_authenticate(),
            ztk_traverse(),
            ztk_publisher(),
        )

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not self.handleErrors:
            environ.setdefault("wsgi.handleErrors", False)
        if "REQUEST_METHOD" in environ:
            return self.pipeline(environ, start_response)
        environ["REQUEST_METHOD"] = "GET"  # no server leaves it out, but Zope's own tests do
        try:
            return self.pipeline(environ, start_response)
        finally:
            del environ["REQUEST_METHOD"]
