"""A deploy target: a package with a template for each file that is written, and one for its commands.

An entry point of the group ``wsgi_pipeline.deploy_targets`` names the package. The first line of its docstring is
its title. ``NAME.j2`` is the Jinja2 template of the file ``NAME``, which is not written if nothing comes out.
``commands.j2`` has a line for each command, after its verb: ``start``, ``stop``, ``reload``, ``check`` (the
server's own check of the files) or ``note``; and ``user NAME`` for the processes of the site if root starts the
server, and ``group NAME`` for the UNIX socket in ``run/``. A package may have these names as well:

PROGRAM  the program of the server, the command that installs it, and its Python module if it is one
values   a function of the ``Site`` that returns further values for the templates. ``inner`` is the deployment of a
         server behind this one, whose files are written, too; ``names`` has other names for files, as systemd's
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, PrefixLoader, StrictUndefined

from pipeline.deploying.site import VARIABLES, Site, need_program
from pipeline.loading.site import PRIVATE

GROUP = "wsgi_pipeline.deploy_targets"
TEMPLATE = ".j2"


class Deployment(NamedTuple):
    """The files of a target, and its commands."""

    files: Mapping[str, str]
    """Text by name. A name that ends with ``.sh`` is executable."""
    commands: Sequence[tuple[str, str]]
    """Each with its verb. Those of one verb are printed in this order; ``user`` and ``group`` are only read."""

    def all(self, verb: str) -> list[str]:
        """Return the commands with a verb."""
        return [command for one, command in self.commands if one == verb]

    def one(self, verb: str) -> str:
        """Return the command with a verb, or ""."""
        return next(iter(self.all(verb)), "")


@cache
def targets() -> dict[str, ModuleType]:
    """Return the targets of all installed packages, by name. Ours are named in ``setup.py``."""
    return {point.name: point.load() for point in sorted(entry_points(group=GROUP))}


def title(target: ModuleType) -> str:
    """Return what a target says of itself."""
    return (target.__doc__ or "").partition("\n")[0].rstrip(".")


def folder(target: ModuleType) -> Path:
    """Return the directory with the templates of a target."""
    return Path(target.__file__ or "").parent


@cache
def templates() -> Environment:
    """Return the environment of the templates. Each is called by its target and its name."""
    folders = {name: folder(target) for name, target in targets().items()}
    folders["shared"] = Path(__file__).parent / "shared"
    found = Environment(
        loader=PrefixLoader({name: FileSystemLoader(place) for name, place in folders.items()}),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"json": json.dumps, "shell": shlex.join}
    found.filters["python"] = lambda value: repr(str(value) if isinstance(value, Path) else value)
    return found


def deployment_of(name: str, site: Site) -> Deployment:
    """Return the files and commands of a target for a site. Nothing is written yet.

    Raises ConfigurationError if the server is missing, or would not run the site.
    """
    target = targets()[name]
    values: dict[str, Any] = {
        "target": name,
        "site": site,
        "tls": site.tls,
        "program": need_program(*target.PROGRAM) if hasattr(target, "PROGRAM") else "",
        "python": sys.executable,
        "environment": sys.prefix,
        "run": f"{site.directory}/run",
        "private": f"{site.directory}/{VARIABLES}",
        "inner": Deployment({}, ()),
        "names": {},
    }
    if hasattr(target, "values"):
        values |= target.values(site)
    found = sorted(path.name.removesuffix(TEMPLATE) for path in folder(target).glob(f"*{TEMPLATE}"))
    texts = {file: templates().get_template(f"{name}/{file}{TEMPLATE}").render(values) for file in found}
    lines = [line.partition(" ") for line in texts.pop("commands").splitlines() if line]
    texts = {values["names"].get(file, file): text for file, text in texts.items() if text.strip()}
    files = {**values["inner"].files, **texts}
    if site.variables and "wsgi.py" in files:
        text = json.dumps(site.variables).replace("$", r"\u0024").replace("#", r"\u0023")  # Compose has its own use
        files[VARIABLES] = f"{PRIVATE}={text}\n"
    return Deployment(files, [(verb, command) for verb, _, command in lines])
