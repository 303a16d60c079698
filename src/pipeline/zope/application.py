"""A Zope site as one WSGI application, in the place of ``egg:Zope#main`` with ``egg:Zope#httpexceptions``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.composition import Pipeline
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import zodb
from pipeline.ini import Source
from pipeline.options import Signature
from pipeline.paste import with_facts
from pipeline.strings import from_strings
from pipeline.toolkit.manager import ImplicitManager
from pipeline.toolkit.site import facts_of
from pipeline.zope.errors import zope_errors
from pipeline.zope.path import zope_path
from pipeline.zope.publisher import zope_publisher
from pipeline.zope.request import zope_request
from pipeline.zope.site import load
from pipeline.zope.traverse import zope_traverse


def site(db: Any, *, attempts: int | None = None) -> Pipeline:
    """Return the pipeline of a Zope site that is started, with its main database."""
    return Pipeline(
        retry() if attempts is None else retry(attempts=attempts),
        zodb(db=db, manager=ImplicitManager, root="Application"),
        zope_path(),
        zope_request(),
        transaction(),
        zope_errors(),
        zope_traverse(),
        zope_publisher(),
    )


def _zope(*, zope_conf: str, attempts: int | None = None) -> None:
    """Check the options of ``zope``."""


@with_facts(lambda **strings: facts_of(strings.get("zope_conf")))
def zope(global_conf: Mapping[str, str], **strings: str) -> Pipeline:
    """Make a whole Zope site: ``[app:main] use = egg:wsgi-pipeline#zope``.

    zope_conf  the zope.conf of the site
    attempts   upper limit of the attempts at one request; default that of ``retry``. It counts in the place of
               ``max-conflict-retries``

    It is a pipeline, which elements around it join: ``log``, ``vhost``, ``compress``. Its own are ``retry``,
    ``zodb`` with the database of the zope.conf, ``zope_path``, ``zope_request``, ``transaction``, ``zope_errors``,
    ``zope_traverse`` and ``zope_publisher``.
    """
    options = from_strings(Signature.of(_zope), "zope", strings, Source(global_conf, zope))
    return site(load(options["zope_conf"], global_conf), attempts=options.get("attempts"))
