"""Apache with mod_wsgi: daemon processes, or --embedded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipeline.deploying.site import Site, getpwnam, need_program, need_readable, refusal
from pipeline.interfaces import ConfigurationError

MODULES = Path("/usr/lib/apache2/modules")
PROGRAM = ("apache2", "apt install apache2 libapache2-mod-wsgi-py3")


def values(site: Site) -> dict[str, Any]:
    return of_apache(site, f'wsgi_module "{mod_wsgi()}"')


def of_apache(site: Site, module: str) -> dict[str, Any]:
    """Return the values for the configuration of an Apache with a module that runs the site."""
    need_readable_by_apache(site)
    try:
        group = getpwnam(site.user).pw_gid
    except KeyError:  # this machine does not have the user
        group = None
    return {
        "module": module,
        "modules": MODULES,
        "group": group,
        "threads": max(site.threads, 25),
        "call": f"{need_program(*PROGRAM)} -d {site.directory} -f {site.directory}/apache.conf",
    }


def need_readable_by_apache(site: Site) -> None:
    """Refuse what Apache's own user could not read, if root starts it."""
    if os.geteuid() == 0:
        for path in (sys.prefix, sys.base_prefix, site.ini.partition("#")[0]):
            need_readable(path, "Apache's user www-data")


def mod_wsgi() -> Path:
    """Return the module for this Python; ConfigurationError if there is none, or one for another Python.

    That of the system, and else the one that pip has built.
    """
    module = MODULES / "mod_wsgi.so"
    built_by_pip = find_spec("mod_wsgi") is not None
    if not module.exists() and not built_by_pip:
        raise ConfigurationError(f"{module} is missing: {PROGRAM[1]}")
    found = re.search(r"-(\d+\.\d+)$", str(module.resolve()))
    built = found[1] if found else "an unknown version"
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    if built == mine and Path(sys.base_prefix) == Path("/usr"):
        return module
    if not built_by_pip:
        raise refusal("mod_wsgi of another Python", module=module, built=built, mine=mine, sys=sys)
    command = [need_program("mod_wsgi-express", "pip install mod_wsgi"), "module-location"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
