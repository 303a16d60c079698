"""The lock of a container: every package with its version and its hash, as pip installs it here."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pipeline.deploying.site import refusal
from pipeline.interfaces import ConfigurationError

HEAD = """\
# What the image installs, with the versions of {prefix}. Written by `pipeline deploy container`,
# which keeps this file as it is: remove it, and the next `pipeline deploy` asks the index again.
"""
TOOLS = ("pip", "setuptools", "wheel")
SERVER = "wsgi-pipeline[gunicorn]"
WHEELS = "wheels"
"""The directory of a project with packages that are not on the index."""


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


def project_of(root: Path) -> dict[str, Any]:
    """Return what pyproject.toml says; nothing if there is none."""
    try:
        return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{root / 'pyproject.toml'}: {error}") from None
