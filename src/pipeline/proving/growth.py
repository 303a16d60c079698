"""Growth: what a process has more of after the same requests, and statements that a page needs for each row."""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from http import HTTPStatus
from itertools import pairwise, product
from queue import Queue, SimpleQueue
from types import CellType, FrameType, FunctionType
from typing import Any

from persistent import Persistent

from pipeline.proving.links import over_pages, paged
from pipeline.proving.noise import PART
from pipeline.proving.report import Report
from pipeline.proving.rules import broken_invariants, failing
from pipeline.staging.asked import Asked, numbered
from pipeline.staging.runs import Run, place
from pipeline.staging.site import Site, attributes_of
from pipeline.telling.words import is_of_the_site

TIMES = 10
"""How often a request is asked between two looks."""
ROWS = 4
"""How often what adds something is asked between two looks."""
Cached = type(lru_cache(len))
"""The class of a function with a cache."""
CONTAINERS = (list, dict, set, deque, bytearray, defaultdict, OrderedDict, Counter)
PLAIN = (int, float, bool, str, bytes, tuple, type(None), *CONTAINERS)
KEPT = "R13: a process that has kept nothing of earlier requests answers otherwise from the same state"
TOO_MANY = str(HTTPStatus.TOO_MANY_REQUESTS.value)
MOST = 100_000
"""Bytes of a page that are compared."""
STATEMENT = "sql.execute:before"
"""The point that should not come once for each row."""
Line = tuple[str, int]
"""A file of the site, and the number of a line in it."""


class Memory:
    """Content of the variables of the site, so that a process can forget what it has kept since then."""

    def __init__(self) -> None:
        libraries = (module for module in [*sys.modules.values()] if not is_of_the_site(file_of(module)))
        foreign = {id(one) for module in libraries for one in [*attributes_of(module).values()]}
        found = [*variables()]
        things = [thing for *_, thing in found if id(thing) not in foreign]
        self.caches = [one for one in things if isinstance(one, Cached)]
        self.containers = [
            (one, [*one.items()] if isinstance(one, dict) else [*one]) for one in things if type(one) in CONTAINERS
        ]
        """Each with what is in it."""
        self.attributes = [place for _, *place in found if place[0] is not None and type(place[2]) in PLAIN]
        """Holder, name and value of each that is not a thing of its own, such as an engine."""

    def put_back(self) -> None:
        """Have them hold it again."""
        for cache in self.caches:
            cache.cache_clear()
        for thing, content in self.containers:
            with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # it may end an open file
                thing.clear()
            if isinstance(thing, dict):
                dict.update(thing, content)  # that of a Counter adds
            else:
                (thing.update if isinstance(thing, set) else thing.extend)(content)
        for holder, name, value in self.attributes:
            if getattr(holder, name, self) is not value:
                setattr(holder, name, value)


def prove_growth(
    site: Site, asked: Sequence[Asked], report: Report, cold: Memory, storing: Sequence[Asked] = ()
) -> None:
    """Ask each request again and again, and then each page while what it shows becomes more.

    cold     what the variables of the site have held before all requests
    storing  the requests that store something
    """
    requests = [request for request in asked if not any(failing(site.afresh(request)))]
    with report.line("growth", "the same requests again and again") as line:
        line.runs += 3 * TIMES * len(requests)
        for request in report.within_budget(requests if grown(site, requests) else ()):
            for what in grown(site, [request]):
                report.note(line, f"R13: {what} with each request", str(request))
        if report.is_over():
            return
        for what in objects_held():
            report.note(line, what, "all requests")
        for request in for_others(site, asked, cold, storing):
            report.note(line, KEPT, str(request))
        for request, what in for_each_row(site, requests, storing) if storing else ():
            report.note(line, what, str(request))


def for_others(site: Site, requests: Sequence[Asked], cold: Memory, changing: Sequence[Asked]) -> Iterator[Asked]:
    """Yield what a process that has kept nothing answers otherwise from the same state: the one at the begin, and
    the one after each request that changes it."""
    warm = Memory()
    shown = (Asked("GET", one.page, user=one.user) for one in changing if one.page)  # of what is changed
    pages = list(dict.fromkeys([*(one for one in requests if one.is_safe), *shown]))
    for first in (None, *changing):
        asked = pages if first else requests
        found: set[Asked] = {*asked}
        for _ in range(2):  # a value of chance may be the same twice
            looks = [list(answers(site, first, asked, memory, memory is warm)) for memory in (cold, warm, cold)]
            found &= {request for request, *texts in zip(asked, *looks, strict=True) if is_otherwise(*texts)}
            if not found:
                break
        yield from found
    warm.put_back()


def answers(
    site: Site, first: Asked | None, requests: Sequence[Asked], memory: Memory, keeps: bool
) -> Iterator[list[str]]:
    """Yield the status and the words of each answer, behind a first request that stores something, if there is one.

    memory  what the variables hold before
    keeps   whether they keep what the same requests leave, or hold it before each again
    """
    memory.put_back()
    for request in requests if keeps else ():
        site.afresh(request)
    site.copies.reset()
    if first:
        site.ask(first)
    for request in requests:
        if not keeps:
            memory.put_back()
        run = site.ask(request) if first else site.afresh(request)
        yield [str(run.status), *PART.findall(run.body[:MOST].decode("latin-1"))]


