"""``python -m faults.soak DIRECTORY COUNT [BUG]``: that many requests of a mixed kind, in this process.

A process of its own, so that what a test runner keeps is not counted. Prints JSON: what each request was
answered, and what the process had in memory and open after the first tenth and at the end.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ZODB.DB import DB

from faults import site as faults_site
from faults.inside import take
from faults.serving import write_ini
from pipeline import Request, view
from pipeline.paste import load

IDS = 500
"""Writes go under so many ids: what is stored does not grow."""


def change(db: DB) -> None:
    """Change the counter as another request does."""
    with db.transaction() as other:
        other.root()["site"].hot.value += 1


@view(context=faults_site.Site, name="conflict", methods=("POST",))
def conflict(site: faults_site.Site, request: Request) -> str:
    """Change the counter, which another connection changes first: at the first attempt, or at all of them."""
    if request.attempt == 1 or "always" in request.GET:
        other = threading.Thread(target=change, args=(site._p_jar.db(),))
        other.start()
        other.join()
    site.hot.value += 1
    return f"{site.hot.value}"


KINDS: list[tuple[int, str, str, str, bytes, int | None]] = [
    # How many of 200, its name, method, target, body, and how many blocks are taken of the answer.
    (88, "read", "GET", "/", b"", None),
    (20, "read", "GET", "/@@has?id={id}", b"", None),
    (10, "nothing", "GET", "/@@nothing", b"", None),
    (5, "head", "HEAD", "/", b"", None),
    (20, "write", "POST", "/@@write?id={id}", b"", None),
    (4, "upload", "POST", "/@@write?id={id}", b"x" * 1000, None),
    (8, "conflict", "POST", "/@@conflict", b"", None),
    (4, "missing", "GET", "/nowhere/at/all", b"", None),
    (4, "refused", "POST", "/@@refuse?id={id}", b"", None),
    (4, "failed", "POST", "/@@fail?id={id}", b"", None),
    (14, "stream", "GET", "/@@stream?id=s{number}&blocks=4", b"", None),
    (14, "disconnect", "GET", "/@@stream?id=s{number}&blocks=4", b"", 2),
    (5, "broken stream", "GET", "/@@breaks", b"", None),
]


def state() -> dict[str, int]:
    """What this process has, in bytes and numbers."""
    gc.collect()
    return {
        "memory": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


def main(directory: str, count: str, *bugs: str) -> None:
    place, total = Path(directory), int(count)
    logging.basicConfig(level=logging.INFO, stream=open(os.devnull, "w"))  # noqa: SIM115
    ini = write_ini(place / "soak.ini", f"file://{place}/Data.fs", bugs=bugs, publisher={
        "scan": "faults.site faults.soak"
    })  # fmt: skip
    app = load(f"config:{ini}")
    take(app, "/")
    chance = random.Random(1)
    kinds = [kind for kind in KINDS for _ in range(kind[0])]
    chance.shuffle(kinds)
    outcomes: Counter[str] = Counter()
    first: dict[str, int] = {}
    started = time.monotonic()
    for number in range(total):
        if number == total // 10:
            first = {**state(), **pool_of(app)}
        _, name, method, target, body, blocks = kinds[number % len(kinds)]
        target = target.format(id=chance.randrange(IDS), number=number)
        try:
            outcome = str(take(app, target, method, body=body, blocks=blocks).status)
        except RuntimeError as error:  # a stream that breaks, as the server sees it
            outcome = str(error)
        outcomes[f"{name}: {outcome}"] += 1
        with faults_site.lock:
            faults_site.opened.clear()
            faults_site.closed.clear()
    seconds = time.monotonic() - started
    last = {**state(), **pool_of(app)}
    print(json.dumps({"first": first, "last": last, "outcomes": outcomes, "seconds": seconds}))


def pool_of(app: Any) -> dict[str, int]:
    """The connections of this process, and the transactions that are open besides the asking one."""
    found = json.loads(take(app, "/@@streams").body)
    return {"connections": found["connections"], "transactions": found["transactions"] - 1}


if __name__ == "__main__":
    main(*sys.argv[1:])
