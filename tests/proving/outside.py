"""A site whose views do everything that one can do outside of a database, as variables of the environment say."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

from persistent.mapping import PersistentMapping

from pipeline import Request, view
from pipeline.interfaces import PUBLIC

PLACE = Path(os.environ.get("OUTSIDE", "/nowhere"))
PORT = int(os.environ.get("OUTSIDE_PORT", "9"))
POOL = ThreadPoolExecutor(1)


class Root(PersistentMapping):  # type: ignore[misc]
    """The root of the site."""


def root(mapping: Any) -> Root:
    if "site" not in mapping:
        mapping["site"] = Root(count=0)
    found: Root = mapping["site"]
    return found


def datagram() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"left", ("127.0.0.1", PORT))


def message() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendmsg([b"left"], [], 0, ("127.0.0.1", PORT))


def moved() -> None:
    """A temporary file takes the name of a real one."""
    number, path = tempfile.mkstemp()
    os.close(number)
    os.replace(path, PLACE / "upload")


def in_a_child() -> None:
    if not os.fork():
        try:
            (PLACE / "upload").unlink()
        finally:
            os._exit(0)


DOES: dict[str, Callable[[], object]] = {
    "remove": lambda: (PLACE / "upload").unlink(),
    "rename": lambda: (PLACE / "upload").rename(PLACE / "other"),
    "replace": moved,
    "rmtree": lambda: shutil.rmtree(PLACE / "directory"),
    "rmdir": lambda: (PLACE / "empty").rmdir(),
    "mkdir": lambda: (PLACE / "made").mkdir(),
    "write": lambda: (PLACE / "written").write_text("x"),
    "append": lambda: (PLACE / "upload").open("a").write("x"),
    "truncate": lambda: os.truncate(PLACE / "upload", 0),
    "chmod": lambda: (PLACE / "upload").chmod(0o777),
    "utime": lambda: os.utime(PLACE / "upload", (0, 0)),
    "link": lambda: os.link(PLACE / "upload", PLACE / "linked"),
    "symlink": lambda: (PLACE / "link").symlink_to("upload"),
    "copy": lambda: shutil.copy(PLACE / "upload", PLACE / "copied"),
    "fifo": lambda: os.mkfifo(PLACE / "fifo"),
    "sqlite": lambda: sqlite3.connect(PLACE / "own.db").execute("CREATE TABLE a (b)"),
    "shared memory": lambda: SharedMemory(f"left{PORT}-{os.getpid()}", create=True, size=8),
    "connect": lambda: socket.create_connection(("127.0.0.1", PORT), 1),
    "datagram": datagram,
    "message": message,
    "listen": lambda: socket.socket(socket.AF_UNIX).bind(str(PLACE / "socket")),
    "program": lambda: subprocess.run(["touch", str(PLACE / "touched")], check=True),
    "shell": lambda: os.system(f"touch {PLACE}/shelled"),
    "fork": in_a_child,
    "process": lambda: multiprocessing.get_context("fork").Process(target=DOES["remove"]).start(),
    "kill": lambda: os.kill(int(os.environ.get("OUTSIDE_PID", "0")), signal.SIGTERM),
}
TEMPORARY: dict[str, Callable[[], object]] = {
    "file": lambda: tempfile.TemporaryFile().write(b"x"),  # noqa: SIM115
    "named": lambda: tempfile.NamedTemporaryFile().write(b"x"),  # noqa: SIM115
    "left": lambda: tempfile.mkstemp(),
    "directory": lambda: Path(tempfile.mkdtemp(), "deep").mkdir(),
    "null": lambda: Path(os.devnull).write_text("x"),
    "own name": lambda: socket.getfqdn(),
}
"""What a view may do: nobody else sees it, and the rest is removed."""


def by_thread(do: Callable[[], object]) -> None:
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


def by_pool(do: Callable[[], object]) -> None:
    try:
        POOL.submit(do).result()
    except ConnectionError:
        pass


BY: dict[str, Callable[[Any, Callable[[], object]], object]] = {
    "": lambda request, do: do(),
    "thread": lambda request, do: by_thread(do),
    "pool": lambda request, do: by_pool(do),
    "commit": lambda request, do: request.tm.get().addAfterCommitHook(lambda stored: by_pool(do)),
    "commit of nothing": lambda request, do: request.after_commit(do),
}


@view(context=Root)
def index(root: Root, request: Request) -> str:
    return "a site"


@view(context=Root, name="do", methods=("POST",), permission=PUBLIC)
def do(root: Root, request: Request) -> str:
    kinds, by = os.environ["OUTSIDE_DOES"].split("/")
    if by != "commit of nothing":
        root["count"] += 1
    for kind in kinds.split(","):
        try:
            BY[by](request, {**DOES, **TEMPORARY}[kind])
        except ConnectionError:  # it is refused
            pass
    return "done"


@view(context=Root, name="loop")
def loop(root: Root, request: Request) -> str:
    while os.environ.get("OUTSIDE_HANGS"):
        pass
    return "done"


@view(context=Root, name="match")
def match(root: Root, request: Request) -> str:
    if os.environ.get("OUTSIDE_HANGS"):
        re.match("(a+)+$", "a" * 64 + "!")
    return "done"
