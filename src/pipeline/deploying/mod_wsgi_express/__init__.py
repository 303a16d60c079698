"""the Apache of pip's mod_wsgi."""

from __future__ import annotations

from typing import Any

from pipeline.deploying.apache import need_readable_by_apache
from pipeline.deploying.site import Site

PROGRAM = ("mod_wsgi-express", "apt install apache2-dev, then pip install --no-cache-dir mod_wsgi")


def values(site: Site) -> dict[str, Any]:
    need_readable_by_apache(site)
    return {}
