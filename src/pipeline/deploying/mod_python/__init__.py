"""Apache with mod_python.

For a server that has it: the site runs in Apache's own processes.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from pipeline.deploying.apache import MODULES, of_apache
from pipeline.deploying.site import Site
from pipeline.interfaces import ConfigurationError

PROGRAM = ("apache2", "apt install apache2 libapache2-mod-python")


def values(site: Site) -> dict[str, Any]:
    return of_apache(site, f'python_module "{mod_python()}"') | {"packages": sysconfig.get_path("purelib")}


def mod_python() -> Path:
    """Return the module of the system; ConfigurationError if there is none, or this is another Python."""
    module = MODULES / "mod_python.so"
    if not module.exists():
        raise ConfigurationError(f"{module} is missing: {PROGRAM[1]}")
    if Path(sys.base_prefix) != Path("/usr"):
        raise ConfigurationError(
            f"{module} is built for /usr/bin/python3, and {sys.prefix} is an environment of the Python in "
            f"{sys.base_prefix}: make one with /usr/bin/python3 -m venv, install the site in it and run its own "
            f"pipeline"
        )
    return module
