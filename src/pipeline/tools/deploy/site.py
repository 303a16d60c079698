"""The site, as every target of ``pipeline deploy`` gets it, and the deployment that a target returns."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import NamedTuple

from pipeline.health import health
from pipeline.interfaces import ConfigurationError
from pipeline.paste import Chain
from pipeline.tools.ini import file_of

MIB = 1024 * 1024
MARGIN = 64 * 1024
"""Bytes by which a server's limit exceeds that of ``forms``, so that the site's own page says 413."""

APPLICATION = '''\
"""The site of {ini}, for every WSGI server: the object `application`.

`{python} {file}` tries whether the site loads, and says in one line why not: run it before a reload.
"""

import sys

from pipeline.tools.loading import application_of, try_out

INI = {ini!r}
VARIABLES = {variables!r}

if __name__ == "__main__":
    sys.exit(try_out(INI, **VARIABLES))
application = application_of(INI, **VARIABLES)
'''


class Site(NamedTuple):
    """The site, and the choices of the command line."""

    ini: str
    """The absolute path, with ``#name`` if one was given."""
    variables: Mapping[str, str]
    directory: Path
    """The directory for everything that is written."""
    host: str
    port: int
    prefix: str
    """The path of the site on the server: "" or "/app"."""
    workers: int
    threads: int
    behind: str
    """The server behind nginx."""
    embedded: bool
    user: str
    """The user that runs the service under systemd."""
    max_body: int
    """Bytes of a request body that the server lets through."""
    health: str
    """The path that says whether the site is ready; that of the site if the ini has no ``health``."""
    writable: Sequence[str]
    """Directories that the site writes to."""
    locations: Mapping[str, str]
    """Directories whose files nginx sends itself, and their internal locations (the element ``sendfile``)."""
    upstreams: Sequence[str] = ()
    """Instances on other addresses, which nginx asks in turn."""
    behind_proxy: bool = False
    """True if the site listens on a UNIX socket for the proxy."""

    @property
    def address(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def socket(self) -> Path:
        """The UNIX socket between a proxy and the server of the site."""
        return self.directory / "run" / "site.sock"

    @property
    def python(self) -> str:
        return sys.executable

    @property
    def path(self) -> str:
        """The path of the site, with a slash at its end."""
        return f"{self.prefix}/"

    def application(self) -> str:
        """Return the script with the object ``application``."""
        return APPLICATION.format(
            ini=self.ini, variables=dict(self.variables), python=self.python, file=self.directory / "wsgi.py"
        )


class Deployment(NamedTuple):
    """The files of a target, and the commands to be printed."""

    files: Mapping[str, str]
    """Text by name. A name that ends with ``.sh`` or ``.fcgi`` is executable."""
    start: Sequence[str]
    stop: Sequence[str]
    reload: Sequence[str]
    syntax: Sequence[str]
    """The server's own check of what was written; empty if it has none."""
    notes: Sequence[str] = ()


def need_program(name: str, remedy: str) -> str:
    """Return the path of a program; ConfigurationError with the remedy if it is missing."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise ConfigurationError(f"the program {name} is missing: {remedy}")
    return found


def need_module(name: str, remedy: str) -> None:
    """Raise ConfigurationError with the remedy if the Python module is missing."""
    if find_spec(name) is None:
        raise ConfigurationError(f"the module {name} is missing in {sys.prefix}: {remedy}")


def need_readable(path: str | Path, user: str) -> None:
    """Raise ConfigurationError if a directory above the path is closed to other users."""
    for place in (Path(path), *Path(path).parents):
        needed = 0o005 if place.is_dir() else 0o004
        if place.exists() and place.stat().st_mode & needed != needed:
            raise ConfigurationError(
                f"{place} cannot be read by {user}, who serves {path}: put it elsewhere, such as below /srv, or "
                f"chmod o+{'rx' if place.is_dir() else 'r'} {place}"
            )


def limit_of(chains: Sequence[Chain]) -> int:
    """Return the bytes of a request body that no element would refuse."""
    limits = [
        step.element.options.get("max_body", signature(step.element.factory).parameters["max_body"].default)
        for chain in chains
        for step in chain.steps
        if step.element is not None and step.element.name == "forms"
    ]
    return max(limits, default=100 * MIB) + MARGIN


def health_of(chains: Sequence[Chain], prefix: str) -> str:
    """Return the path of ``health`` on the server; that of the site if the ini has none."""
    for chain in chains:
        if chain.steps and chain.steps[-1].factory is health:
            for word in chain.condition.replace(",", " ").split():
                if word.startswith("path="):
                    return prefix + word.removeprefix("path=")
    return f"{prefix}/"


def locations_of(chains: Sequence[Chain]) -> dict[str, str]:
    """Return the directories of the elements ``sendfile``, and their locations."""
    found: dict[str, str] = {}
    for chain in chains:
        for step in chain.steps:
            if step.element is not None and step.element.name == "sendfile":
                found |= step.element.options.get("locations") or {}
    return found


def directories_of(chains: Sequence[Chain]) -> list[str]:
    """Return the directories with the database and the keys of sessions, which the site writes to."""
    files = []
    if (uri := file_of(chains)) is not None:
        files.append(uri.partition("://")[2].partition("?")[0])
    for chain in chains:
        for step in chain.steps:
            if step.element is not None and step.element.options.get("keys"):
                files.append(str(step.element.options["keys"]))
    return sorted({str(Path(file).resolve().parent) for file in files if file.startswith("/")})
