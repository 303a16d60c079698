"""A cluster of PostgreSQL whose primary Patroni chooses. Its agents agree by raft, without a further server.

The nodes reach each other through a proxy, and clients reach each node directly. So a node can be cut off from the
others while its clients stay connected, which is the worst of all cuts.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ports import unused_port
from servers.base import Missing, children, wait_until
from servers.fixtures import Skip
from servers.postgres import Postgres
from servers.toxiproxy import Proxy, Toxiproxy

PACKAGES = ("patroni[raft]", "psycopg2-binary")
TTL = 20
"""Seconds after which the others choose another primary. Patroni takes no smaller number."""


class Node(Postgres):
    """One node: Patroni, and the PostgreSQL that it starts."""

    late = 0
    """Milliseconds after which it applies a change, as a replica."""

    def __init__(self, directory: Path, python: Path, toxiproxy: Toxiproxy) -> None:
        self.python = python
        self.rest, self.raft = unused_port(), unused_port()
        super().__init__(directory)
        self.file = directory / "patroni.json"
        self.inner = {port: toxiproxy.proxy(port) for port in (self.port, self.rest, self.raft)}
        """What the other nodes use, by the port behind it."""

    def make_data(self) -> None:
        """Leave it to Patroni."""

    @property
    def name(self) -> str:
        return self.directory.name

    def address(self, port: int) -> str:
        """Return the address by which other nodes reach a port of this one."""
        return f"127.0.0.1:{self.inner[port].port}"

    def configure(self, nodes: list[Node]) -> None:
        everywhere = {"ttl": TTL, "loop_wait": 2, "retry_timeout": 5, "synchronous_mode": True}
        everywhere["primary_stop_timeout"] = 10
        settings = {"wal_log_hints": "on", "max_connections": 200, "recovery_init_sync_method": "syncfs"}
        settings |= {"dynamic_shared_memory_type": "mmap", "deadlock_timeout": "100ms"}
        parameters = {"use_pg_rewind": True, "parameters": settings}
        access = [f"host {database} all 127.0.0.1/32 trust" for database in ("all", "replication")]
        superuser = {"username": "postgres", "password": "secret"}
        configuration = {
            "scope": "site",
            "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self.rest}", "connect_address": self.address(self.rest)},
            "raft": {
                "data_dir": str(self.directory / "raft"),
                "bind_addr": f"127.0.0.1:{self.raft}",
                "self_addr": self.address(self.raft),
                "partner_addrs": [node.address(node.raft) for node in nodes if node is not self],
            },
            "bootstrap": {
                "dcs": {**everywhere, "postgresql": parameters},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, {"auth": "trust"}, "no-sync"],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": self.address(self.port),
                "data_dir": str(self.data),
                "bin_dir": str(Path(self.program).resolve().parent),
                "pgpass": str(self.directory / "pgpass"),
                "authentication": dict.fromkeys(("superuser", "replication", "rewind"), superuser),
                "parameters": {"unix_socket_directories": str(self.directory)},
                "recovery_conf": {"recovery_min_apply_delay": f"{self.late}ms"},
                "pg_hba": [*access, "local all all trust"],
            },
        }
        self.file.write_text(json.dumps(configuration))

    def command(self) -> list[str | Path]:
        return [self.python, "-m", "patroni", self.file]

    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.directory)}

    def get(self, path: str) -> Any:
        """Return what Patroni answers to a question, or None if the status is not 200, or nothing comes."""
        address = f"http://127.0.0.1:{self.rest}{path}"
        with suppress(OSError, ValueError), urllib.request.urlopen(address, timeout=1) as got:
            return json.load(got)
        return None

    def is_up(self) -> bool:
        return self.get("/health") is not None

    def is_primary(self) -> bool:
        return self.get("/primary") is not None

    def processes(self) -> list[int]:
        """Return Patroni, and PostgreSQL, whose parent has left it."""
        found = [self.pid, *children(self.pid)]
        with suppress(OSError, ValueError, IndexError):
            main = int((self.data / "postmaster.pid").read_text().split()[0])
            found += [main, *children(main)]
        return list(dict.fromkeys(found))

    def signal(self, number: int) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        if self.process is None:
            return
        if self.runs():
            self.signal(signal.SIGSTOP)  # so that none starts another meanwhile
            self.signal(signal.SIGKILL)
        self.process.wait()

    def copy_again(self) -> None:
        """Drop the data of a node whose PostgreSQL does not run, as an operator does; it copies the primary's."""
        state = (self.get("/patroni") or {}).get("state")
        if state != "running":
            print(f"{self.name} is {state}: its data is copied again", flush=True)
            self.kill()
            shutil.rmtree(self.data, ignore_errors=True)
            self.launch()

    def cut_off(self) -> None:
        """Let nothing through between this node and the others. Its clients stay connected."""
        for proxy in self.inner.values():
            for stream in ("upstream", "downstream"):
                silence(proxy, stream)

    def heal(self) -> None:
        for proxy in self.inner.values():
            proxy.cure()


