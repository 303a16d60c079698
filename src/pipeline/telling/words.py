"""An element and its options in words."""

from __future__ import annotations

import inspect
import os
import sys
import tomllib
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from zope.interface import Interface

from pipeline.http.tracebacks import OUR_CODE as OUR_CODE
from pipeline.ini import place_of as place_of

WATCHERS = {
    f"{OUR_CODE}{file}.py"
    for file in (
        *("elements/timing", "elements/inspector", "measuring/measures", "measuring/spans"),
        *("explaining/recording", "inspector/inspecting"),
    )
}
"""Files whose frames say nothing about an error."""


def texts_of(file: Path) -> dict[str, Any]:
    """Return the texts of a TOML file by their names, each in one line: one, or a list or a table of several."""

    def in_lines(found: Any) -> Any:
        if isinstance(found, str):
            return " ".join(found.split())
        if isinstance(found, list):
            return list(map(in_lines, found))
        return {name: in_lines(one) for name, one in found.items()} if isinstance(found, dict) else found

    texts: dict[str, Any] = in_lines(tomllib.loads(file.read_text("utf-8")))
    return texts


def is_of_the_site(file: str) -> bool:
    """Return whether a file is neither ours nor of a library."""
    return not file.startswith((OUR_CODE, "<", sys.base_prefix)) and "site-packages" not in file


def line_of_the_site(error: BaseException) -> str:
    """Return ``file, line N`` of the last line of the site that has raised an exception, or "".

    An element or a middleware of the site that an exception of an inner part has only passed is not its cause.
    """
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    for code, line in reversed(frames):
        if is_of_the_site(code.co_filename):
            return f"{code.co_filename}, line {line}"
        if code.co_varnames[: code.co_argcount][-2:] == ("request", "response"):  # a handler
            return ""
    return ""


def sentence(element: object) -> str:
    """Return the first sentence that a thing says of itself."""
    text = inspect.cleandoc(getattr(element, "__doc__", None) or "")
    return " ".join(text.partition("\n\n")[0].split())


def written(value: object) -> str:
    """Return a value as an ini has it."""
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}:{value.__qualname__}"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value)


def bold(text: str) -> str:
    """Return a text that is bold on a terminal."""
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


def is_header(name: str) -> bool:
    """Return whether a variable of the environ is a header."""
    return name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")


def header_name(name: str) -> str:
    """Return the header that a variable of the environ is made of."""
    return name.removeprefix("HTTP_").replace("_", "-").title()


def kind_name(spec: Any) -> str:
    """Return the name of a class or interface, or of what a specification is for; "anything" for all."""
    if spec is Interface or spec is None:
        return "anything"
    inherit = getattr(spec, "inherit", None)
    named = inherit if inherit is not None else spec
    return str(getattr(named, "__qualname__", None) or getattr(named, "__name__", named))


def short(value: Any, longest: int = 70) -> str:
    """Return a value in a few words; an object whose ``repr`` says nothing is named by its class."""
    if isinstance(value, type):
        return value.__qualname__
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception as error:
        text = f"a {type(value).__qualname__}, whose repr() raises {type(error).__name__}"
    if not isinstance(value, (str, bytes, int, float, tuple, type(None))) and " at 0x" in text:
        kind = type(value).__qualname__
        text = f"{'an' if kind[0] in 'AEIOUaeio' else 'a'} {kind}"
        with suppress(Exception):  # an object that cannot be read any more
            name = getattr(value, "__name__", None)
            text += f" named {name!r}" if isinstance(name, str) and name else ""
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
