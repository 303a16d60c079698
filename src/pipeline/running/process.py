"""The sign of life of one process of a site: a thread that no request can block, and a socket where it answers.

``pipeline top`` and the probes connect to the sockets of all processes of an instance, which are in one directory,
and read from each what runs there now, as JSON. A process that is asked and does not answer hangs as a whole.

The socket is for the user of the service and its group: by its mode, and by the credentials of the peer. The thread
imports nothing, runs no code of the site and does not log: a request may hold the lock of an import or of a log
handler. A slow request is logged by a thread that is made for that line.
"""

from __future__ import annotations

import fcntl
import grp
import json
import logging
import os
import pwd
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from waitress.server import create_server

from pipeline.composition import Pipeline, element
from pipeline.database import forks, pools
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response
from pipeline.running import stacks
from pipeline.running.instance import DRAINING, is_draining, processes, state_of, verdict

log = logging.getLogger("pipeline")

LOOK = 0.5
"""Seconds between two looks at the threads. A request that is shorter may not be seen."""
PATIENCE = 1.0
"""Seconds for the peer to read an answer."""


class Process:
    """The thread and the socket of this process."""

    def __init__(self, directory: str, listen: str, slow: float, threads: int) -> None:
        self.directory = directory
        self.listen = listen
        self.slow = slow
        self.threads = threads
        Path(directory).mkdir(mode=0o750, parents=True, exist_ok=True)
        state = os.stat(directory)
        if state.st_uid not in (0, os.geteuid()) or state.st_mode & 0o002:
            raise PermissionError("other users may write there: what they put there would stop the site (S25)")
        self._start()
        forks.own(forget=self.start_again, close=self.end)

    def _start(self) -> None:
        self.stacks = stacks.Stacks()
        self.began = time.time()
        self.noted: dict[int, float] = {}
        """By thread, the seconds after which its request is logged again."""
        self.path = Path(self.directory, f"{os.getpid()}.sock")
        self._listen()
        threading.Thread(target=self._run, name="pipeline-watch", daemon=True).start()
        if self.listen:
            threading.Thread(target=self._probes, name="pipeline-probes", daemon=True).start()

    def _listen(self) -> None:
        """Listen under another name first: a socket without a listener would say that the process has ended."""
        new = self.path.with_suffix(".new")
        new.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(str(new))
        new.chmod(0o660)
        self.socket.listen(16)
        self.socket.settimeout(LOOK)
        new.rename(self.path)
        self.is_over = False

    def start_again(self) -> None:
        """Start in a process that was forked: it has the sockets of its parent, but not the threads."""
        self.socket.close()
        self._start()

    def end(self) -> None:
        """Remove the socket of this process, which ends."""
        self.is_over = True
        self.path.unlink(missing_ok=True)

    def _run(self) -> None:
        while True:
            try:
                peer, _ = self.socket.accept()
            except TimeoutError:
                self._log_slow(self.stacks.requests())
                if not self.is_over and not self.path.exists():  # a program has tidied up
                    with self.socket, suppress(OSError):
                        self._listen()
                continue
            except OSError:
                return
            with peer, suppress(OSError):
                peer.settimeout(PATIENCE)
                told = self.told()
                peer.sendall(json.dumps(told if is_of_the_service(peer) else {}).encode())
                self._log_slow(told["requests"])

    def told(self) -> dict[str, Any]:
        """Return what runs in this process."""
        requests = self.stacks.requests()
        return {
            "pid": os.getpid(),
            "began": self.began,
            "draining": is_draining(),
            "threads": self.threads or self.stacks.threads,
            "waiting": self.stacks.held + stacks.connections_waiting(),
            "slow": self.slow,
            "pools": [usage._asdict() for usage in pools.usages()],
            "requests": requests,
        }

    def _log_slow(self, requests: list[dict[str, Any]]) -> None:
        noted = {}
        for one in requests if self.slow else ():
            thread, seconds = one["thread"], one["seconds"]
            limit = self.noted.get(thread, self.slow)
            if seconds < limit / 2:  # another request than the one that was logged
                limit = self.slow
            if seconds >= limit:
                threading.Thread(target=log_slow, args=(one,), name="pipeline-slow", daemon=True).start()
                limit = seconds * 2
            noted[thread] = limit
        self.noted = noted

    def _probes(self) -> None:
        """Answer the probes for all processes of this instance, from the moment when no other process does."""
        with Path(self.directory, "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                listen_for_probes(self.listen, self.directory)
            except (OSError, ValueError) as error:  # waitress raises the second for a name without an address
                log.error("health: listen = %s: %s; the probes get no answer", self.listen, error)


def start(directory: str, listen: str, slow: float, threads: int) -> None:
    """Start the thread of this process. A directory that it cannot use does not keep the site from being served.

    ``pipeline.health`` explains the options.
    """
    try:
        Process(directory, listen, slow, threads)
        os.environ.setdefault(DRAINING, os.path.join(os.path.abspath(directory), "draining"))
    except OSError as error:
        log.error("health: watch = %s: %s; pipeline top does not see this process", directory, error)


def log_slow(request: dict[str, Any]) -> None:
    """Log a request that takes long, while it runs, with the stack of its thread."""
    where = request["view"] or request["element"] or "-"
    text = "\n".join(f"  {line}" for line in request["stack"])
    message = "slow: %s %s has run for %.1f s, in %s, user %s\n%s"
    user = request["user"] or "-"
    log.warning(message, request["method"], request["path"], request["seconds"], where, user, text)


def is_of_the_service(peer: socket.socket) -> bool:
    """Return whether the peer of a UNIX socket is root, the user of this process, or in its group."""
    _, uid, gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if uid in (0, os.geteuid()) or gid == os.getegid():
        return True
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name in grp.getgrgid(os.getegid()).gr_mem
    return False


OF_PROBES: dict[str, Any] = {"channel_timeout": 1, "cleanup_interval": 1, "connection_limit": 500}
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
        response.plain("200 OK" if passes else "503 Service Unavailable", text)
        response.headers["Cache-Control"] = "no-store"

    return probes


def listen_for_probes(address: str, directory: str) -> None:
    """Answer the probes of an instance by HTTP, with waitress. Does not return.

    address  "host:port", or the path of a UNIX socket
    """
    place: dict[str, Any] = {"listen": address}
    if "/" in address:
        place = {"unix_socket": address, "unix_socket_perms": "660"}
    site = Pipeline(probes(directory=directory))
    create_server(site, map={}, threads=1, ident=stacks.PROBES, **place, **OF_PROBES).run()