def silence(proxy: Proxy, stream: str) -> None:
    proxy.poison(name=f"silent-{stream}", type="timeout", stream=stream, attributes={"timeout": 0})


class Cluster:
    """Three nodes, one of which may be late. All connections of raft to the first one are opened by the others."""

    def __init__(self, directory: Path, python: Path, toxiproxy: Toxiproxy, size: int = 3, late: int = 0) -> None:
        self.python = python
        self.nodes = [Node(directory / f"node{number}", python, toxiproxy) for number in range(size)]
        self.nodes[-1].late = late
        # A node of raft connects to those whose addresses come before its own. See cut_off.
        self.nodes.sort(key=lambda node: node.address(node.raft))
        for node in self.nodes:
            node.configure(self.nodes)

    def primary(self, *others: Node) -> Node | None:
        return next((node for node in self.nodes if node not in others and node.is_primary()), None)

    def wait_for_primary(self, *others: Node, seconds: float = 90) -> Node:
        """Return the primary, which is none of some nodes."""
        found: Node = wait_until(lambda: self.primary(*others), seconds, "there is a primary", 0.1)
        return found

    def is_whole(self) -> bool:
        """Whether each node runs, and a commit waits for one of them."""
        for node in self.nodes:
            members = (node.get("/cluster") or {}).get("members", ())
            roles = [member["role"] for member in members if member["state"] in ("running", "streaming")]
            if sorted(roles) != ["leader", "replica", "sync_standby"]:
                return False
        return self.primary() is not None

    def wait_until_whole(self, seconds: float = 120) -> None:
        with suppress(TimeoutError):
            return wait_until(self.is_whole, seconds / 3, "the cluster is whole", 0.2)
        for node in self.nodes:
            node.copy_again()
        try:
            wait_until(self.is_whole, seconds, "the cluster is whole", 0.2)
        except TimeoutError as error:
            said = [f"{node.name}: {node.get('/cluster')}\n{node.said()[-3000:]}" for node in self.nodes]
            raise TimeoutError("\n".join([str(error), *said])) from None

    def switch_over(self) -> Node:
        """Have the synchronous standby become the primary, as an operator does, and return it."""
        leader = self.wait_for_primary()
        [candidate] = [one["name"] for one in leader.get("/cluster")["members"] if one["role"] == "sync_standby"]
        names = ["--leader", leader.name, "--candidate", candidate]
        patronictl = self.python.with_name("patronictl")
        leader.run([patronictl, "-c", leader.file, "switchover", "site", *names, "--force"])
        return self.wait_for_primary(leader)


@contextmanager
def cluster(
    directory: Path, python: Path, toxiproxy: Toxiproxy, missing: Skip, late: int = 0
) -> Iterator[Cluster]:
    """A cluster while the block runs, one of whose nodes is so many milliseconds late."""
    try:
        made = Cluster(directory, python, toxiproxy, late=late)
    except Missing as error:
        missing(*error.args)
    try:
        for node in made.nodes:
            node.launch()
        made.wait_until_whole()
        yield made
    finally:
        for node in made.nodes:
            node.kill()
        time.sleep(0.1)
        for node in made.nodes:
            shutil.rmtree(node.directory, ignore_errors=True)
