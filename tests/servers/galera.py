"""A Galera cluster of MariaDB: nodes that replicate to one another, on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from pymysql import connect

from ports import unused_port
from servers.base import Missing, find, wait_until
from servers.fixtures import Skip
from servers.mariadb import MariaDB

PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
OPTIONS = (
    "gcache.size=64M;evs.keepalive_period=PT0.3S;evs.suspect_timeout=PT1.5S;evs.inactive_timeout=PT3S;"
    "gmcast.time_wait=PT1S;gmcast.peer_timeout=PT1S"
)
"""A node is given up sooner than by default, and may come back sooner."""


class Node(MariaDB):
    """One node. It gets its data from the others, if it is not the first one."""

    addresses: tuple[str, ...] = ()
    """Those of all nodes, known when each has been made."""

    def __init__(self, directory: Path, is_first: bool) -> None:
        if not PROVIDER.exists():
            raise Missing(str(PROVIDER), "apt install galera-4")
        find("rsync", "apt install rsync")
        self.is_first = is_first
        self.group, self.state, self.news = unused_port(), unused_port(), unused_port()
        super().__init__(directory)

    def make_data(self) -> None:
        if self.is_first:
            super().make_data()
        else:
            self.run(["mkdir", self.data])

    def command(self) -> list[str | Path]:
        provider = f"gmcast.listen_addr=tcp://127.0.0.1:{self.group};ist.recv_addr=127.0.0.1:{self.news};{OPTIONS}"
        return [
            *super().command(),
            "--wsrep-on=ON",
            f"--wsrep-provider={PROVIDER}",
            f"--wsrep-provider-options={provider}",
            f"--wsrep-cluster-address=gcomm://{','.join(self.addresses)}",
            f"--wsrep-node-address=127.0.0.1:{self.group}",
            "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address=127.0.0.1:{self.state}",
            *(["--wsrep-new-cluster"] if self.is_first else []),
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=8M",
        ]

    def is_up(self) -> bool:
        return self.status("wsrep_ready") == "ON"

    def status(self, name: str) -> str:
        return self._ask(f"SHOW STATUS LIKE '{name}'").stdout.strip().rpartition("\t")[2]

    def isolate(self, cut: bool) -> None:
        """Cut the node off from the others, while its clients stay connected; or let it come back."""
        self.ask(f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={int(cut)}'")


@contextmanager
def cluster(directory: Path, missing: Skip, size: int = 3) -> Iterator[list[Node]]:
    """A cluster while the block runs."""
    nodes: list[Node] = []
    try:
        try:
            for number in range(size):
                nodes.append(Node(directory / f"node{number}", is_first=not number))
        except Missing as error:
            missing(*error.args)
        for node in nodes:
            node.addresses = tuple(f"127.0.0.1:{one.group}" for one in nodes)
        for node in nodes:
            node.start()
            node.is_first = False
        whole(nodes)
        yield nodes
    finally:
        with ThreadPoolExecutor(size) as pool:
            list(pool.map(Node.kill, nodes))
        for node in nodes:
            shutil.rmtree(node.directory, ignore_errors=True)


def whole(nodes: list[Node], seconds: float = 60) -> None:
    """Wait until all nodes are in one group, and take statements."""
    wait_until(
        lambda: all(node.is_up() and node.status("wsrep_cluster_size") == str(len(nodes)) for node in nodes),
        seconds,
        "the cluster is whole",
        interval=0.1,
    )


@contextmanager
def answering(nodes: list[Node]) -> Iterator[list[int]]:
    """Ports, one for each node, where a proxy asks by HTTP whether the node takes statements."""

    class Handler(BaseHTTPRequestHandler):
        server: Any

        def do_GET(self) -> None:
            try:
                with connect(**self.server.place) as connection, connection.cursor() as cursor:
                    cursor.execute("SHOW STATUS LIKE 'wsrep_ready'")
                    is_ready = cursor.fetchone()[1] == "ON"
            except Exception:
                is_ready = False
            self.send_response(200 if is_ready else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *said: object) -> None:
            pass

    servers = []
    for node in nodes:
        server: Any = ThreadingHTTPServer(("127.0.0.1", unused_port()), Handler)
        server.place = {"host": "127.0.0.1", "port": node.port, "user": "site", "password": "secret"}
        server.place |= {"connect_timeout": 1, "read_timeout": 1, "ssl_disabled": True}
        server.handle_error = lambda *arguments: None  # haproxy hangs up when it has the status
        Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
    try:
        yield [server.server_port for server in servers]
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