def is_otherwise(before: Sequence[str], kept: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether an answer differs from two others where these are the same."""
    if TOO_MANY in (before[0], kept[0], after[0]) or len(before) != len(after):  # a limit counts, as it should
        return False
    differ = (one == other != word for one, word, other in zip(before, kept, after, strict=False))
    return len(kept) != len(before) or any(differ)


def grown(site: Site, requests: Sequence[Asked]) -> list[str]:
    """Return what grows steadily while requests are asked."""
    looks = []
    for _ in range(3):
        for request in [*requests] * TIMES:
            site.afresh(request).let_go()
        site.copies.reset()
        gc.collect()
        looks.append(kept(site))
    first, second, third = looks
    enough = TIMES * 4 // 5
    return [
        f"{name} grows, from {first[name]} to {third[name]},"
        for name in third
        if third[name] - second[name] >= enough <= second[name] - first[name]
    ]


def kept(site: Site) -> Counter[str]:
    """Return how much a process has of what should not become more."""
    left = sum(map(os.path.exists, site.effects.made))
    found = Counter({"the number of threads": threading.active_count(), "the number of temporary files": left})
    if os.path.isdir("/proc/self/fd"):
        found["the number of open files and sockets"] = len(os.listdir("/proc/self/fd"))
    for where, _, _, thing in variables():
        if isinstance(thing, Cached):
            found[where] = thing.cache_info().currsize
        elif isinstance(thing, CONTAINERS):
            found[where] = len(thing)
        elif isinstance(thing, (Queue, SimpleQueue)):
            found[where] = thing.qsize()
    return found


def file_of(module: Any) -> str:
    """Return the file of a module, or one of no site."""
    return getattr(module, "__file__", None) or "<"


def variables() -> Iterator[tuple[str, Any, str, Any]]:
    """Yield what the modules of the site, and their classes, functions and objects, hold in variables, attributes,
    closures and default values: the place in words, the holder, the name in it, and the value."""
    modules = [(name, module) for name, module in [*sys.modules.items()] if is_of_the_site(file_of(module))]
    inner = [
        (f"{name}.{key}", one)
        for name, module in modules
        for key, one in [*vars(module).items()]
        if getattr(one, "__module__", None) == name
    ]
    for where, holder in (*modules, *inner):
        attributes = [*attributes_of(holder).items()]
        yield from ((f"{where}.{key}", holder, key, one) for key, one in attributes if not key.startswith("__"))
        if isinstance(holder, FunctionType):
            cells = [cell for cell in holder.__closure__ or () if cell != CellType()]
            yield from ((f"the closure of {where}", cell, "cell_contents", cell.cell_contents) for cell in cells)
            defaults = (*(holder.__defaults__ or ()), *(holder.__kwdefaults__ or {}).values())
            yield from ((f"a default value of {where}", None, "", value) for value in defaults)


def objects_held() -> Iterator[str]:
    """Yield the variables that hold an object of a connection. One request after the other has the connection."""
    zodb = sys.modules.get("pipeline.database.zodb_pools")
    connections = {*map(id, zodb.idle_connections())} if zodb is not None else set()
    for where, _, _, thing in variables():
        several = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, deque)) else ()
        for one in (thing, *several):
            jar = one._p_jar if isinstance(one, Persistent) else None
            if jar is not None and (id(jar) in connections or getattr(jar, "opened", True) is None):
                yield f"R13: {where} holds a {type(one).__name__} of a connection that other requests have, too"
                break


def for_each_row(site: Site, requests: Sequence[Asked], adding: Sequence[Asked]) -> Iterator[tuple[Asked, str]]:
    """Yield the pages that need more statements with each thing that is added, or far more steps, with the line."""
    pages = [one for one in requests if one.method == "GET"]
    site.copies.reset()
    number = 0
    looks: list[dict[Asked, tuple[Counter[str], Counter[Line]]]] = []
    for _ in range(4):
        looks.append({page: work_of(site, page) for page in pages})
        for request in [*adding] * ROWS:
            number += 1
            site.ask(numbered(request, number))
    yield from ((adding[-1], what) for what in broken_invariants(site))
    for page, request in product([page for page in pages if len(paged(site, page)) > 1], adding):
        more = (numbered(request, number) for number in range(7 * ROWS))
        yield from ((page, what) for what in over_pages(site, page, more))
    site.copies.reset()
    for page in pages:
        statements, lines = zip(*(look[page] for look in looks), strict=True)
        for where in statements[-1]:
            counts = [one[where] for one in statements]
            if sorted(differences(counts))[1] >= ROWS // 2:  # a stock, or a page, may be full before the end
                yield page, f"a statement is sent for each row, at {where}: {counts[0]}, then {counts[-1]}"
        steps = {where: differences(differences([one[where] for one in lines])) for where in lines[-1]}
        quadratic = [where for where, (first, second) in steps.items() if second > 0.8 * first >= 0.8 * ROWS**2]
        for file, line in quadratic[:1]:
            yield page, f"the work is quadratic in the number of rows, at {file}, line {line}"


def differences(numbers: Sequence[int]) -> list[int]:
    """Return by how much each number is more than the one before."""
    return [b - a for a, b in pairwise(numbers)]


def work_of(site: Site, page: Asked) -> tuple[Counter[str], Counter[Line]]:
    """Return how many statements the lines of the site send for a page, and how often each line runs."""
    statements: Counter[str] = Counter()
    lines: Counter[Line] = Counter()

    def gate(name: str) -> None:
        if name == STATEMENT:
            statements[place() or "a library"] += 1

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            lines[frame.f_code.co_filename, frame.f_lineno] += 1
        return trace if event == "line" or is_of_the_site(frame.f_code.co_filename) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        site.ask(page, Run(gate=gate))
    finally:
        sys.settrace(before)
    return statements, lines
