"""lighttpd in front of gunicorn.

It takes slow clients and bodies off the threads of the site.
"""

from __future__ import annotations

from typing import Any

from pipeline.deploying.site import Site, refuse_distrust
from pipeline.deploying.target import deployment_of

PROGRAM = ("lighttpd", "apt install lighttpd")


def values(site: Site) -> dict[str, Any]:
    refuse_distrust(site, "lighttpd")
    return {"inner": deployment_of("gunicorn", site._replace(behind_proxy=True, behind="gunicorn"))}
