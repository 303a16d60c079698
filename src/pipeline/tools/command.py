"""The command ``pipeline``: each of its commands is a module with ``main(arguments)``, imported when it is used."""

from __future__ import annotations

import argparse
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from configparser import (
    DuplicateOptionError,
    DuplicateSectionError,
    InterpolationError,
    MissingSectionHeaderError,
    ParsingError,
)
from configparser import Error as IniError
from importlib import import_module
from importlib.metadata import version

from pipeline.ini import sections_of
from pipeline.interfaces import ConfigurationError
from pipeline.options import on_demand
from pipeline.tools.words import OUR_CODE, line_of_the_site

autocomplete = on_demand("argcomplete:autocomplete")

COMMANDS = {
    "serve": ("pipeline.tools.serve", "serve an ini: waitress with reload, gunicorn or Granian"),
    "deploy": ("pipeline.tools.deploy", "write the configuration of a server"),
    "check": ("pipeline.tools.check", "load every pipeline of an ini and report what is wrong or not safe"),
    "show": ("pipeline.tools.show", "list or draw what a request passes, and what holds each part where it is"),
    "views": ("pipeline.tools.views", "list every view: path, methods, request type, permission, source line"),
    "explain": ("pipeline.tools.explain", "run one request and show the way it took, and why it was answered so"),
    "top": ("pipeline.tools.top", "show what runs now in each process of a site, and for how long"),
    "prove": ("pipeline.proving.command", "ask for every view, with every failure at every point"),
    "rehearse": ("pipeline.proving.rehearse", "ask new code what visitors asked last, before it is served"),
    "adopt": ("pipeline.tools.adopt", "put a pipeline around a site of Pyramid, Zope or Paste that exists"),
    "new": ("pipeline.tools.new", "make a site to start from, in a new directory"),
    "shell": ("pipeline.tools.shell", "start Python with the root of a site, a request and a transaction"),
    "element": ("pipeline.tools.element", "say what an element does, takes, requires and provides"),
    "copy-database": ("pipeline.tools.copy_database", "copy an object database to another storage"),
    "demo-import": ("pipeline.demo.importer", "import a directory of files into the demo site"),
    "demo-user": ("pipeline.demo.user_command", "add a user to the demo site, or set a password"),
}
"""The module of each command, and what it does. ``main(arguments)`` returns the exit status."""

OF_THE_SITE = (ConfigurationError, IniError, ImportError, OSError, SyntaxError)
"""The errors that say what a user has to correct. Any other of our own code is a mistake of ours."""
PLEASE = "\nThis is a mistake of wsgi-pipeline. Please report it, with all the lines above."
STDLIB = sysconfig.get_path("stdlib")

OF_EXTRAS = (
    "argcomplete=completion argon2=auth brotli=brotli docutils=demo granian=granian gunicorn=gunicorn "
    "itsdangerous=auth jinja2=demo limits=limits markdown_it=demo multipart=forms nh3=demo "
    "opentelemetry=opentelemetry prometheus_client=prometheus psycopg2=postgresql relstorage=relstorage "
    "sqlalchemy=sql tqdm=demo transaction=zodb ZEO=zeo ZODB=zodb zodburi=zodb zope.component=component "
    "webtest=testing zope.event=component zope.sqlalchemy=sql zstandard=zstd zope.app=ztk ZPublisher=zope"
)
EXTRAS = dict(pair.split("=") for pair in OF_EXTRAS.split())
"""The extra of wsgi-pipeline that installs a module."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 done, 1 refused, failed or a mistake found, 2 wrong usage."""
    width = max(map(len, COMMANDS))
    parser = argparse.ArgumentParser(
        prog="pipeline",
        usage="pipeline [-h] [--version] COMMAND ...",
        description="Serves, deploys and inspects the pipelines of a Paste Deploy ini.",
        epilog="\n".join(
            [
                "commands:",
                *(f"  {name:{width}}  {what}" for name, (_, what) in COMMANDS.items()),
                "\npipeline COMMAND --help says what a command takes.",
                "\nexit status: 0 done, 1 refused, failed, or a mistake was found, 2 wrong usage",
                "completion:  pip install 'wsgi-pipeline[completion]', and into ~/.bashrc or ~/.zshrc:",
                '             eval "$(register-python-argcomplete pipeline)"',
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"wsgi-pipeline {version('wsgi-pipeline')}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    if "_ARGCOMPLETE" in os.environ:
        complete(parser)
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given:
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(given)
    try:
        run: Callable[[list[str]], int] = import_module(COMMANDS[options.command][0]).main
        return run(options.rest)
    except BrokenPipeError:  # the reader of a pipe has what it wants
        sys.stdout = None
        return 0
    except Exception as error:
        put_error(f"pipeline {options.command}", error)
        return 1


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


def complete(parser: argparse.ArgumentParser) -> None:
    """Complete the command line that the shell has put into the environment, by argcomplete. Does not return.

    The parser of a command completes what follows its name. argcomplete counts the words in front from 1.
    """
    first = int(os.environ["_ARGCOMPLETE"])
    typed = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = [*typed.split(), *([""] if typed[-1:].isspace() else [])]
    command = words[first] if len(words) > first + 1 else ""
    if command in COMMANDS:
        os.environ["_ARGCOMPLETE"] = str(first + 1)
        import_module(COMMANDS[command][0]).main([])
    autocomplete(parser)


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
    said = " ".join(str(error).split())
    if isinstance(error, IniError):
        return of_ini(error, said)
    return said if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {said}"


def of_ini(error: IniError, said: str) -> str:
    """Return what is wrong with the lines of an ini, with the place in front.

    said  what the error says by itself
    """
    match error:
        case DuplicateOptionError():
            where = f"{error.source}, section [{error.section}], line {error.lineno}"
            return f"{where}: the option {error.option!r} stands twice"
        case DuplicateSectionError():
            return f"{error.source}, line {error.lineno}: the section [{error.section}] stands twice"
        case MissingSectionHeaderError():
            what = "this line stands above the first section, such as [app:main]"
            return f"{error.source}, line {error.lineno}: {what}: {error.line.strip()}"
        case ParsingError():
            line, text = error.errors[0]
            return f"{error.source}, line {line}: this line is not of the form name = value: {text}"
        case InterpolationError():
            found = re.match(r"Error in file (?P<file>\S+): (?:Bad value substitution: )?(?P<what>.*)", said)
            if found is not None:
                _, options = sections_of(found["file"]).get(str(error.section), (0, {}))
                at = f", line {options[error.option][0]}" if error.option in options else ""
                return f"{found['file']}, section [{error.section}]{at}: {found['what']}"
    return said


if __name__ == "__main__":
    sys.exit(main())
