"""haproxy before the nodes of a cluster: it sends each client to a node whose check answers 200."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ports import unused_port
from servers.base import Server, find

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "growing.rst"
SECTION = re.compile(r"(?<=\n)    (defaults\n(?:        .+\n)+)\n    (listen primary\n(?:        .+\n)+)")
"""The configuration that the page has. What is tested is what it says."""


def documented(groups: dict[str, tuple[str, Sequence[Upstream]]], ports: dict[str, int]) -> str:
    """The configuration of the page, with these nodes in the place of its machines."""
    found = SECTION.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    defaults, listen = found.groups()
    texts = ["global\n    maxconn 500\n", defaults]
    for name, (path, nodes) in groups.items():
        text = re.sub(r" +server .*\n", "", listen).replace("primary\n", f"{name}\n", 1)
        text = text.replace("127.0.0.1:5432", f"127.0.0.1:{ports[name]}").replace("GET /primary", f"GET {path}")
        for number, node in enumerate(nodes):
            backup = " backup" if node.is_backup else ""
            text += f"    server node{number} 127.0.0.1:{node.port} check port {node.check}{backup}\n"
        texts.append(text)
    return "\n".join(texts)


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
        self.file.write_text(documented(groups, self.ports))

    def command(self) -> list[str | Path]:
        return [self.program, "-db", "-f", self.file]
