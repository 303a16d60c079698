"""Notes the files that are written and the servers that are connected to while an element is checked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.interfaces import Facts

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
"""Flags of a file that is opened to be changed."""
EVENTS = ("open", "socket.connect", "sqlite3.connect")


class Opened:
    """Files and servers that this process opens, as ``note`` is told by the audit events of Python."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.ports: set[int] = set()

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a file or a server."""
        if event not in EVENTS:
            return
        if event == "open":
            path, _, flags = arguments
            written = isinstance(path, (str, bytes)) and flags & WRITES
        else:
            path, written = arguments[0], event == "sqlite3.connect" and str(arguments[0])[:1] not in ("", ":")
        if written:
            self.files.add(Path(os.path.abspath(os.fsdecode(path))))
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            self.ports.add(arguments[1][1])

    def undeclared(self, facts: Facts) -> Iterator[str]:
        """Yield what the facts of an element do not name. A file beside one that they name is part of it."""
        directories = [Path(os.path.abspath(path)) for path in facts.writes if path.endswith("/")]
        beside = {Path(os.path.abspath(path)).parent for path in facts.writes if not path.endswith("/")}
        beside |= {Path(tempfile.gettempdir()), Path("/dev")}
        for file in sorted(self.files):
            # A file without a name (O_TMPFILE) is opened by the name of its directory.
            is_known = {file, file.parent} & beside or any(map(file.is_relative_to, directories))
            if not is_known and "__pycache__" not in file.parts:
                yield f"it writes {file}, which is not among the facts: @element(facts=...) with Facts(writes=...)"
        known = {server.rpartition(":")[2] for server in facts.servers}
        for port in sorted(self.ports):
            if str(port) not in known:
                yield (
                    f"it connects to port {port}, which is not among the facts: @element(facts=...) with "
                    f"Facts(servers=...)"
                )
