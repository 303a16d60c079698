"""A Zope site as one WSGI application, in the place of ``egg:Zope#main`` with ``egg:Zope#httpexceptions``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.composition import Element, Pipeline
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import zodb
from pipeline.paste import with_facts
from pipeline.toolkit.manager import ImplicitManager
from pipeline.toolkit.site import options_of
from pipeline.zope.errors import zope_errors
from pipeline.zope.path import zope_path
from pipeline.zope.publisher import zope_publisher
from pipeline.zope.request import zope_request
from pipeline.zope.site import database, load, site_facts
from pipeline.zope.traverse import zope_traverse


def site(db: Any, *, attempts: int | None = None) -> Pipeline:
    """Return the pipeline of a Zope site that is started, with its main database."""
    return Pipeline(*elements(db, attempts))


def elements(db: Any, attempts: int | None, **options: Any) -> list[Element]:
    """Return the elements of a Zope site.

    options  those of ``zope_publisher``
    """
    return [
        retry() if attempts is None else retry(attempts=attempts),
        zodb(db=db, manager=ImplicitManager, root="Application"),
        zope_path(),
        zope_request(),
        transaction(),
        zope_errors(),
        zope_traverse(),
        zope_publisher(**options),
    ]


def parts_of(global_conf: Mapping[str, str], **strings: str) -> list[Element]:
    """Return the elements of ``zope``, outermost first, for ``show`` and ``check``. Nothing is loaded."""
    options = options_of(zope, global_conf, strings)
    return elements(database, options.get("attempts"), zope_conf=options["zope_conf"])


@with_facts(lambda **strings: site_facts(strings.get("zope_conf")))
def zope(global_conf: Mapping[str, str], **strings: str) -> Pipeline:
    """Make a whole Zope site: ``[app:main] use = egg:wsgi-pipeline#zope``.

    zope_conf  the zope.conf of the site
    attempts   upper limit of the attempts at one request; default that of ``retry``. It counts in the place of
               ``max-conflict-retries``

    It is a pipeline, which elements around it join: ``log``, ``vhost``, ``compress``. Its own are ``retry``,
    ``zodb`` with the database of the zope.conf, ``zope_path``, ``zope_request``, ``transaction``, ``zope_errors``,
    ``zope_traverse`` and ``zope_publisher``.
    """
    options = options_of(zope, global_conf, strings)
    return site(load(options["zope_conf"], global_conf), attempts=options.get("attempts"))


zope.parts = parts_of  # type: ignore[attr-defined]
