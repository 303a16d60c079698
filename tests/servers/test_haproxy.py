"""haproxy as docs/howto/growing.rst configures it: no connection stays with a primary that is no longer one."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from servers.base import wait_until
from servers.fixtures import Skip, running
from servers.haproxy import HAProxy, Upstream

pytestmark = [pytest.mark.servers, pytest.mark.timeout(60)]


class Node:
    """A server that answers each line with its number, and tells by HTTP whether it is the primary."""

    def __init__(self, number: int, is_primary: bool) -> None:
        self.is_primary = is_primary
        node = self

        class Lines(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for _ in self.rfile:
                    self.wfile.write(b"%d\n" % number)

        class Check(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if node.is_primary and self.path == "/primary" else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *said: object) -> None:
                pass

        self.servers: list[Any] = [
            socketserver.ThreadingTCPServer(("127.0.0.1", 0), Lines),
            ThreadingHTTPServer(("127.0.0.1", 0), Check),
        ]

    @contextmanager
    def serving(self) -> Iterator[Upstream]:
        for server in self.servers:
            server.daemon_threads = True
            server.handle_error = lambda *arguments: None  # haproxy hangs up when it has the status
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield Upstream(*(server.server_address[1] for server in self.servers))
        for server in self.servers:
            server.shutdown()
            server.server_close()


def test_a_connection_that_is_open_is_cut_when_the_primary_changes(servers_dir: Path, missing: Skip) -> None:
    nodes = [Node(0, True), Node(1, False)]
    with ExitStack() as stack:
        upstreams = [stack.enter_context(node.serving()) for node in nodes]
        groups = {"primary": ("/primary", upstreams)}
        proxy = stack.enter_context(running(HAProxy, servers_dir, missing, groups=groups))

        def answer(connection: Any) -> bytes:
            connection.write(b"?\n")
            connection.flush()
            return bytes(connection.readline())

        def opened() -> Any:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port), 5))
            return stack.enter_context(connection.makefile("rwb"))

        def leads_to() -> set[bytes]:
            return {answer(opened()) for _ in range(4)}

        wait_until(lambda: leads_to() == {b"0\n"}, 10, "the primary is known")  # first, all nodes count as up
        kept = opened()
        assert answer(kept) == b"0\n"
        nodes[0].is_primary, nodes[1].is_primary = False, True  # its server goes on
        assert kept.readline() == b"", "the connection is closed"
        wait_until(lambda: leads_to() == {b"1\n"}, 10, "the other node is the primary")
