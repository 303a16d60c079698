"""gunicorn: several processes with several threads, which drain on SIGTERM and reload on SIGHUP."""

from __future__ import annotations

import socket
from typing import Any

from gunicorn.app.base import BaseApplication

from pipeline.serving.choice import Choice, Load


class Application(BaseApplication):  # type: ignore[misc]
    """The app of an ini, loaded by each worker: nothing that it opens is shared between processes (R12)."""

    def __init__(self, settings: dict[str, Any], load: Load) -> None:
        self.settings, self.load = settings, load
        super().__init__()

    def load_config(self) -> None:
        for name, value in self.settings.items():
            self.cfg.set(name.lower(), value)


def serve(choice: Choice, listener: socket.socket | None, load: Load) -> None:
    """Serve until SIGTERM or SIGINT."""
    host = f"[{choice.host}]" if ":" in choice.host else choice.host.replace("*", "")
    settings = {
        "bind": f"{host}:{choice.port}",
        "workers": choice.workers,
        "threads": choice.threads,
        "worker_class": "gthread",
        "control_socket_disable": True,
        "forwarder_headers": "",  # local proxies pass on a SCRIPT_NAME of a visitor (S13)
        "limit_request_field_size": 32768,  # eight cookies that are as large as browsers keep them
        **choice.settings,
    }
    Application(settings, load).run()
