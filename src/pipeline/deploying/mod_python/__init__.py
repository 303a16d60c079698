"""Apache with mod_python.

For a server that has it: the site runs in Apache's own processes.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from pipeline.deploying.apache import MODULES, of_apache
from pipeline.deploying.site import Site, refusal
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
        raise refusal("mod_python of another Python", module=module, sys=sys)
    return module
