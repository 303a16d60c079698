"""F12: an exception at every element, at enter, at exit and at close.

The transaction ends once, connections come back, and the next request knows nothing of it (R5, R6, R7).
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from faults import site as faults_site
from faults.conftest import Figures
from faults.inside import take
from faults.serving import ORDER, write_ini
from pipeline.paste import load

EXCEPTIONS = (ValueError, GeneratorExit, SystemExit, MemoryError)
MOMENTS = ("enter", "exit", "close")
ENDS = ("tpc_finish", "tpc_abort", "abort")
ELEMENTS = ORDER.split()

armed = False
"""Whether the next request is to meet the fault."""


def is_armed(request: object) -> bool:
    return armed


def inject(app: Any, number: int, moment: str, kind: type[BaseException], *, inside: bool) -> list[str]:
    """One request with a fault, and what is wrong after it. ``inside`` the transaction, or outside of it."""
    global armed
    problems = []
    streams = number % 2 == 1
    target = f"/@@stream?id=s{number}&blocks=4" if streams else f"/@@spied?id=w{number}"
    method = "GET" if streams else "POST"
    faults_site.spies.clear()
    armed = True
    escaped: BaseException | None = None
    status = 0
    try:
        status = take(app, target, method).status
    except BaseException as error:
        escaped = error
    armed = False
    if issubclass(kind, Exception):
        expected = (200,) if moment == "close" else (500,)
        if escaped is not None or status not in expected:
            problems.append(f"the answer is {status} {escaped!r}, not {expected}")
    elif not isinstance(escaped, kind):
        problems.append(f"{kind.__name__} did not reach the server, which got {status} {escaped!r}")
    for spy in faults_site.spies:
        ends = [step for step in spy.steps if step in ENDS]
        if len(ends) != 1:
            problems.append(f"the transaction was ended by {ends}")
        elif moment != "close" and ends != (["abort"] if inside else ["tpc_finish"]):
            problems.append(f"the transaction was ended by {ends}, the fault being {inside=}")
    # The next request, and the state that it finds.
    stored = take(app, f"/@@has?id=w{number}").body
    committed = sum("tpc_finish" in spy.steps for spy in faults_site.spies)
    if not streams and stored != b"%d" % committed:
        problems.append(f"{stored!r} is stored after {committed} commits")
    state = json.loads(take(app, "/@@streams").body)
    if state["open"] or state["twice"]:
        problems.append(f"bodies: {state['open']} not closed, {state['twice']} closed twice")
    if state["transactions"] != 1 or state["connections"] > 1:
        problems.append(f"{state['connections']} connections, {state['transactions'] - 1} in a transaction")
    if take(app, f"/@@write?id=n{number}", "POST").status != 200:
        problems.append("the next write fails")
    return problems


def run(place: Path, **options: Any) -> tuple[int, list[str]]:
    """Every exception at every moment, ahead of every element."""
    problems = []
    count = 0
    faults_site.opened.clear()
    faults_site.closed.clear()
    for (index, name), moment, kind in product(enumerate(ELEMENTS), MOMENTS, EXCEPTIONS):
        order = " ".join([*ELEMENTS[:index], "fault", *ELEMENTS[index:]])
        fault = {"error": f"builtins:{kind.__name__}", "at": moment, "when": f"{__name__}:is_armed"}
        ini = write_ini(place / "site.ini", f"file://{place}/Data.fs", order=order, fault=fault, **options)
        app = load(f"config:{ini}")
        take(app, "/")
        for _ in ("write", "stream"):
            count += 1
            found = inject(app, count, moment, kind, inside=index > ELEMENTS.index("transaction"))
            where = f"{kind.__name__} at {moment} outside {name}"
            problems += [f"{where}: {problem}" for problem in found]
    return count, problems


def test_exceptions(figures: Figures, place: Path, in_process: None) -> None:
    count, problems = run(place)
    figures(
        "F12",
        "file",
        f"{count} exceptions ({', '.join(kind.__name__ for kind in EXCEPTIONS)}) at {', '.join(MOMENTS)} "
        f"outside each of {len(ELEMENTS)} elements, in writes and streams; {len(problems)} transactions, "
        f"connections or next requests harmed",
    )
    assert problems == []


@pytest.mark.parametrize("bug", ["log_forgets", "transaction_narrow"])
def test_control(figures: Figures, place: Path, in_process: None, bug: str) -> None:
    names = {"log_forgets": "close forgotten", "transaction_narrow": "except Exception"}
    count, problems = run(place, bugs=[bug])
    figures("F12", f"control: {names[bug]}", f"found: {len(problems)} problems at {count} exceptions")
    assert problems
