"""A process does not use the sockets and files that its parent has opened (R12).

Two processes that share a socket get each other's answers. Two that share a file move each other's position. So an
element that keeps sockets or files from one request to the next does three things: it registers itself (``own``),
keeps what belongs to its parent from being closed (``keep``), and checks the process before each use (``check``).
docs/howto/data.rst has an example.

``check`` compares process ids, since uWSGI forks without running the handlers of ``os.register_at_fork``. It
costs a system call. Everything here works without ``fork`` too, on Windows.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import sys
from collections.abc import Callable
from os import getpid
from threading import RLock
from typing import Any

log = logging.getLogger("pipeline.database")

_pid = getpid()
_parent: int | None = None
_lock = RLock()
_leaving = False
_forgetters: list[Callable[[], object]] = []
_closers: list[Callable[[], object]] = []
_finalizers: list[object] = []


def own(*, forget: Callable[[], object], close: Callable[[], object] | None = None) -> None:
    """Register the functions of an object that opens sockets or files.

    forget  called once in a forked process, before its first use there. It drops all open sockets and files, and
            all locks, without telling the other end. It calls ``keep`` for objects that must not be closed
    close   called when the process ends. It closes everything that this process has opened
    """
    _forgetters.append(forget)
    if close is not None:
        _closers.append(close)
        _close_in_multiprocessing()


def _close_in_multiprocessing() -> None:
    """Have ``close_all`` called at the end of a process that ``multiprocessing`` has started, such as a worker of
    Granian. It ends without ``atexit``, and so without the index of a Data.fs."""
    process = sys.modules.get("multiprocessing.process")  # not imported for this
    if process is not None and process.parent_process() is not None and not _finalizers:
        from multiprocessing.util import Finalize

        _finalizers.append(Finalize(None, close_all, exitpriority=0))


def check() -> None:
    """Call the ``forget`` functions if this process has been forked. Call this before each use."""
    if getpid() != _pid:
        _leave_to_parent()


def parent() -> int | None:
    """Return the process id of the process that this one was forked from, if it had loaded this module."""
    return _parent


def keep(*things: object) -> None:
    """Keep objects from being closed, also when the process ends.

    A reference to each object is leaked. Dropping an object would tell its server to close the connection, or move
    the position in a file that the parent has open too.
    """
    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def seal(thing: object, what: str) -> None:
    """Have every further use of an object raise, in the forked process. Call this in ``forget``, after ``keep``.

    thing  an object of a class that is written in Python, which the parent uses, such as a connection
    what   words for the message, such as "the connection"
    """
    kind = type(thing)
    message = f"{what} belongs to process {_pid}, from which this one was forked, and cannot be used here (R12)"

    def refuse(thing: object, name: str) -> Any:
        if name[:2] == "__":  # asked for by Python itself, to show the object, say
            return object.__getattribute__(thing, name)
        raise RuntimeError(message)

    thing.__class__ = type(kind.__name__, (kind,), {"__getattribute__": refuse})


def _leave_to_parent() -> None:
    global _pid, _parent, _leaving
    with _lock:
        if _leaving or getpid() == _pid:  # called by a forget function, or another thread was first
            return
        _leaving = True
        for forget in _forgetters:
            try:
                forget()
            except Exception:  # the other functions must be called all the same (R6)
                log.exception("%r failed after a fork", forget)
        _parent, _pid, _leaving = _pid, getpid(), False


def _after_fork() -> None:
    global _lock, _leaving
    _lock, _leaving = RLock(), False  # another thread of the parent may have held the lock
    _leave_to_parent()


def close_all() -> None:
    """Call the ``close`` functions, at the end of the process and in tests."""
    check()
    for close in reversed(_closers):
        try:
            close()
        except Exception:
            log.exception("%r failed at the end of the process", close)


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
