"""The parts of a pipeline that an exception has passed, found by its frames: for a site that nothing watches."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from traceback import walk_tb
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple

from pipeline.between import InPython, Step
from pipeline.composition import Element
from pipeline.explaining.candidates import Look, look_up
from pipeline.explaining.changes import told_state
from pipeline.explaining.recording import Part
from pipeline.explaining.walking import Walk, walk_again
from pipeline.foreign import foreign
from pipeline.interfaces import Facts
from pipeline.order import Contract

FIRST: dict[str, Any] = {"context": None, "view_name": ""}
FIRST |= dict.fromkeys("default_steps more_steps namespaces subpath".split(), ())  # noqa: SIM905
"""The fields that traversal sets, as they are before it."""
_FOREIGN = foreign.__code__.co_filename
_ERROR_VIEW = "call_error_view"
"""The name of the function that calls an error view."""


class Passed(NamedTuple):
    """The way of a request up to an exception, as ``pipeline.explaining.causes`` reads it."""

    parts: list[Part]
    """The parts, outermost first. The exception has left the last one."""
    when: str
    """The time of an exception that was raised when all parts had returned, or ""."""
    walk: Walk | None
    look: Look | None


def passed(request: Any, error: BaseException, reads: bool = True) -> Passed:
    """Return the way of a request up to an exception. Traversal and the look-up of the view run again.

    reads  whether they can, so that there is a walk and a look
    """
    pipeline = request.pipeline
    contracts = pipeline.all_contracts if pipeline is not None else ()
    last, middleware = left_last(error, contracts)
    when = ""
    if last < 0 and middleware is None:
        in_error_view = any(frame.f_code.co_name == _ERROR_VIEW for frame, _ in walk_tb(error.__traceback__))
        when = "the error view failed" if in_error_view else "the body or an output filter failed"
        last = len(contracts) - 1
    steps = [step_of_contract(contract) for contract in contracts[: last + 1]]
    walks = next((step for step in steps if reads and step.facts.walks), None)
    walk = walk_again(request, FIRST, walks.element.options) if walks is not None else None
    noted: Walk | None = getattr(request, "zope_walk", None)
    if noted is not None and noted.decides():
        walk = noted
    at_end = last >= 0 and last == len(contracts) - 1
    had_context = reads and request.views is not None and (at_end or request.context is not None)
    look = look_up(request) if had_context else None
    if middleware is not None:
        found = SimpleNamespace(__code__=middleware, __name__=middleware.co_qualname.partition(".")[0])
        steps.append(Step(None, found, InPython(found), {}))
    parts = [part_of(step, told_state(request)) for step in steps]
    if at_end and look is not None:
        parts[last].look, parts[last].views = look, request.views
    return Passed(parts, when, walk, look)


def left_last(error: BaseException, contracts: Sequence[Contract]) -> tuple[int, CodeType | None]:
    """Return the place of the element that an exception has left last, or -1, and the code of the foreign app or
    middleware inside of it that has raised the exception, or None."""
    codes = {getattr(contract.handler, "__code__", None): place for place, contract in enumerate(contracts)}
    last, middleware, in_foreign = -1, None, False
    for frame, _ in walk_tb(error.__traceback__):
        code = frame.f_code
        if code in codes:
            last, middleware = codes[code], None
        elif in_foreign and code.co_filename != _FOREIGN:
            middleware = code
        in_foreign = code.co_filename == _FOREIGN
    return last, middleware


def step_of_contract(contract: Contract) -> Step:
    """Return the element of a contract, with its options and its place."""
    source, options = contract.place
    element: Any = source.factory if source is not None else None
    if source is None:
        module = sys.modules.get(str(getattr(contract.handler, "__module__", "")))
        element = getattr(module, contract.name, None)
    if isinstance(element, Element) and element.name == contract.name:
        element = Element(element.factory, element.contract, options, source)
    else:  # nothing else is known of it; the handler stands in the file of the factory
        known = {"name": contract.name, "factory": contract.handler, "contract": contract, "options": options}
        element = SimpleNamespace(facts=Facts(), **known)
    return Step(element, element.factory, source or InPython(element.factory), options)


def part_of(step: Step, state: Mapping[str, str]) -> Part:
    """Return a part, with what is known when it is over."""
    part = Part()
    part.step, part.request = step, state
    part.fields = tuple(FIRST.values()) if step.facts.walks else None
    return part
