"""All processes of one instance of a site: what runs in them, and whether they can take requests.

Each process has a socket in the directory of the instance (``pipeline.running.process``). Reading is all that this
module does, so it works beside the instance, and in any of its processes. An instance that is about to stop has a
mark (R9): a file, which the variable ``PIPELINE_DRAINING`` names.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.interfaces import ConfigurationError

TIMEOUT = 0.5
"""Seconds that a process has to answer."""
REFUSED = "only root, the user of the service and its group may ask what runs"
DRAINING = "PIPELINE_DRAINING"
"""Set by what ``pipeline deploy`` writes, or else to the file ``draining`` in the directory of the option watch."""


class State(NamedTuple):
    """The state of one process."""

    pid: int
    word: str
    """"ready", "busy" if each thread has a request, or "hangs"."""
    why: str

    def __str__(self) -> str:
        return f"process {self.pid} {self.word}{': ' if self.why else ''}{self.why}"


def processes(directory: str) -> list[dict[str, Any]]:
    """Return what each process of an instance says. One that does not answer in time has "pid" alone.

    ConfigurationError for a user that may not ask.
    """
    found = (file for file in Path(directory).glob("*.sock") if file.stem.isdecimal())
    files = sorted(found, key=lambda file: int(file.stem))
    with ExitStack() as stack:
        peers = [(int(file.stem), peer) for file in files if (peer := _connected(file, stack)) is not None]
        end = time.monotonic() + TIMEOUT
        return [{"pid": pid, **_read(peer, end)} for pid, peer in peers]


def _connected(file: Path, stack: ExitStack) -> socket.socket | None:
    """Return a connection to a process, or None if it has ended. All are asked before the first one is read."""
    peer = stack.enter_context(socket.socket(socket.AF_UNIX))
    peer.settimeout(TIMEOUT)
    try:
        peer.connect(str(file))
    except (ConnectionRefusedError, FileNotFoundError):
        if not Path(f"/proc/{file.stem}").exists():
            with suppress(OSError):
                file.unlink()
        return None
    except PermissionError as error:
        raise ConfigurationError(f"{file}: {REFUSED}") from error
    except OSError:  # its queue is full, since it accepts no connection
        pass
    return peer


def _read(peer: socket.socket, end: float) -> dict[str, Any]:
    blocks = []
    try:
        peer.settimeout(max(0.01, end - time.monotonic()))
        while block := peer.recv(65536):
            blocks.append(block)
            peer.settimeout(max(0.01, end - time.monotonic()))
    except OSError:  # it is stopped, or one call into C holds all of it
        return {}
    told: dict[str, Any] = json.loads(b"".join(blocks) or b"null") or {}
    if not told:
        raise ConfigurationError(REFUSED)
    return told


def state_of(told: dict[str, Any]) -> State:
    """Return the state of a process."""
    if "requests" not in told:
        return State(told["pid"], "hangs", f"no answer within {TIMEOUT:g} s")
    requests, threads = told["requests"], told["threads"]
    if not threads or len(requests) < threads:
        return State(told["pid"], "ready", "")
    youngest, oldest = requests[-1]["seconds"], requests[0]
    word = "hangs" if told["slow"] and youngest >= told["slow"] else "busy"
    where = oldest["view"] or oldest["element"]
    why = (
        f"all {threads} threads have had a request for {youngest:.1f} s or longer, the longest {oldest['method']} "
        f"{oldest['path']} in {where or 'no view'} for {oldest['seconds']:.1f} s"
    )
    return State(told["pid"], word, why)


def verdict(path: str, states: Iterable[State], is_draining: bool) -> tuple[bool, str]:
    """Return whether a probe passes, and the text of its answer: a word, and a line for each process.

    path  that of the probe: /alive, or any other for /ready
    """
    states = list(states)
    word = "alive" if path.rstrip("/").endswith("/alive") else "ready"
    passes = any(state.word != "hangs" for state in states) and not (is_draining and word == "ready")
    first = "draining" if is_draining else word if passes else f"not {word}"
    return passes, "\n".join(map(str, (first, *states)))


def is_draining() -> bool:
    """Return whether the mark is there: ready no more, though each request is still answered."""
    return os.path.exists(os.environ.get(DRAINING, ""))
