"""Bugs of other systems, as elements: each is put in the place of the element it is named after.

A positive control runs an experiment with one of them and proves that the experiment finds it. The part
of the name before the underscore is the element that it replaces; its place in the order is the same.
"""

from __future__ import annotations

import time
from importlib import import_module

from pipeline import Request, Response
from pipeline.composition import Element
from pipeline.database.transactions import is_open
from pipeline.interfaces import Handler
from pipeline.order import Contract


def bug(factory: object) -> Element:
    """An element under the name of the one it replaces, which comes before the underscore."""
    name = factory.__name__.partition("_")[0]  # type: ignore[attr-defined]
    replaced = getattr(import_module(f"pipeline.elements.{name}"), name)
    return Element(factory, Contract(name, (), replaced.contract.provides, {}, {}))  # type: ignore[arg-type]


@bug
def transaction_swallows(next: Handler) -> Handler:
    """A commit that fails is aborted, and answered as if it had not failed."""

    def transaction(request: Request, response: Response) -> None:
        next(request, response)
        if (tm := request.tm_in_use) is not None:
            try:
                tm.commit()
            except Exception:
                tm.abort()

    return transaction


@bug
def transaction_late(next: Handler) -> Handler:
    """The transaction is committed when the answer is sent, as repoze.tm2 does it (R1)."""

    def transaction(request: Request, response: Response) -> None:
        next(request, response)
        if (tm := request.tm_in_use) is None:
            return
        body = b"".join(response.app_iter)
        response.app_iter = iter([body])  # what is in memory is closed before it is sent
        response.content_length = len(body)

        def commit() -> None:
            time.sleep(0.1)  # longer than the system keeps a short segment back
            tm.commit()

        request.on_close(commit)

    return transaction


@bug
def log_forgets(next: Handler) -> Handler:
    """What is to be closed with the request is not, as in repoze.tm2 (R7)."""

    def forget(closer: object, *, last: bool = False) -> None:
        pass

    def log(request: Request, response: Response) -> None:
        request.on_close = forget  # type: ignore[method-assign]
        next(request, response)

    return log


@bug
def transaction_narrow(next: Handler) -> Handler:
    """What is no ``Exception`` commits (R5)."""

    def transaction(request: Request, response: Response) -> None:
        try:
            next(request, response)
        except Exception:
            if (tm := request.tm_in_use) is not None:
                tm.abort()
            raise
        finally:
            if (tm := request.tm_in_use) is not None and is_open(tm):
                tm.commit()

    return transaction


@bug
def retry_everything(next: Handler) -> Handler:
    """Whatever fails is tried again, also where it may be stored already (R4)."""

    def retry(request: Request, response: Response) -> None:
        first, held = response.snapshot(), request.snapshot()
        for attempt in range(5):
            request.attempts_left = 4 - attempt
            try:
                next(request, response)
            except Exception:
                if attempt == 4:
                    raise
            if response.status < "500":
                return
            request.close()
            request.restore(held)
            response.restore(first)
            time.sleep(0.4)

    return retry
