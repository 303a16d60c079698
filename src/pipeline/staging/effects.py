"""Effects outside of the databases. Whatever is not known to be harmless is refused, on each thread (R2).

Python announces by audit events what code is about to do, and an exception in their listener prevents it. A few
functions have no event; they are replaced while a site is proved. A C library that opens a file or a socket by
itself is not seen.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from traceback import walk_stack
from typing import Any
from unittest import mock

from pipeline.options import resolve
from pipeline.running.auditing import listening
from pipeline.telling.words import is_of_the_site, texts_of

EVENTS = texts_of(Path(__file__).with_name("events.toml"))
HARMLESS = tuple(EVENTS["harmless"])
OF_DATABASES = ("sqlalchemy", "ZEO", "relstorage", "psycopg2", "psycopg", "pymysql", "pg8000", "mysql")
"""Packages whose effects are those of a database."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class EffectRefused(ConnectionError):
    """A request wants to do what stays outside of the databases."""


@dataclass(eq=False)
class Effects:
    """Effects of a site outside of the databases, while it is proved."""

    refuse: Callable[[str, str], object]
    """``(event, name)`` is called for each effect, and raises to refuse it."""
    is_ours: Callable[[], bool]
    """Tells whether this thread does the work of ``prove`` itself, such as copying a database."""
    databases: Sequence[str] = OF_DATABASES
    """Packages whose effects are those of a database."""

    def __post_init__(self) -> None:
        self.packages = tuple(f"{name}." for name in self.databases)
        self.made: set[str] = set()
        """The temporary files and directories that the site has made. It may use them as it likes; they are removed
        at the end."""
        self.ours: set[str] = set()
        """Those that ``prove`` has made. They may be removed by the collector, in any thread."""

    @contextmanager
    def refused(self) -> Iterator[None]:
        """Have each effect refused that is not allowed, on each thread."""
        tempfile.gettempdir()  # it writes a file into each directory that it tries, once
        with listening(self.note), mock.patch("sys.dont_write_bytecode", True), unannounced(self.note):
            try:
                yield
            finally:
                for path in self.made:  # what the site has left
                    with suppress(OSError):
                        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                self.made.clear()

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Look at an event of this thread."""
        if event.startswith("tempfile.mk"):
            (self.ours if self.is_ours() else self.made).add(os.path.abspath(os.fsdecode(arguments[0])))
        if event.startswith(HARMLESS) or self.is_ours() or self.is_of_database():
            return
        files = (frame.f_code.co_filename for frame, _ in walk_stack(sys._getframe()))
        if event in EVENTS["while_importing"] and any(file.startswith("<frozen importlib") for file in files):
            return
        # a file that takes the name of another one reaches both
        paths = arguments[event != "os.rename" : 2] if event in EVENTS["two_paths"] else ()
        for name in [os.path.abspath(os.fsdecode(path)) for path in paths] or [effect(event, arguments)]:
            above = (name, *map(str, Path(name).parents))
            if name and self.made.isdisjoint(above) and self.ours.isdisjoint(above):
                self.refuse(event, name)

    def is_of_database(self) -> bool:
        """Return whether the driver of a database is at work in this thread, and not code of the site that the
        driver has called."""
        for frame, _ in walk_stack(sys._getframe(1)):
            if f"{frame.f_globals.get('__name__', '')}.".startswith(self.packages):
                return True
            if is_of_the_site(frame.f_code.co_filename):
                return False
        return False


def looked_up(host: Any) -> str:
    """Return a name that is looked up, or "" for an address and for this machine."""
    name = os.fsdecode(host or "") if isinstance(host, (str, bytes, type(None))) else str(host[0])
    is_address = ":" in name or not name.strip("0123456789.")
    return "" if is_address or name in ("localhost", socket.gethostname()) else name


def effect(event: str, arguments: tuple[Any, ...]) -> str:
    """Return what an event reaches outside of the process: host:port, a program, a file, or the event itself; or ""
    if it reaches nothing."""
    first, last = (arguments[0], arguments[-1]) if arguments else ("", 0)
    is_path = isinstance(first, (str, bytes, os.PathLike))
    if event in EVENTS["look_ups"]:
        return looked_up(first)
    if event.startswith("socket.") and len(arguments) > 1:
        address = arguments[1]
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) and len(address) > 1 else str(address)
    if event in EVENTS["by_name"]:
        return os.fsdecode(first)
    if event == "open":  # the last argument has the flags
        file = os.path.abspath(os.fsdecode(first)) if is_path and last & WRITES else ""
        return "" if file == os.devnull or os.path.isdir(file) else file  # a temporary file without a name
    if event == "sqlite3.connect":
        return "" if str(first) in ("", ":memory:") else os.path.abspath(os.fsdecode(first))
    if not is_path or not event.startswith(("os.", "shutil.")):
        return f"{event} {first}".strip()
    within = last if isinstance(last, int) and event in EVENTS["relative"] else -1
    base = os.readlink(f"/proc/self/fd/{within}") if within >= 0 and Path("/proc/self/fd").exists() else ""
    return os.path.abspath(os.path.join(base, os.fsdecode(first)))


@contextmanager
def unannounced(note: Callable[..., object]) -> Iterator[None]:
    """Have the calls of further functions noted as well."""
    with ExitStack() as stack:
        for name in EVENTS["unannounced"]:
            with suppress(ImportError, AttributeError):
                replaced = name.replace(":", ".")
                stack.enter_context(mock.patch(replaced, partial(noted, note, replaced, resolve(name))))
        yield


def noted(
    note: Callable[..., object], event: str, call: Callable[..., Any], *arguments: Any, **more: Any
) -> Any:
    """Note the call of a function, and call it."""
    note(event, (*arguments, *more.values()))
    return call(*arguments, **more)
