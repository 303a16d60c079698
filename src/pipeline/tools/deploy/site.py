"""The site, as every target of ``pipeline deploy`` gets it, and the deployment that a target returns."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import NamedTuple

from pipeline.health import health
from pipeline.interfaces import ConfigurationError
from pipeline.paste import Chain, Step
from pipeline.tools.ini import file_of
from pipeline.tools.loading import PRIVATE

MIB = 1024 * 1024
MARGIN = 64 * 1024
"""Bytes by which a server's limit exceeds that of ``forms``, so that the site's own page says 413."""

APPLICATION = '''\
"""The site of {ini}, for every WSGI server: the object `application`.

`{python} {file}` tries whether the site loads, and says in one line why not: run it before a reload.
"""

import sys

from pipeline.tools.loading import deployed, try_out

INI = {ini!r}
# The file with the variables of the command line, which may be secret. PIPELINE_VARIABLES takes its place.
PRIVATE = {private!r}
VARIABLES = {variables!r}

if __name__ == "__main__":
    sys.exit(try_out(INI, PRIVATE, **VARIABLES))
application = deployed(INI, PRIVATE, **VARIABLES)
'''
VARIABLES = "variables.json"
"""The file with the variables of the command line. Only the user that runs the service can read it (S25)."""
ENVIRONMENT = "variables.env"
"""The same for a container: a file for ``docker run --env-file``."""
SECRET = (VARIABLES, ENVIRONMENT)
_PASSWORD = re.compile(r"://[^:/@\s]*:(?!%\()[^@/?\s]+@|(?<!get )\bpass(?:word|wd)?\s*=\s*(?!%\()\S", re.IGNORECASE)


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
    """The user that runs the service under systemd, and the processes of an Apache that root starts."""
    group: str
    """The group of nginx, which may connect to the UNIX socket."""
    max_body: int
    """Bytes of a request body that the server lets through."""
    health: str
    """The path that says whether the site is ready; that of the site if the ini has no ``health``."""
    writable: Sequence[str]
    """Directories that the site writes to."""
    locations: Mapping[str, str]
    """Directories whose files nginx sends itself, and their internal locations (the element ``sendfile``)."""
    vhosts: Sequence[Step]
    """The steps with the element ``vhost``."""
    passwords: Mapping[str, str]
    """The lines of inis with a password, such as "line 7", by the path of the ini."""
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

    @property
    def script(self) -> dict[str, str]:
        """The script with the object ``application``, and the file with its variables."""
        file = self.directory / VARIABLES
        text = APPLICATION.format(
            ini=self.ini,
            variables={},
            private=str(file) if self.variables else None,
            python=self.python,
            file=self.directory / "wsgi.py",
        )
        variables = {VARIABLES: json.dumps(self.variables, indent=1)} if self.variables else {}
        return {"wsgi.py": text, **variables}

    @property
    def environment(self) -> dict[str, str]:
        """The file with the variables for a container."""
        return {ENVIRONMENT: f"{PRIVATE}={json.dumps(self.variables)}\n"} if self.variables else {}


class Deployment(NamedTuple):
    """The files of a target, and the commands to be printed."""

    files: Mapping[str, str]
    """Text by name. A name that ends with ``.sh`` or ``.fcgi`` is executable. One user alone can read a SECRET."""
    start: Sequence[str]
    stop: Sequence[str]
    reload: Sequence[str]
    syntax: Sequence[str]
    """The server's own check of what was written; empty if it has none."""
    notes: Sequence[str] = ()
    group: str = ""
    """The group of ``run/``, and so of the UNIX socket there; "" for that of this user."""


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


def vhosts_of(chains: Sequence[Chain]) -> list[Step]:
    """Return the steps with the element ``vhost``, without those that several chains share."""
    steps = [step for chain in chains for step in chain.steps if str(step) == "vhost" and step.element is not None]
    return list({step.where: step for step in steps}.values())


def passwords_of(chains: Sequence[Chain]) -> dict[str, str]:
    """Return the lines with a password in the inis of the site. A password of a variable is not in a file."""
    inis = {file for chain in chains for step in chain.steps for file in step.source.inis}
    return {file: line for file in sorted(inis) if (line := password_in(Path(file)))}


def password_in(ini: Path) -> str:
    """Return the first line of an ini with a password, such as "line 7", or ""."""
    for number, line in enumerate(ini.read_text("utf-8", "replace").splitlines(), 1):
        if not line.lstrip().startswith(("#", ";")) and _PASSWORD.search(line):
            return f"line {number}"
    return ""


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
