"""An ini as a running site: its logging, the directories that its code comes from, and its app.

``pipeline serve`` and the scripts that ``pipeline deploy`` writes use the same function.
"""

from __future__ import annotations

import gc
import json
import logging.config
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Mapping
from configparser import ConfigParser
from configparser import Error as IniError
from pathlib import Path
from typing import TYPE_CHECKING

from paste.deploy import loadwsgi, util

from pipeline.interfaces import ConfigurationError, WSGIApp
from pipeline.loading.command_line import make_importable, split_name
from pipeline.options import on_demand, resolve
from pipeline.paste import Chain, load, plan
from pipeline.rendering import with_render
from pipeline.telling.errors import in_one_line, put_error, refusal

if TYPE_CHECKING:
    from pipeline.loading.building import build
    from pipeline.publishing.jinja import load_templates
else:  # a site that loads does not need ``build``, and a site without templates does not need Jinja
    build = on_demand("pipeline.loading.building:build")
    load_templates = on_demand("pipeline.publishing.jinja:load_templates")

PASTE = (loadwsgi.__file__, util.__file__)
"""The files whose code calls the factories of an ini."""
LONGEST_LOAD = 30
"""Seconds that the site may take to load before a reload."""

DEFAULT_LOGGING = Path(__file__).with_name("logging.ini")
"""Logging for an ini without [loggers]: the access log and the log of the site, both on the terminal."""
PRIVATE = "PIPELINE_VARIABLES"
"""The variable of the environment with the variables of a deployed site, as a JSON object."""


def application_of(ini: str, **variables: str) -> WSGIApp:
    """Return the app of an ini, complete, with its logging set up; ``variables`` beat its ``[DEFAULT]``.

    The code of the site may stand in the working directory or beside the ini.
    """
    app, chains = loaded(ini, variables)
    for chain in chains:
        if (watch := chain.steps[-1].facts.watch) is not None:
            watch.start()
    return app


def loaded(ini: str, variables: dict[str, str]) -> tuple[WSGIApp, list[Chain]]:
    """Return the app of an ini with its chains, and nothing runs yet beside the site."""
    path, name = split_name(ini)
    make_importable(path)
    set_up_logging(path, variables)
    try:
        app = load(f"config:{path}", name, **variables)
    except TypeError as error:
        if traceback.extract_tb(error.__traceback__)[-1].filename in PASTE:  # no part of the site is at work
            build(ini, [f"{variable}={value}" for variable, value in variables.items()])  # which says it plainly
        raise
    except IniError as error:  # its own text has the value, which may be a password (S25)
        raise ConfigurationError(in_one_line(error)) from None
    chains = list(plan(f"config:{path}", name, **variables))
    load_for_first_page(package for chain in chains for step in chain.steps for package in step.facts.packages)
    return app, chains


def load_for_first_page(packages: Iterable[str]) -> None:
    """Load what the first visitor would wait for: the templates for the views in these packages, and modules that
    most pages need. Raise TemplateSyntaxError for a template that has a mistake."""
    inner = tuple(f"{package}." for package in packages)
    if modules := with_render(name for name in list(sys.modules) if f"{name}.".startswith(inner)):
        load_templates(modules)
    resolve("pipeline.http.finishing:finish")


def deployed(ini: str, file: str | None = None, /, **variables: str) -> WSGIApp:
    """Return the app of an ini as ``pipeline deploy`` has written it down.

    file       the file with the variables of the command line, which may be secret (S25), or None. The environment
               variable ``PIPELINE_VARIABLES`` takes its place
    variables  further variables, which those beat
    """
    return application_of(ini, **variables | private_variables(file))


def private_variables(file: str | None) -> dict[str, str]:
    """Return the variables in ``PIPELINE_VARIABLES``, or else those in the file. No message has their values."""
    text = os.environ.get(PRIVATE)
    where = f"the environment variable {PRIVATE}" if text is not None else file
    try:
        if text is None:
            if file is None:
                return {}
            text = Path(file).read_text("utf-8").removeprefix(f"{PRIVATE}=")
        found = json.loads(text)
    except OSError as error:
        raise refusal("variables cannot be read", file=file, reason=error.strerror, variable=PRIVATE) from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ConfigurationError(f'{where} must be a JSON object of texts, such as {{"zodb_uri": "zeo://..."}}')
    return found


def try_out(ini: str, file: str | None = None, /, **variables: str) -> int:
    """Load an ini and say in one line whether that works; return the exit status. For use before a reload.

    Loading that takes more than ``LONGEST_LOAD`` seconds counts as a failure.
    """

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError(f"it is not loaded after {LONGEST_LOAD} s")

    signal.signal(signal.SIGALRM, give_up)
    # Again each second: the code that is being imported may catch the first one.
    signal.setitimer(signal.ITIMER_REAL, LONGEST_LOAD, 1)
    gc.disable()  # what the collector calls would print the exception, and lose it
    try:
        try:
            loaded(ini, variables | private_variables(file))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            gc.enable()
    except Exception as error:
        put_error(f"{ini} does not load", error)
        return 1
    print(f"{ini} loads.")
    return 0


def logging_in(ini: Path, variables: Mapping[str, str]) -> ConfigParser:
    """Return the sections of an ini as the logging reads them."""
    parser = ConfigParser()
    parser.read(ini, encoding="utf-8")
    for name, value in {"here": str(ini.parent), "__file__": str(ini), **variables}.items():
        if name in variables or name not in parser.defaults():
            parser.set("DEFAULT", name, value.replace("%", "%%"))
    return parser


def set_up_logging(ini: Path, variables: dict[str, str]) -> None:
    """Set up what the sections [loggers], [handlers] and [formatters] say, or ``DEFAULT_LOGGING``."""
    try:
        parser = logging_in(ini, variables)
        if not parser.has_section("loggers"):
            parser = logging_in(DEFAULT_LOGGING, variables)
        logging.config.fileConfig(parser, disable_existing_loggers=False)
    except IniError as error:  # its own text has the value, which may be a password (S25)
        raise refusal("logging", ini=ini, error=in_one_line(error)) from None
    except (KeyError, ValueError, AttributeError, ImportError) as error:
        raise refusal("logging", ini=ini, error=f"{type(error).__name__}: {error}") from error
