"""haproxy before the nodes of a cluster: it sends each client to a node whose check answers 200."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ports import unused_port
from servers.base import Server, find

HEAD = """
global
    maxconn 500
defaults
    mode tcp
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    timeout check 1s
    default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions on-marked-up shutdown-backup-sessions
"""
GROUP = """
listen {name}
    bind 127.0.0.1:{port}
    option httpchk GET {path}
    http-check expect status 200
"""


class Upstream(NamedTuple):
    """One node: the port of its database, and the one that is asked for its state."""

    port: int
    check: int
    is_backup: bool = False


class HAProxy(Server):
    """It listens on a port for each group of nodes: ``ports``, by the name of the group.

    groups  by name: the path that is asked for the state of a node, and the nodes
    """

    def __init__(self, directory: Path, groups: dict[str, tuple[str, Sequence[Upstream]]]) -> None:
        self.program = find("haproxy", "apt install haproxy")
        super().__init__(directory)
        self.ports = {name: unused_port() for name in groups}
        self.port = next(iter(self.ports.values()))
        self.file = directory / "haproxy.cfg"
        text = HEAD
        for name, (path, nodes) in groups.items():
            text += GROUP.format(name=name, port=self.ports[name], path=path)
            for number, node in enumerate(nodes):
                backup = " backup" if node.is_backup else ""
                text += f"    server node{number} 127.0.0.1:{node.port} check port {node.check}{backup}\n"
        self.file.write_text(text)

    def command(self) -> list[str | Path]:
        return [self.program, "-db", "-f", self.file]
