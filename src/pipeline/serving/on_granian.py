"""Granian: several processes with several threads, which drain on SIGTERM and reload on SIGHUP."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.server import Server

from pipeline.interfaces import ConfigurationError, WSGIApp
from pipeline.serving.choice import Choice, Load
from pipeline.strings import convert

SETTINGS = {
    "backlog": int,
    "backpressure": int,
    "respawn_failed_workers": bool,
    "uds": Path,
    "workers_kill_timeout": int,
    "workers_lifetime": int,
}
"""Options of Granian that [server:main] may have, beside host, port, workers and threads."""


def serve(choice: Choice, listener: socket.socket | None, load: Load) -> None:
    """Serve until SIGTERM or SIGINT."""
    options: dict[str, Any] = {"workers_kill_timeout": 30, "respawn_failed_workers": True}
    for name, text in choice.settings.items():
        if name not in SETTINGS:
            known = ", ".join(SETTINGS)
            raise ConfigurationError(f"[server:main]: granian has no option {name!r} here; it takes {known}")
        try:
            options[name] = Path(text) if SETTINGS[name] is Path else convert(text, SETTINGS[name])
        except ValueError as error:
            raise ConfigurationError(f"[server:main]: {name}: {error}") from error
    server = Server(
        "the site",
        address="0.0.0.0" if choice.host == "*" else choice.host,
        port=choice.port,
        interface=Interfaces.WSGI,
        http=HTTPModes.http1,  # a body by HTTP/2 needs no length, and Granian does not tell a whole one from a part
        workers=choice.workers,
        blocking_threads=choice.threads,
        **options,
    )
    server.serve(target_loader=load, wrap_loader=False)


def granian(app: WSGIApp, global_conf: Mapping[str, str], **settings: str) -> None:
    """Name Granian in an ini: ``[server:main] use = egg:wsgi-pipeline#granian``, for ``pipeline serve``."""
    number = {name: int(settings.pop(name, default)) for name, default in DEFAULTS.items()}
    serve(Choice("granian", settings.pop("host", "127.0.0.1"), settings=settings, **number), None, lambda: app)


DEFAULTS = {"port": "8080", "workers": "1", "threads": "8"}
