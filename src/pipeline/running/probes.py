"""The listener that answers the probes for all processes of an instance."""

from __future__ import annotations

from typing import Any

from waitress.server import create_server

from pipeline.composition import Pipeline, element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response
from pipeline.running.instance import processes, state_of, verdict
from pipeline.running.stacks import PROBES

PATIENCE: dict[str, Any] = {"channel_timeout": 1, "cleanup_interval": 1, "connection_limit": 500}
"""Clients that send half a request are closed after a second or two, before they keep a probe out."""


@element
def probes(*, directory: str) -> Handler:
    """Tell whether an instance is alive (``/alive``) or else ready, with the state of each process.

    directory  that of the sockets of its processes
    """

    def probes(request: Request, response: Response) -> None:
        told = processes(directory)
        drains = any(one.get("draining") for one in told)
        passes, text = verdict(request.environ.get("PATH_INFO", ""), map(state_of, told), drains)
        response.status = "200 OK" if passes else "503 Service Unavailable"
        response.headers["Content-Type"] = "text/plain; charset=utf-8"
        response.headers["Cache-Control"] = "no-store"
        response.blocks = [text.encode()]

    return probes


def listen_for_probes(address: str, directory: str) -> None:
    """Answer the probes of an instance by HTTP, with waitress. Does not return.

    address  "host:port", or the path of a UNIX socket
    """
    place: dict[str, Any] = {"listen": address}
    if "/" in address:
        place = {"unix_socket": address, "unix_socket_perms": "660"}
    create_server(Pipeline(probes(directory=directory)), map={}, threads=1, ident=PROBES, **place, **PATIENCE).run()
