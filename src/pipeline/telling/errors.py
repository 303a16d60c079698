"""Errors in words, on one line: what was wrong, where, and what to do."""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from configparser import Error as IniError
from configparser import InterpolationError
from pathlib import Path

from pipeline.ini import sections_of
from pipeline.interfaces import ConfigurationError, Unavailable
from pipeline.telling.secrets import masked_text
from pipeline.telling.words import OUR_CODE, line_of_the_site, texts_of

OF_THE_SITE = (ConfigurationError, IniError, ImportError, OSError, SyntaxError, Unavailable)
"""The errors that say what a user has to correct. Any other of our own code is a mistake of ours."""
PLEASE = "\nThis is a mistake of wsgi-pipeline. Please report it, with all the lines above."
STDLIB = sysconfig.get_path("stdlib")

EXTRAS: dict[str, str] = texts_of(Path(__file__).with_name("extras.toml"))
"""The extra of wsgi-pipeline that installs a module."""

REFUSALS = texts_of(Path(__file__).with_name("refusals.toml"))
"""The words of refusals that take more than a line, by what they tell of."""
OF_AN_INI = REFUSALS.pop("of an ini")
"""The words of what is wrong with the lines of an ini, by the class of the error."""


def refusal(name: str, /, **values: object) -> ConfigurationError:
    """Return the refusal with the words of that name, and these values in them."""
    return ConfigurationError(REFUSALS[name].format(**values))


def put_error(who: str, error: Exception) -> None:
    """Print what an error says on one line, with the line of the site that met it. An error that a user cannot
    correct has its traceback above."""
    if not is_of_the_site(error):
        traceback.print_exception(error)
    please = [PLEASE] if is_ours(error) else []
    print(f"{who}: {place_and_words(error)}", *please, file=sys.stderr, flush=True)


def is_of_the_site(error: BaseException) -> bool:
    """Return whether an error says what a user has to correct, or came up in the code of the site."""
    return isinstance(error, OF_THE_SITE) or bool(line_of_the_site(error))


def place_and_words(error: Exception) -> str:
    """Return the line of the site that met an error, unless the error names its place, and what it says."""
    place = "" if isinstance(error, OF_THE_SITE) else line_of_the_site(error)
    return f"{place}{': ' if place else ''}{in_one_line(error)}"


def is_ours(error: BaseException) -> bool:
    """Return whether an error is a mistake of this package: its own code raised it, and not to refuse something."""
    if is_of_the_site(error):
        return False
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    others = [name for name in frames if "site-packages" in name or not name.startswith((STDLIB, "<"))]
    return bool(others) and others[-1].startswith(OUR_CODE)


def in_one_line(error: BaseException) -> str:
    """Return what an error says on one line, with the remedy if a module is missing."""
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("pipeline"):
        extra = next((EXTRAS[name] for name in EXTRAS if f"{error.name}.".startswith(f"{name}.")), None)
        remedy = f"pip install 'wsgi-pipeline[{extra}]'" if extra else "install it, or put it beside the ini"
        return f"the module {error.name} is missing: {remedy}"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    if isinstance(error, UnicodeDecodeError):
        return "a file is not UTF-8: save it as that"
    said = " ".join(str(error).split())
    if isinstance(error, IniError):
        return of_ini(error, said)
    return said if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {said}"


def of_ini(error: IniError, said: str) -> str:
    """Return what is wrong with the lines of an ini, with the place in front.

    said  what the error says by itself
    """
    if isinstance(error, InterpolationError):
        file = found[1] if (found := re.match(r"Error in file (\S+): ", said)) else ""
        _, options = sections_of(file).get(str(error.section), (0, {}))
        at = f", line {options[error.option][0]}" if error.option in options else ""
        said = re.sub(
            r"(?:, found:|\. Raw value:| reference| an interpolation key (?!'[\w.-]+' )).*",
            "; a percent sign in a value is written %%",
            said.removeprefix(f"Error in file {file}: ").removeprefix("Bad value substitution: "),
        )
        return f"{file}, section [{error.section}]{at}: {said}".removeprefix(", ")
    line = getattr(error, "line", "") or "".join(line for _, line in getattr(error, "errors", ())[:1])
    name = "byte order mark" if line.startswith("\ufeff") else type(error).__name__
    return str(OF_AN_INI.get(name, "{said}").format(said=said, error=error, line=masked_text(line.strip())))
