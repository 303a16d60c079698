"""The choice of the server, by the command line and the ini."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pipeline.interfaces import WSGIApp

EVERY_ADDRESS = ("0.0.0.0", "::", "[::]", "*", "")
"""Hosts that stand for every address of this machine."""

Load = Callable[[], WSGIApp]
"""Loads the app, in the process that serves it."""


class Choice(NamedTuple):
    """The server, and how it is run."""

    server: str
    """waitress, gunicorn or granian; or the package of another server that [server:main] uses."""
    host: str
    port: int
    workers: int
    threads: int
    settings: Mapping[str, str]
    """Other options of [server:main], as the server that it names takes them."""
    idle: float = 1.0
    """Seconds without a byte after which waitress takes a connection for idle while it stops."""


def is_everywhere(address: str) -> bool:
    """Return whether a host, or a host with a port, stands for every address of this machine."""
    host, colon, _ = address.rpartition(":")
    return address in EVERY_ADDRESS or (bool(colon) and host in EVERY_ADDRESS)
