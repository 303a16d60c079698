"""For applications of other frameworks at the end of a pipeline: the request that it brings, and its transaction.

``request_of(environ)`` has what the elements outside of a WSGI application have made.

A Pyramid application commits its own databases by pyramid_tm, which needs no settings for the pipeline. To have it
write in the transaction of the pipeline, which the element ``transaction`` commits, with the connection of
``zodb``, include this module (``includeme``)::

    pyramid.includes = pipeline.mounting

``zope.sqlalchemy.register(session)`` without ``request.tm`` joins the transaction of the thread. That is the one of
the pipeline, while the application runs, if ``zodb``, or without it ``transaction``, has the option ``manager =
pipeline.toolkit.manager:ImplicitManager``. Without it the pipeline answers 500, since the changes would be lost. It
does so, too, for an application with a ``zodbconn.uri`` of its own in a pipeline without ``zodb``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from transaction import TransactionManager

from pipeline.foreign import REPEATABLE
from pipeline.interfaces import WSGIApp
from pipeline.request import Request
from pipeline.toolkit.manager import ImplicitManager, give_back_thread, take_thread


def request_of(environ: Mapping[str, Any]) -> Any:
    """Return the request of the pipeline that an application stands in, with all that elements add to it.

    Raises LookupError if the application does not stand in a pipeline.
    """
    request = environ.get("pipeline.request")
    if not isinstance(request, Request):
        raise LookupError(
            "the environ has no request of a pipeline: the application stands in no pipeline, the request is "
            "closed, or a middleware has made a new environ"
        )
    return request


def repeatable(app: WSGIApp, global_conf: object = None) -> WSGIApp:
    """Say of an application that it stores nothing but in the transaction of the pipeline, so that ``retry`` may
    try its unsafe requests again. In an ini it is a filter: ``paste.filter_app_factory =
    pipeline.mounting:repeatable``.
    """

    def repeatable(environ: dict[str, Any], start_response: Any) -> Any:
        request = environ.get("pipeline.request")
        if isinstance(request, Request):  # a middleware may have copied the environ
            request.environ[REPEATABLE] = True
        return app(environ, start_response)

    return repeatable


def includeme(config: Any) -> None:
    """Have a Pyramid application share the transaction of its pipeline. Pyramid calls it, by ``config.include`` or
    the setting ``pyramid.includes``. What the code of the application sets for ``tm.manager_hook``, as Pyramid's
    cookiecutter does, does not count.

    pyramid_tm leaves the transaction to the pipeline, and so does pyramid_retry the further attempts.
    ``get_connection(request)`` of pyramid_zodbconn returns the connection of the element ``zodb``. The application
    works as before where it runs alone, or in a pipeline without ``transaction``.
    """
    hooks = {
        "tm.manager_hook": manager_of,
        "tm.activate_hook": commits_itself,
        "retry.activate_hook": lambda request: 1 if _in_transaction(request) else None,
    }
    config.add_settings(hooks)
    config.action(None, lambda: config.add_settings(hooks), order=LAST)  # the code may have set them since
    config.add_tween(f"{__name__}.for_the_thread")
    connection = property(_connection_of, lambda request, own: setattr(request, _OWN, own))
    config.add_request_method(connection, "_primary_zodb_conn")


LAST = 1_000
"""Order of an action of Pyramid that runs behind those of packages, such as that of pyramid_tm."""


def for_the_thread(handler: Callable[[Any], Any], registry: Any) -> Callable[[Any], Any]:
    """Have ``transaction.manager`` be the manager of the pipeline while a Pyramid application runs, if that manager
    is implicit: the application may expect both to be the same, as with pyramid_tm. A tween.

    Code of the application that runs while its changes are stored, such as an event of SQLAlchemy before a flush or
    a hook of the transaction, finds the request and the registry by ``pyramid.threadlocal``, as with pyramid_tm.
    """
    from pyramid import threadlocal  # type: ignore[import-untyped]

    def for_the_thread(request: Any) -> Any:
        tm = request_of(request.environ).tm if _in_transaction(request) else None
        if tm is not None and not commits_itself(request):
            request_of(request.environ).environ[REPEATABLE] = True
        if not isinstance(tm, ImplicitManager) or tm.running:
            return handler(request)
        outer = take_thread(tm, "pipeline.mounting")
        try:
            response = handler(request)
            if tm._txn is not None and tm._txn._resources:
                is_seen = {"request": request, "registry": registry}
                # Before the hooks of the application, which addBeforeCommitHook would call first.
                tm._txn._before_commit.insert(0, (threadlocal.manager.push, (is_seen,), {}))
                tm._txn.addAfterCommitHook(lambda is_stored: forget(is_seen))
                request_of(request.environ).on_close(partial(forget, is_seen))  # another hook may have failed
            return response
        finally:
            give_back_thread(tm, outer)

    def forget(is_seen: Any) -> None:
        threadlocal.manager.stack[:] = [one for one in threadlocal.manager.stack if one is not is_seen]

    return for_the_thread


_OWN = "_zodb_connection_of_its_own"


def _connection_of(request: Any) -> Any:
    """Return the connection of a Pyramid request: that of the pipeline, or its own. pyramid_zodbconn opens one if
    there is none."""
    own = getattr(request, _OWN, None)
    if own is None and _in_transaction(request):
        return getattr(request_of(request.environ), "zodb", None)
    return own


def manager_of(request: Any) -> TransactionManager:
    """Return the transaction manager of the pipeline, for a request with an ``environ``, such as that of Pyramid.

    An application that runs alone gets a manager of its own, which it commits itself.
    """
    return request_of(request.environ).tm if _in_transaction(request) else TransactionManager(explicit=True)


def commits_itself(request: Any) -> bool:
    """Return whether the application must commit its changes: no element ``transaction`` does, or ``request.tm`` of
    the application is another transaction manager than that of the pipeline."""
    if not _in_transaction(request):
        return True
    own = getattr(request, "tm", None)  # reading it may open that of the pipeline
    return own is not None and own is not request_of(request.environ).tm_in_use


def _in_transaction(request: Any) -> bool:
    """Return whether an element ``transaction`` commits what joins the transaction of the pipeline."""
    outer = request.environ.get("pipeline.request")
    return isinstance(outer, Request) and "commit" in outer.pipeline.names
