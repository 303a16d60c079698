"""waitress: one process, several threads. SIGTERM lets it finish what it has begun.

waitress stops accepting connections, finishes the requests that it has read and sends their answers, for
``DRAIN`` seconds at most, and closes the other connections. These answers say that the connection is closed, so
that the client asks the next server. A request that arrives
at the moment when an idle connection is closed is lost.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from logging import getLogger
from typing import Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer, create_server
from waitress.task import ErrorTask, WSGITask

from pipeline.serving.choice import Choice, Load

log = getLogger(__name__)

DRAIN = 30.0
"""Seconds that answers have to reach their clients after SIGTERM."""
STOPPING = threading.Event()
"""Set when this process begins to stop."""
TLS = b"\x16\x03"
"""The first bytes of a client that speaks https."""
STEP = 0.2
"""Seconds after which a signal is noticed if nothing else happens."""


class LastTask(WSGITask):
    """A request that is answered while the server stops: the last one of its connection."""

    def __init__(self, channel: Any, request: Any) -> None:
        request.headers["CONNECTION"] = "close"
        super().__init__(channel, request)


class Refusal(ErrorTask):
    """An answer that waitress gives by itself, such as to a body that is too long, without a line in the log."""

    def execute(self) -> None:
        request: Any = self.request
        error, client = request.error, self.channel.addr[0]
        log.warning("%s is refused by waitress: %s %s: %s", client, error.code, error.reason, error.body)
        super().execute()


class Channel(HTTPChannel):
    """A connection. One that speaks https to this port is closed: waitress waits for its end for two minutes."""

    error_task_class = Refusal

    def received(self, data: bytes) -> bool:
        if data.startswith(TLS) and self.request is None and not self.requests:
            log.warning("%s speaks https, and this port speaks http: ask for http://", self.addr[0])
            self.handle_close()
            return False
        return bool(super().received(data))


def serve(choice: Choice, listener: socket.socket | None, load: Load) -> None:
    """Serve until SIGTERM or SIGINT."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))  # until there is a server
    where: dict[str, Any] = {} if listener is None else {"sockets": [listener]}
    options = {"threads": choice.threads, **choice.settings, **where}
    connections: dict[int, Any] = {}
    server: Any = create_server(load(), connections, **options)
    for one in connections.values():
        if isinstance(one, BaseWSGIServer):
            one.channel_class = Channel

    def stop(number: int, frame: object) -> None:
        stopped.append(number)
        STOPPING.set()
        for one in list(connections.values()):
            if isinstance(one, BaseWSGIServer):
                one.pull_trigger()  # the loop does not wait for STEP

    signal.signal(signal.SIGTERM, stop)
    try:
        while not stopped:
            step(server, connections)
        drain(server, connections, choice.idle)
    except KeyboardInterrupt:  # the developer does not wait
        pass
    finally:
        server.task_dispatcher.shutdown(timeout=1)
        wasyncore.close_all(connections, ignore_all=True)


def step(server: Any, connections: dict[int, Any], timeout: float = STEP) -> None:
    """Read and write what can be read and written now."""
    wasyncore.loop(timeout=timeout, use_poll=server.adj.asyncore_use_poll, map=connections, count=1)


def drain(server: Any, connections: dict[int, Any], idle: float) -> None:
    """Finish what was begun, and accept nothing more. Close connections without a byte for ``idle`` seconds."""
    step(server, connections, 0)  # takes connections that wait to be accepted
    for one in list(connections.values()):
        if isinstance(one, BaseWSGIServer):
            wasyncore.dispatcher.close(one)  # its own close() would also close what wakes this loop
    end = time.monotonic() + DRAIN
    while time.monotonic() < end:
        channels = [one for one in connections.values() if isinstance(one, HTTPChannel)]
        if not channels:
            return
        for channel in channels:
            channel.task_class = LastTask
            busy = channel.requests or channel.request or channel.total_outbufs_len
            if not busy and time.time() - channel.last_activity > idle:
                channel.handle_close()
        step(server, connections, min(STEP, idle))
