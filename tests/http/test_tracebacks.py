"""Tracebacks are those of the module ``traceback``, also when the text of each frame is known."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from asking import ask
from pipeline import Pipeline, composition, element, view
from pipeline.elements.errors import errors
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.http import tracebacks
from pipeline.http.tracebacks import MOST_CAUSES, MOST_FRAMES, traceback_of
from pipeline.publisher import publisher


class Refused(Exception): ...


def fails() -> None:
    raise KeyError("a")


def caused() -> None:
    try:
        fails()
    except KeyError as error:
        raise Refused("b") from error


def in_handling(error: BaseException | None = None) -> None:
    try:
        caused()
    except Refused:
        raise error or ValueError("c\nd")  # noqa: B904


def without_context() -> None:
    try:
        fails()
    except KeyError:
        raise ValueError from None


def deep(number: int) -> None:
    if number:
        deep(number - 1)
    fails()


def by_turns(number: int) -> None:
    if number % 2:
        by_turns(number - 1)
    if number:
        by_turns(number - 1)
    fails()


def misspelt() -> None:
    number = 1
    assert number
    print(numbr)  # type: ignore[name-defined] # noqa: F821


def wrong_attribute() -> None:
    "".stripp()  # type: ignore[attr-defined]


def with_notes() -> None:
    error = ValueError("e")
    error.add_note("first\nsecond")
    raise error


def in_a_circle() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    raise one


def many_causes(number: int = MOST_CAUSES + 5) -> None:
    try:
        many_causes(number - 1) if number else fails()
    except Exception as error:
        raise ValueError(str(number)) from error


def group() -> None:
    try:
        caused()
    except Refused as error:
        raise ExceptionGroup("many", [error, ValueError("f")]) from error


def syntax() -> None:
    compile("a b", "page.py", "exec")


def made() -> None:
    exec(compile("def f():\n    raise ValueError(1)\nf()", "<made>", "exec"), {})


def on_several_lines() -> None:
    fails_with(
        1,
        2 / (1 - 1),
    )


def fails_with(*arguments: Any) -> None: ...


def in_one_line() -> None:
    [one["a"]["b"] for one in ({"a": {"b": 1}}, {"a": None})]  # type: ignore[index]


KINDS: list[Callable[[], object]] = [
    fails,
    caused,
    in_handling,
    lambda: in_handling(SystemExit(1)),
    without_context,
    lambda: deep(1),
    lambda: deep(10),
    lambda: deep(MOST_FRAMES + 1),
    lambda: by_turns(9),
    misspelt,
    wrong_attribute,
    with_notes,
    in_a_circle,
    many_causes,
    group,
    syntax,
    made,
    on_several_lines,
    in_one_line,
]


@pytest.mark.parametrize("fail", KINDS)
def test_the_text_is_that_of_python(fail: Callable[[], object]) -> None:
    tracebacks._kept.clear()
    for _ in range(3):  # the text of the frames is known from the second on
        try:
            fail()
        except BaseException as error:
            assert traceback_of(error) == "".join(traceback.format_exception(error)).rstrip("\n")
    assert traceback_of(ValueError("never raised")) == "ValueError: never raised"


def test_a_frame_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    format_tb = traceback.format_tb
    monkeypatch.setattr(traceback, "format_tb", lambda one: made.append(one) or format_tb(one))
    monkeypatch.setattr(traceback, "format_exception", None)
    tracebacks._kept.clear()
    for _ in range(5):
        try:
            in_handling()
        except ValueError as error:
            assert traceback_of(error)
    assert len(made) == 6


def test_what_is_kept_is_bounded() -> None:
    for number in range(tracebacks.MOST_KEPT + 10):
        try:
            exec(compile(f"raise ValueError({number})", "<made>", "exec"), {})
        except ValueError as error:
            assert f"ValueError: {number}" in traceback_of(error)
    assert len(tracebacks._kept) <= tracebacks.MOST_KEPT


def through_the_pipeline(function: Callable[[], Any], debug: bool) -> str:
    """What is logged of an error of a view, with the module-level functions of this file as its own code."""

    @view(context=dict, name="fails")
    def fails_there(context: Any, request: Any) -> Any:
        return function()

    module = ModuleType("short_tracebacks")
    module.fails_there = fails_there  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    fails_there.__module__ = module.__name__
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logging.getLogger("pipeline").addHandler(handler)
    try:
        app = Pipeline(errors(debug=debug), transaction(), traverse(root=dict), publisher(scan=(module.__name__,)))
        assert ask(app, "/fails").status == 500
    finally:
        logging.getLogger("pipeline").removeHandler(handler)
        del sys.modules[module.__name__]
    return str(records[-1].exc_text)


FRAME = '  File "(.+)", line'


@pytest.mark.parametrize("function", [fails, caused, in_handling, misspelt])
def test_in_debug_mode_the_log_shows_the_frames_of_the_site_alone(function: Callable[[], Any]) -> None:
    whole, short = through_the_pipeline(function, debug=False), through_the_pipeline(function, debug=True)
    assert "frames of the pipeline" not in whole
    assert set(re.findall(FRAME, short)) == {__file__}
    folded = re.findall(r"  \.\.\. (\d+) frames of the pipeline\n", short)
    ours = [file for file in re.findall(FRAME, whole) if file != __file__]
    assert sum(map(int, folded)) == len(ours) > 3
    of_the_site = [line for line in whole.splitlines() if __file__ in line or not line.startswith("  ")]
    assert [line for line in short.splitlines() if line in of_the_site] == of_the_site


def test_the_frame_that_raises_is_told_also_if_it_is_ours() -> None:
    def refused() -> None:
        element(requires="x")

    short = through_the_pipeline(refused, debug=True)
    assert [file for file in re.findall(FRAME, short) if file != __file__] == [composition.__file__]
