"""The site, as every target of ``pipeline deploy`` gets it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pipeline.interfaces import ConfigurationError, Facts
from pipeline.options import on_demand
from pipeline.paste import Chain, Step
from pipeline.telling.errors import refusal as refusal

# Systems without users as Linux has them can import this.
getgrgid = on_demand("grp:getgrgid")
getgrnam = on_demand("grp:getgrnam")
getpwnam = on_demand("pwd:getpwnam")

MIB = 1024 * 1024
MARGIN = 64 * 1024
"""Bytes by which a server's limit exceeds that of the elements, so that the site's own page says 413."""

VARIABLES = "variables.env"
"""The file with the variables of the command line, as container engines put it into the environment. Only the user
that runs the service can read it (S25)."""
_PASSWORD = re.compile(
    r"://[^:/@\s]*:(?!%\()[^@/?\s]+@|^(?!get ).*?(?:\b|_)(?:pass(?:word|wd)?|secret)\s*+=\s*+(?!%\()\S",
    re.IGNORECASE,
)

StepFacts: TypeAlias = Sequence[tuple[Step, Facts]]
"""Steps of the ini, each with its facts: ``for step, told in facts``."""


class Tls(NamedTuple):
    """The certificate of a site, and the names that it is found by."""

    certificate: str
    """The absolute path of a PEM file, with the certificates between it and the authority."""
    key: str
    names: Sequence[str]
    http: str
    """The address of the redirect: "0.0.0.0:80"."""
    port: str
    """The port in a URL: ":8443", or "" for 443."""


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
    """The path that says whether the site is ready; that of the site if the ini has none."""
    writable: Sequence[str]
    """Directories that the site writes to."""
    leftovers: Sequence[str]
    """Files that are removed before a start."""
    servers: Sequence[str]
    """Servers that the site connects to, as "host:port"."""
    locations: Mapping[str, str]
    """Directories whose files nginx sends itself, and their internal locations."""
    facts: StepFacts
    """The steps of the ini, each with its facts."""
    upstreams: Sequence[str] = ()
    """Instances on other addresses, which nginx asks in turn."""
    rehearse: str = ""
    """The access log whose requests are rehearsed before a reload; "" for no rehearsal."""
    drain: int = 0
    """Seconds from the mark that `health` reads to SIGTERM; 0 for no mark."""
    mark: str = ""
    """The file that says that the site is about to stop."""
    tls: Tls | None = None
    proxies: Sequence[str] = ()
    """Addresses and networks of proxies before nginx, which is told by them how a visitor came."""
    behind_proxy: bool = False
    """True if the site listens on a UNIX socket for the proxy."""

    @property
    def address(self) -> str:
        return address_of(self.host, self.port)

    @property
    def check(self) -> str:
        """The command that asks whether the site is ready."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.address.rpartition(":")[0])
        if self.tls:
            name = self.tls.names[0]
            resolved = f"--resolve {name}:{self.port}:{host}"
            return f"curl -f {resolved} https://{name}{self.tls.port}{self.health}"
        return f"curl -f http://{host}:{self.port}{self.health}"

    @property
    def socket(self) -> Path:
        """The UNIX socket between a proxy and the server of the site."""
        return self.directory / "run" / "site.sock"

    @property
    def user_headers(self) -> list[str]:
        """Headers that name a user, which a proxy does not pass on from visitors (S13)."""
        named = ["X-Forwarded-User", "Remote-User", *(name for _, told in self.facts for name in told.user_headers)]
        return sorted({name.lower().replace("_", "-") for name in named})  # CGI's names have no "-" and no case

    @property
    def path(self) -> str:
        """The path of the site, with a slash at its end."""
        return f"{self.prefix}/"

    @property
    def shares_figures(self) -> bool:
        """True if each process writes its figures, and one adds them up."""
        return any(told.shares_figures for _, told in self.facts)


def address_of(host: str, port: int) -> str:
    """Return an address as servers read it."""
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def refuse_misread(*names: str | Path) -> None:
    """Refuse a path or name that a configuration or a shell would have to quote."""
    for name in map(str, names):
        if not re.fullmatch(r"(?!-)[\w./@:+~-]+", name):
            raise ConfigurationError(f"{name}: a server would misread it; choose one without blanks and signs")


def need_program(name: str, remedy: str, module: str = "") -> str:
    """Return the path of a program; ConfigurationError with the remedy if it, or its Python module, is missing."""
    if module and find_spec(module) is None:
        raise ConfigurationError(f"the module {module} is missing in {sys.prefix}: {remedy}")
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise ConfigurationError(f"the program {name} is missing: {remedy}")
    return found


def need_readable(path: str | Path, user: str) -> None:
    """Raise ConfigurationError if a directory above the path is closed to other users."""
    for place in (Path(path), *Path(path).parents):
        needed = 0o005 if place.is_dir() else 0o004
        if place.exists() and place.stat().st_mode & needed != needed:
            raise refusal("closed", place=place, user=user, path=path, rights="rx" if place.is_dir() else "r")


def refuse_distrust(site: Site, proxy: str) -> None:
    """Refuse an element that reads what proxies say, and would take this one for each visitor (S22)."""
    for step, told in site.facts:
        reason = told.distrusts and told.distrusts("127.0.0.1" if site.upstreams else "unix", "X-Forwarded")
        if reason:
            raise refusal("distrust", where=step.where, step=step, proxy=proxy, reason=reason)


def limit_of(facts: StepFacts) -> int:
    """Return the bytes of a request body that no element would refuse."""
    return max((told.max_body for _, told in facts if told.max_body is not None), default=100 * MIB) + MARGIN


def health_of(chains: Sequence[Chain], prefix: str) -> str:
    """Return the path that says whether the site is ready; that of the site if no app of the ini does."""
    for chain in chains:
        if chain.steps and chain.steps[-1].facts.is_health:
            for word in chain.condition.replace(",", " ").split():
                if word.startswith("path="):
                    return prefix + word.removeprefix("path=")
    return f"{prefix}/"


def password_in(ini: Path, facts: StepFacts = ()) -> str:
    """Return the first line of an ini with a password, or with a secret option, such as "line 7"; or ""."""
    secrets = {step.strings.get(name, "") for step, told in facts for name in told.secrets} - {""}
    for number, line in enumerate(ini.read_text("utf-8", "replace").splitlines(), 1):
        if line.lstrip().startswith(("#", ";")):
            continue
        if _PASSWORD.search(line) or line.partition("=")[2].strip() in secrets:
            return f"line {number}"
    return ""


def has_code(place: Path, *directories: Path) -> bool:
    """Return whether code stands in a directory, or one of these directories is in it."""
    return any(code.is_relative_to(place) for code in directories) or any(place.glob("*.py"))


def places_of(facts: StepFacts, directory: Path) -> Iterator[tuple[Step, str, Path]]:
    """Yield the step, the path and the directory of what the site writes. Relative paths begin in ``directory``."""
    for step, told in facts:
        for path in told.writes:
            place = (directory / path).resolve()
            yield step, path, place if path.endswith("/") and place.is_dir() else place.parent
