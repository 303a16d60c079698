"""uWSGI by HTTP.

Its processes have threads. Behind nginx it speaks its own protocol.
"""

from __future__ import annotations

from typing import Any

from pipeline.deploying.site import Site

PROGRAM = ("uwsgi", "pip install uwsgi")


def values(site: Site) -> dict[str, Any]:
    return {"listen": listen_queue()}


def listen_queue() -> int:
    """Return how many connections may wait: as many as the kernel allows, up to 1024."""
    try:
        with open("/proc/sys/net/core/somaxconn") as file:
            return min(1024, int(file.read()))
    except OSError:
        return 100
