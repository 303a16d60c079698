"""A process leaves alone what its parent has opened (R12).

Two processes on one socket get each other's answers, and two on one file move each other's position. So an
element that keeps sockets or files from one request to the next does three things::

    from pipeline.database import forks

    class Index:
        def __init__(self, address):
            self.address = address
            self.client = None
            forks.own(forget=self.forget, close=self.close)

        def forget(self):
            forks.keep(self.client)
            self.client = None

        def close(self):
            if self.client is not None:
                self.client.close()

        def use(self):
            forks.check()
            if self.client is None:
                self.client = connect(self.address)
            return self.client

``check`` compares process ids, since uWSGI forks without running the handlers of ``os.register_at_fork``. It
costs a system call. Everything here works without ``fork`` too, on Windows.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
from collections.abc import Callable
from os import getpid
from threading import RLock

log = logging.getLogger("pipeline.database")

_pid = getpid()
_parent: int | None = None
_lock = RLock()
_leaving = False
_forgetters: list[Callable[[], object]] = []
_closers: list[Callable[[], object]] = []


def own(*, forget: Callable[[], object], close: Callable[[], object] | None = None) -> None:
    """Register what opens sockets or files.

    forget  called once in a forked process, before anything is taken there: drop everything that is open, and
            all locks, without a word to the other end; ``keep`` what must not be closed
    close   called when the process ends: close what this process has opened
    """
    _forgetters.append(forget)
    if close is not None:
        _closers.append(close)


def check() -> None:
    """Have everything forgotten if this process is not the one that opened it. Call this on each take."""
    if getpid() != _pid:
        _leave_to_parent()


def parent() -> int | None:
    """Return the process id of the process that this one was forked from, if it had loaded this module."""
    return _parent


def keep(*things: object) -> None:
    """Keep things from being closed, also when the process ends.

    A reference to each is leaked: to drop an object closes its socket in words that its server understands, or
    moves the position in a file that the parent has open too.
    """
    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _leave_to_parent() -> None:
    global _pid, _parent, _leaving
    with _lock:
        if _leaving or getpid() == _pid:  # a forgetter checks too, or another thread was first
            return
        _leaving = True
        for forget in _forgetters:
            try:
                forget()
            except Exception:  # the others must not be used either (R6)
                log.exception("%r failed after a fork", forget)
        _parent, _pid, _leaving = _pid, getpid(), False


def _after_fork() -> None:
    global _lock, _leaving
    _lock, _leaving = RLock(), False  # another thread of the parent may have been at it
    _leave_to_parent()


def _at_exit() -> None:
    check()
    for close in reversed(_closers):
        try:
            close()
        except Exception:
            log.exception("%r failed at the end of the process", close)


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
