"""a socket and a service with gunicorn.

systemd keeps the socket open, and gunicorn is a service without rights that it does not need.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.deploying.site import Site, has_code, places_of, refusal, refuse_misread
from pipeline.deploying.target import deployment_of
from pipeline.interfaces import ConfigurationError


def values(site: Site) -> dict[str, Any]:
    name = site.directory.name
    if "@" in name:
        raise ConfigurationError(f"{site.directory}: systemd takes a name with '@' for that of a template of units")
    if not site.behind_proxy and not re.search(r":|^[\d.]+$", site.host):
        raise ConfigurationError(f"--host {site.host}: systemd listens on an address, such as 127.0.0.1 or ::1")
    refuse_misread(*writable(site))
    places = (str(site.directory), sys.executable, site.ini)
    return {
        "inner": deployment_of("gunicorn", site),
        "name": name,
        "names": {f"site.{kind}": f"{name}.{kind}" for kind in ("service", "socket")},
        "in_home": any(place.startswith(("/home/", "/root/")) for place in places),
        "writable": writable(site),
        # systemd starts no service with a writable path that is missing.
        "absent": [place for place in site.writable if not Path(place).exists()],
        "analyze": shutil.which("systemd-analyze"),
    }


def writable(site: Site) -> Sequence[str]:
    """Return the directories that the service writes to.

    Raises ConfigurationError for one with the code of the site: who breaks into the service could change it.
    """
    for step, path, place in places_of(site.facts, site.directory):
        if has_code(place, Path(site.ini).parent, site.directory):
            raise refusal("beside the code", where=step.where, step=step, path=path, name=Path(path).name)
    return [f"{site.directory}/run", *site.writable]
