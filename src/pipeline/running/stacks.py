"""The requests that run now in this process, read from the stacks of its threads.

Requests are not told to note anything: ``sys._current_frames()`` has the frame of each thread, the edge has the
request in a variable, and the code of a frame says which element or view it is. So this costs a request nothing. No
code of the site runs here, and nothing waits for a lock that a request may hold.
"""

from __future__ import annotations

import inspect
import socket
import struct
import sys
import time
from concurrent.futures import thread as pool
from functools import cache
from pathlib import Path
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any
from weakref import ReferenceType, ref

from waitress.task import ThreadedTaskDispatcher

from pipeline.edge import Edge, resume
from pipeline.http.streaming import SentBody
from pipeline.request import Request
from pipeline.telling.secrets import masked_query
from pipeline.views import Views

EDGE = (Edge.__call__.__code__, resume.__code__)
POOL: CodeType = pool._worker.__code__
WAITRESS = ThreadedTaskDispatcher.handler_thread.__code__
PROBES = "wsgi-pipeline probes"
"""Name of the server of the probes. Its requests are not those of the site, and its threads are others."""
MOST_FRAMES = 60
WAITING = 8 + 4 * 4
"""Place of the connections that wait in the kernel's ``tcp_info`` of a listening socket, ``tcpi_unacked``."""


class Stacks:
    """Looks at the threads of this process, and remembers when it has first seen a request."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[ReferenceType[Request], float]] = {}
        """By thread, its last request, and when that was first seen. Only looking makes these references."""
        self.parts_of = cache(parts_of)
        self.threads: int | None = None
        """Threads of this process for requests, as far as its server says it while it has requests."""
        self.held = 0
        """Requests that the server has taken and holds back, when the threads were last looked at."""

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests that run now, the longest first."""
        now = time.monotonic()
        seen = {}
        found = []
        self.held = 0
        for thread, frame in sys._current_frames().items():
            frames = [one for one, _ in walk_stack(frame)]
            request = _request_of(frames)
            if request is None or request.environ.get("SERVER_SOFTWARE") == PROBES:
                continue
            self.threads, self.held = _server_of(frames) or (self.threads, 0)
            known = self.seen.get(thread)
            seen[thread] = known if known is not None and known[0]() is request else (ref(request), now)
            found.append(self._told(request, thread, frames, now - seen[thread][1]))
        self.seen = seen
        return sorted(found, key=lambda one: seen[one["thread"]][1])

    def _told(self, request: Request, thread: int, frames: list[FrameType], seconds: float) -> dict[str, Any]:
        environ = request.environ
        query = environ.get("QUERY_STRING", "")
        parts = self.parts_of(request.pipeline, request.views)
        within = [parts[frame.f_code] for frame in frames if frame.f_code in parts]
        path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
        return {
            "seconds": round(seconds, 3),
            "method": environ.get("REQUEST_METHOD", ""),
            "path": masked_query(f"{path}?{query}" if query else path),
            "element": next((name for kind, name in within if kind == "element"), ""),
            "view": next((name for kind, name in within if kind == "view"), ""),
            "user": str(request.__dict__.get("principal") or ""),
            "thread": thread,
            "stack": [
                f"{frame.f_code.co_filename}, line {frame.f_lineno}, in {frame.f_code.co_qualname}"
                for frame in frames[:MOST_FRAMES]
            ],
        }


def parts_of(pipeline: Any, views: Views | None) -> dict[Any, tuple[str, str]]:
    """Return by its code each "element" and "view" of a pipeline, with its name."""
    found: dict[Any, tuple[str, str]] = {}
    for contract in pipeline.linked if pipeline is not None else ():
        found[getattr(contract.handler, "__code__", None)] = "element", contract.name
    for *_, view in views or ():
        name = f"{view.function.__module__}.{view.function.__qualname__}"
        found[getattr(inspect.unwrap(view.called), "__code__", None)] = "view", name
    return found


def _request_of(frames: list[FrameType]) -> Request | None:
    """Return the request that a thread is at work for: in its pipeline, or while its body is made."""
    for frame in reversed(frames):
        if frame.f_code in EDGE:
            found = frame.f_locals.get("request")
        elif frame.f_code is SentBody.__next__.__code__:
            found = frame.f_locals["self"].request
        else:
            continue
        if isinstance(found, Request):
            return found
    return None


def _server_of(frames: list[FrameType]) -> tuple[int, int] | None:
    """Return how many threads the server has for requests, and how many requests it holds back, if it says so.

    gunicorn's threads are those of ``concurrent.futures``; waitress has its own.
    """
    for frame in reversed(frames):
        if frame.f_code is POOL and (executor := frame.f_locals["executor_reference"]()) is not None:
            return executor._max_workers, executor._work_queue.qsize()
        if frame.f_code is WAITRESS:
            dispatcher = frame.f_locals["self"]
            return len(dispatcher.threads), len(dispatcher.queue)
    return None


def connections_waiting() -> int:
    """Return how many connections wait in the kernel for this process to accept them. Those on UNIX sockets are not
    known, and neither are those of other systems than Linux."""
    waiting = 0
    for file in Path("/proc/self/fd").glob("*") if sys.platform == "linux" else ():
        try:
            if not str(file.readlink()).startswith("socket:"):
                continue
            with socket.fromfd(int(file.name), socket.AF_INET, socket.SOCK_STREAM) as one:
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, WAITING + 4)
                    waiting += struct.unpack_from("I", told, WAITING)[0]
        except OSError:  # it is closed by now, or not of TCP
            continue
    return waiting
