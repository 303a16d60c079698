"""Growth: what a process has more of after the same requests, and statements that a page needs for each row."""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from itertools import pairwise, product
from types import CellType, FrameType, FunctionType
from typing import Any

from persistent import Persistent

from pipeline.proving.noise import Noise
from pipeline.proving.report import Report
from pipeline.proving.rules import broken_invariants, failing
from pipeline.staging.asked import NUMBER, Asked, unlike, with_values
from pipeline.staging.runs import Run, place
from pipeline.staging.site import Site
from pipeline.telling.words import is_of_the_site

TIMES = 10
"""How often a request is asked between two looks."""
ROWS = 4
"""How often what adds something is asked between two looks."""
Cached = type(lru_cache(len))
"""The class of a function with a cache."""
STATEMENT = "sql.execute:before"
"""The point that should not come once for each row."""
Line = tuple[str, int]
"""A file of the site, and the number of a line in it."""


class Noted:
    """How requests are answered from the state that the databases have before each run.

    noise  what a second run answers otherwise
    """

    def __init__(self, site: Site, requests: Sequence[Asked]) -> None:
        self.noise = Noise()
        self.answers = {request: answer_of(site.afresh(request)) for request in requests}
        for request, (_, lines, _) in self.answers.items():
            self.noise.learn(lines, answer_of(site.afresh(request))[1])

    def differing(self, later: Noted) -> Iterator[tuple[Asked, str]]:
        """Yield what is answered otherwise after other requests, although the databases are the same."""
        noise = Noise(self.noise, later.noise)
        for request, (status, lines, _) in self.answers.items():
            now, afterwards, _ = later.answers[request]
            if HTTPStatus.TOO_MANY_REQUESTS in (status, now):  # it counts, as it should
                continue
            if status != now:
                yield request, f"R13: from the same state, other requests before it make of {status} {now}"
            elif noise.without(lines) != noise.without(afterwards):
                yield request, "R13: from the same state, other requests before it make another page of it"


def answer_of(run: Run) -> tuple[int | None, tuple[str, ...], list[str]]:
    """Return a status, the lines of a page without their numbers, and the numbers that are words of their own."""
    text = run.body.decode("latin-1")
    return run.status, tuple(NUMBER.sub("N", text).splitlines()), re.findall(r"\b[0-9]+\b", text)


def prove_growth(site: Site, first: Noted, report: Report) -> None:
    """Ask each request again and again, and then each page while what it shows becomes more.

    first  the requests, as they were answered before all others
    """
    requests = [request for request in first.answers if not any(failing(site.afresh(request)))]
    with report.line("growth", "the same requests again and again") as line:
        line.runs += 3 * TIMES * len(requests)
        for request in report.within_budget(requests if grown(site, requests) else ()):
            for what in grown(site, [request]):
                report.note(line, f"R13: {what} with each request", str(request))
        if report.is_over():
            return
        for what in objects_held():
            report.note(line, what, "all requests")
        later = Noted(site, list(first.answers))
        pages = [one for one in requests if one.method == "GET" and first.answers[one][2] != later.answers[one][2]]
        for page, between in product(pages, [(), *((one,) for one in requests if one.method == "POST")]):
            if counts(site, page, *between):
                report.note(line, "R13: a page counts the requests of this process", str(page))
        for request, what in (*first.differing(later), *for_each_row(site, requests)):
            report.note(line, what, str(request))


def counts(site: Site, page: Asked, *between: Asked) -> bool:
    """Return whether a number of a page becomes more by the same amount each time, although what the requests
    between have stored is undone."""
    pages = [[answer_of(site.afresh(one)) for one in (*between, page)][-1][2] for _ in range(TIMES)]
    if len({*map(len, pages)}) > 1:
        return False
    steps = ({int(b[-15:]) - int(a[-15:]) for a, b in pairwise(numbers)} for numbers in zip(*pages, strict=True))
    return any(len(one) == 1 and one != {0} for one in steps)


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
    for where, thing in variables():
        if isinstance(thing, Cached):
            found[where] = thing.cache_info().currsize
        elif isinstance(thing, (list, dict, set, deque, bytearray)):
            found[where] = len(thing)
    return found


def variables() -> Iterator[tuple[str, Any]]:
    """Yield what the modules of the site hold, by names."""
    for name, module in list(sys.modules.items()):
        if is_of_the_site(getattr(module, "__file__", None) or "<"):
            yield from within(name, vars(module))


def objects_held() -> Iterator[str]:
    """Yield the variables that hold an object of a connection. One request after the other has the connection."""
    zodb = sys.modules.get("pipeline.database.zodb_pools")
    connections = {*map(id, zodb.idle_connections())} if zodb is not None else set()
    for where, thing in variables():
        several = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, deque)) else ()
        for one in (thing, *several):
            jar = one._p_jar if isinstance(one, Persistent) else None
            if jar is not None and (id(jar) in connections or getattr(jar, "opened", True) is None):
                yield f"R13: {where} holds a {type(one).__name__} of a connection that other requests have, too"
                break


def within(name: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the variables of a module, those of its classes and of their objects, and the default values and
    closures of functions."""
    for key, value in list(variables.items()):
        where = f"{name}.{key}"
        yield where, value
        if getattr(value, "__module__", None) != name:
            continue
        if isinstance(value, FunctionType):
            defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
            yield from ((f"a default value of {where}", held) for held in defaults)
            cells = (cell for cell in value.__closure__ or () if cell != CellType())
            yield from ((f"the closure of {where}", cell.cell_contents) for cell in cells)
        else:
            held_there = getattr(value, "__dict__", {})
            yield from ((f"{where}.{one}", held) for one, held in list(held_there.items()))


def for_each_row(site: Site, requests: Sequence[Asked]) -> Iterator[tuple[Asked, str]]:
    """Yield the pages that need more statements with each thing that is added, or far more steps, with the line."""
    posts = [one for one in requests if one.method == "POST"]
    adding = [one for one in posts if site.afresh(one).is_acknowledged and site.has_stored]
    pages = [one for one in requests if one.method == "GET"]
    site.copies.reset()
    number = 0
    looks: list[dict[Asked, tuple[Counter[str], Counter[Line]]]] = []
    for _ in range(4 if adding else 0):
        looks.append({page: work_of(site, page) for page in pages})
        for request in adding * ROWS:
            number += 1
            site.ask(with_values(request, partial(unlike, number=number)))
    yield from ((adding[-1], what) for what in (broken_invariants(site) if adding else ()))
    site.copies.reset()
    for page in pages if looks else ():
        statements, lines = zip(*(look[page] for look in looks), strict=True)
        for where in statements[-1]:
            counts = [one[where] for one in statements]
            if min(differences(counts)) >= ROWS // 2:
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
