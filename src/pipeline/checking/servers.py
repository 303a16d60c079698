"""Findings of ``pipeline check`` about the server of an ini, and ``paster serve``."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paste.deploy.loadwsgi import SERVER, loadcontext

from pipeline.checking.values import slips_in
from pipeline.ini import place_in, sections_of, text_of
from pipeline.options import resolve
from pipeline.paste import named_errors
from pipeline.serving.choice import is_everywhere
from pipeline.strings import BOOLEANS
from pipeline.telling.errors import in_one_line
from pipeline.telling.findings import Finding, of_error

SERVERS = ("waitress", "gunicorn", "granian")
"""The packages of servers that a site is served by, as a rule."""
MIB = 1024 * 1024
OLDEST_SETUPTOOLS = 77
"""The first setuptools whose pkg_resources finds installed packages with a dot in their name."""


def is_for_development(path: Path) -> bool:
    """Return whether the server of an ini is waitress, for this machine alone."""
    keys = sections_of(str(path)).get("server:main", (0, {}))[1]
    values = {key: keys[key][1] for key in ("use", "host") if key in keys}
    return values == {"use": "egg:waitress#main", "host": "127.0.0.1"}


def of_server(path: Path, variables: Mapping[str, str], max_body: int | None) -> Iterator[Finding]:
    """Yield what is wrong with [server:main], and what is not safe.

    max_body  bytes of the longest body that an element takes; None if none says it
    """
    if "server:main" in sections_of(str(path)):
        uri = f"config:{path}"
        try:
            with named_errors(uri):
                settings = loadcontext(SERVER, uri, "main", global_conf=dict(variables)).local_conf
        except (LookupError, ModuleNotFoundError) as error:
            yield of_missing_server(path, error)
        else:
            yield from of_port(path, str(settings.get("host", "127.0.0.1")), str(settings.get("port", "")))
            yield from of_options(path, settings)
    elif others := [name for name in sections_of(str(path)) if name.strip().lower().startswith("server")]:
        where = place_in(path, others[0], "use")
        yield Finding("warning", where, "no section is [server:main], which is served", "Give it that name.")
    yield from of_safety(path, max_body)


def of_missing_server(path: Path, error: Exception) -> Finding:
    """Return what is said of a server that is not there: a note, if it is one that other machines may have."""
    finding = of_error(error, f"{path}, section [server:main]")
    name = package_of(path)
    if name in SERVERS and find_spec(name) is not None:  # its section is wrong
        return finding
    if name in SERVERS:
        return finding._replace(level="note", remedy=f"pip install {name}")
    near = get_close_matches(name, SERVERS, n=1)
    return finding._replace(remedy=f"did you mean {near[0]}?" if near else f"Known are {', '.join(SERVERS)}.")


def package_of(path: Path) -> str:
    """Return the name of the package of the server that [server:main] uses."""
    return re.sub(r"^egg:|#.*$", "", sections_of(str(path))["server:main"][1].get("use", (0, None))[1] or "")


def of_options(path: Path, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the options that waitress or gunicorn do not know, and the values that they refuse."""
    name = package_of(path)
    known = known_options(name)
    for option, value in settings.items() if known else ():
        where = place_in(path, "server:main", option)
        if option.lower() not in known:
            near = get_close_matches(option, known, n=1)
            remedy = f"Did you mean {near[0]}?" if near else f"{name} names its options in its documentation."
            yield Finding("error", where, f"{name} has no option {option!r}", remedy)
            continue
        slips = [*slips_in({"str"}, value)]
        yield from (Finding("error", where, f"{option}: {part!r} {what}", remedy) for part, what, remedy in slips)
        if slips:
            continue
        read = known[option.lower()]
        if getattr(read, "__name__", "") == "asbool" and value.lower() not in {*BOOLEANS, "t", "f", "y", "n"}:
            yield Finding("error", where, f"{option} = {value}: {name} takes it for false", "Write true or false.")
        try:
            read(value)
        except Exception as error:
            said = in_one_line(error).partition(": [Traceback")[0]
            yield Finding("error", where, f"{option} = {value}: {said}", f"{name} would not start with it.")


def known_options(server: str) -> Mapping[str, Callable[[Any], object]]:
    """Return the options of a server by name, as its package tells them, each with the function that reads its
    value; none for any other server."""
    if server == "waitress":
        return dict(resolve("waitress.adjustments:Adjustments")._params)
    if server == "gunicorn":
        settings = resolve("gunicorn.config:Config")().settings
        readers = {name: setting.set for name, setting in settings.items()}
        by_hand = {"host": str, "port": int, "config": str, "worker_class": resolve("gunicorn.util:load_class")}
        return {**readers, **by_hand}
    return {}


def of_port(path: Path, host: str, port: str) -> Iterator[Finding]:
    """Yield that the port of the server is in use, by this site or by another program."""
    if not port.isdecimal() or ":" in host:
        return
    if int(port) > 65_535:
        yield Finding.of("no port", place_in(path, "server:main", "port"), port=port)
        return
    try:
        socket.create_server(("" if is_everywhere(host) else host, int(port))).close()
    except OSError:
        yield Finding.of("port in use", place_in(path, "server:main", "port"), host=host, port=port)


def of_paster(directory: Path) -> Iterator[Finding]:
    """Yield why ``paster serve`` fails in a directory, if PasteScript is installed."""
    try:
        if find_spec("paste.script") is None:
            return
    except ModuleNotFoundError:  # not even Paste
        return
    eggs = [egg for place in (directory, *directory.parents) for egg in sorted(place.glob("*.egg-info"))]
    if eggs and int(version("setuptools").partition(".")[0]) < OLDEST_SETUPTOOLS:
        yield Finding.of("paster serve", str(eggs[0]), oldest=OLDEST_SETUPTOOLS)


def of_safety(path: Path, max_body: int | None) -> Iterator[Finding]:
    """Yield what is not safe about the server, and about middleware that is known to be for development."""
    text = text_of(path, "server:main")
    sections = sections_of(str(path))
    _, keys = sections.get("server:main", (0, {}))
    for key in ("host", "listen", "bind"):
        _, value = keys.get(key, (0, None))
        if value is not None and is_everywhere(value):
            yield Finding.of("every address", place_in(path, "server:main", key), value=value)
    longest = 100 * MIB if max_body is None else max_body
    if "waitress" in text and "max_request_body_size" not in text and longest < 1024 * MIB:
        yield Finding.of("long bodies", place_in(path, "server:main"), longest=longest)
    names = ("paste#evalerror", "paste#cgitb", "weberror", "werkzeug", "backlash", "pyramid_debugtoolbar")
    debuggers = tuple(f"egg:{name}" for name in names)
    for section, (_, keys) in sections.items():
        _, value = keys.get("use", (0, None))
        if value is not None and value.lower().startswith(debuggers):
            where = place_in(path, section, "use")
            yield Finding("warning", where, f"{value} lets visitors run code or see the program", "Delete it.")
