"""a Dockerfile, with a lock of the packages.

The project is installed by the lock; one process drains on SIGTERM, is not root, and has its data in volumes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pipeline.deploying.site import VARIABLES, Site, has_code, password_in, refusal
from pipeline.interfaces import ConfigurationError

LOCAL = ("localhost", "127.0.0.1", "[::1]")
MARK = "/tmp/draining"
HOME = "/srv/site"
"""The directory of the project in the container."""
WHEELS = "wheels"
"""The directory of a project with packages that are not on the index."""
HEAD = """\
# What the image installs, with the versions of {prefix}. Written by `pipeline deploy container`,
# which keeps this file as it is: remove it, and the next `pipeline deploy` asks the index again.
"""
TOOLS = ("pip", "setuptools", "wheel")
SERVER = "wsgi-pipeline[gunicorn]"


def values(site: Site) -> dict[str, Any]:
    ini = Path(site.ini.partition("#")[0])
    root = root_of(ini)
    if not site.directory.is_relative_to(root) or site.directory == root:
        raise refusal("outside of the project", root=root)
    project = project_of(root)
    wanted = list(needed(root, ini, project, site))
    refuse_passwords(root, [f"{ini.parent.relative_to(root)}/*.ini", *wanted], site)
    volumes = {volume: f"site{volume.replace('/', '-')}" for volume in volumes_of(root, ini, site)}
    directory = site.directory.relative_to(root)
    about = project.get("project", {})
    hosts = dict.fromkeys(server.rpartition(":")[0] for server in site.servers if server.endswith(":5432"))
    lock = site.directory / "requirements.txt"
    leftovers = [MARK if path == site.mark else path for path in site.leftovers]
    return {
        "root": root,
        "home": HOME,
        "directory": directory,
        "version": f"{sys.version_info.major}.{sys.version_info.minor}",
        "project": project,
        "title": about.get("name", root.name),
        "release": about.get("version", ""),
        "wheels": WHEELS if (root / WHEELS).is_dir() else "",
        "needed": wanted,
        "ignored": list(ignored(root, [*volumes])),
        "volumes": volumes,
        "databases": [host for host in hosts if re.fullmatch(r"[a-z][a-z0-9-]*", host) and host != "localhost"],
        "local": [server for server in site.servers if server.rpartition(":")[0] in LOCAL],
        "lock": lock.read_text("utf-8") if lock.exists() else lock_of(root),
        # In the container.
        "python": "python",
        "run": "/tmp",
        "private": f"/run/secrets/{VARIABLES}",
        "inside": site._replace(
            ini=HOME + site.ini.removeprefix(str(root)),
            directory=Path(HOME) / directory,
            # Every address of the container, for a proxy in front of it: its ports say who else can reach it.
            host="0.0.0.0",
            port=8080,
            prefix="",
            behind_proxy=False,
            mark=MARK,
            leftovers=[inside(root, Path(path)) for path in leftovers],
            rehearse=inside(root, Path(site.rehearse)) if site.rehearse else "",
        ),
    }


def root_of(ini: Path) -> Path:
    """Return the directory of the project: the first one, from that of the ini on, that has pyproject.toml."""
    places = (place for place in ini.parents if (place / "pyproject.toml").exists())
    return next(places, ini.parent)


def inside(root: Path, path: Path) -> str:
    """Return where a path is in the container: that of a file of the project, or the same elsewhere."""
    return str(Path(HOME) / path.relative_to(root) if path.is_relative_to(root) else path)


def volumes_of(root: Path, ini: Path, site: Site) -> list[str]:
    """Return the directories of the container that the site writes to.

    Raises ConfigurationError for a file beside the code: nothing can be written there.
    """
    volumes: list[str] = []
    for step, told in site.facts:
        for path in told.writes:
            file = Path(os.path.normpath(site.directory / path))
            place = file if path.endswith("/") else file.parent
            with_code = has_code(place, root, ini.parent, site.directory)
            above = root.parent != Path("/") and place.is_relative_to(root.parent)
            if with_code or (above and not place.is_relative_to(root)):
                named = {"where": step.where, "step": step, "path": path, "root": root, "name": file.name}
                raise refusal("beside the code of a container", **named)
            volume = inside(root, place)
            if not any(Path(volume).is_relative_to(one) for one in volumes):
                volumes = [one for one in volumes if not Path(one).is_relative_to(volume)] + [volume]
    return volumes


OF_A_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in", "README*", "LICENSE*")
"""Files that an installation reads."""


def needed(root: Path, ini: Path, project: dict[str, Any], site: Site) -> Iterator[str]:
    """Yield the files and directories that the image needs, as lines of a .dockerignore: those that the
    installation reads, the packages, the modules beside the ini, and the inis that it reads."""
    for name in OF_A_PROJECT:
        yield from sorted(file.name for file in root.glob(name))
    if (root / WHEELS).is_dir():
        yield f"{WHEELS}/**"
    setuptools = project.get("tool", {}).get("setuptools", {})
    named = setuptools.get("packages", ())
    packages = {name.partition(".")[0] for name in named} if isinstance(named, list) else set()
    packages = packages or {file.parent.name for file in root.glob("*/__init__.py")} - {"test", "tests"}
    if (root / "src").is_dir():
        packages = {"src"}
    if not project:  # a site that is not installed
        packages |= {"static", "templates"}
    yield from (f"{name}/**" for name in sorted(packages) if (root / name).is_dir())
    inis = {ini, *(Path(os.path.normpath(one)) for step, _ in site.facts for one in step.source.inis)}
    for place in sorted({root, *(one.parent for one in inis)}):
        if place.is_relative_to(root) and any(place.glob("*.py")):
            yield str((place / "*.py").relative_to(root))
    yield from sorted(str(one.relative_to(root)) for one in inis if one.is_relative_to(root))


def ignored(root: Path, volumes: list[str]) -> Iterator[str]:
    """Yield the environments of Python in the project, and its directories with data."""
    for marker in sorted((*root.glob("*/pyvenv.cfg"), *root.glob("*/*/pyvenv.cfg"))):
        yield str(marker.parent.relative_to(root))
    for volume in volumes:
        if volume.startswith(f"{HOME}/"):
            yield volume.removeprefix(f"{HOME}/")


def refuse_passwords(root: Path, needed: list[str], site: Site) -> None:
    """Refuse an ini with a password that the image has or could have: each user of that could read it (S25)."""
    places = ["*.ini", *(f"{one}/*.ini" if one.endswith("**") else one for one in needed)]
    for ini in sorted(ini for place in places for ini in root.glob(place) if ini.suffix == ".ini"):
        if line := password_in(ini, site.facts):
            raise refusal("password in the image", ini=ini, line=line, file=VARIABLES)


def lock_of(root: Path) -> str:
    """Return the requirements, with hashes, of a project; without pyproject.toml, those of all that is installed.

    Raises ConfigurationError if pip does not find a package that is installed here.
    """
    installed = {one.metadata["Name"]: one.version for one in distributions()}
    project = project_of(root)
    if project:
        extras = project.get("project", {}).get("optional-dependencies", ())
        wanted = [f"{root}[production]" if "production" in extras else str(root)]
        wanted += [*project.get("build-system", {}).get("requires", ["setuptools"])]
    else:
        wanted = [name for name in installed if name not in TOOLS]
    own = project.get("project", {}).get("name", "")
    with tempfile.TemporaryDirectory() as name:
        constraints = Path(name, "constraints.txt")
        lines = (f"{one}=={version}\n" for one, version in installed.items() if one not in (*TOOLS, own))
        constraints.write_text("".join(lines))
        links = ["--find-links", str(root / WHEELS)] if (root / WHEELS).is_dir() else []
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
        words += ["--ignore-installed", "--report", "-", "-c", str(constraints), *links, SERVER, *wanted]
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise refusal("no lock", wheels=root / WHEELS, said=done.stderr.strip())
    found = json.loads(done.stdout)["install"]
    pinned = sorted(pin(one) for one in found if "archive_info" in one["download_info"])
    return HEAD.format(prefix=sys.prefix) + "".join(pinned)


def pin(found: dict[str, Any]) -> str:
    """Return the line of a package in the report of pip."""
    about, source = found["metadata"], found["download_info"]
    digest = source["archive_info"].get("hashes", {}).get("sha256")
    if digest is None:  # pip computes none for a file of this machine
        file = url2pathname(urlsplit(source["url"]).path)
        digest = sha256(Path(file).read_bytes()).hexdigest()
    return f"{about['name']}=={about['version']} --hash=sha256:{digest}\n"


OF_PYPROJECT: tuple[tuple[str, type | tuple[type, ...], tuple[str, ...]], ...] = (
    ("a table", dict, ("project", "project.optional-dependencies", "build-system", "tool", "tool.setuptools")),
    ("a text", str, ("project.name", "project.version")),
    ("a list of texts", list, ("build-system.requires",)),
    ("a list of texts", (list, dict), ("tool.setuptools.packages",)),
)
"""The keys of pyproject.toml that are read, each behind that of its table, and what their values must be."""


def project_of(root: Path) -> dict[str, Any]:
    """Return what pyproject.toml says; nothing if there is none. ConfigurationError names a key of another type."""
    file = root / "pyproject.toml"
    try:
        found = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigurationError(f"{file}: {error}") from None
    for what, kinds, keys in OF_PYPROJECT:
        for key in keys:
            value: Any = found
            for name in key.split("."):
                value = (value or {}).get(name)
            is_odd = isinstance(value, list) and not all(isinstance(one, str) for one in value)
            if value is not None and (is_odd or not isinstance(value, kinds)):
                raise ConfigurationError(f"{file}: {key} must be {what}, not {value!r}")
    return found
