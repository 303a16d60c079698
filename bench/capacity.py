"""Suite of three predictions of what one database server and one process bear: ``python -m bench.capacity``.

Three predictions, each made from a measurement of something smaller, and printed before what it foretells is
measured:

* the processor time of a ZEO server for each request with six processes, from that with one and with two;
* the processor time of a site with ``keep``, from that of a page that is made and of one that is sent again, and
  from the chances with which pages are read and changed;
* the processor time of a primary of PostgreSQL with two replicas at 50 % reads, from that at 10 % and at 90 %.

Each is the processor time of so many repetitions of a small program of Python, which runs before and after, times
what that program took at first: a shared machine is faster at one moment than at another.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from webob import Request as Asked

from bench.contenders import load_ini
from bench.replicas import Replicated, missing, processor_time
from pipeline.elements.zodb import close_all
from servers.fixtures import running
from servers.zeo import ZEO

PAGES, REQUESTS, PER_WRITE = 1_000, 4_000, 10
KEPT_REQUESTS, KEPT_PER_WRITE = 20_000, 100

SITE = """
[pipeline:main]
pipeline = retry zodb errors transaction {keep} traverse publisher

[filter:retry]
use = egg:wsgi-pipeline#retry

[filter:zodb]
use = egg:wsgi-pipeline#zodb
get uri = zodb_uri
root = bench.capacity_site:make_root

[filter:errors]
use = egg:wsgi-pipeline#errors

[filter:transaction]
use = egg:wsgi-pipeline#transaction

[filter:keep]
use = egg:wsgi-pipeline#keep

[filter:traverse]
use = egg:wsgi-pipeline#traverse

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = bench.capacity_site
"""


def site(uri: str, keep: str = "") -> Any:
    return load_ini(SITE.format(keep=keep), zodb_uri=uri)


def ask(app: Any, page: int, method: str = "GET") -> None:
    answer = Asked.blank(f"/p{page}", method=method).get_response(app)
    if answer.status_int != 200:
        raise RuntimeError(answer.text)


def chances() -> list[float]:
    """The chance of each page to be read: Zipf's law."""
    weights = [1 / rank for rank in range(1, PAGES + 1)]
    return [weight / sum(weights) for weight in weights]


def requests(number: int, per_write: int, seed: int, app: Any) -> None:
    """Send requests: reads by Zipf's law, and for each so many of them a change of any page."""
    chance = random.Random(seed)
    added = list(accumulate(chances()))
    for one in range(number):
        if one % per_write == per_write - 1:
            ask(app, chance.randrange(PAGES), "POST")
        else:
            ask(app, min(bisect(added, chance.random()), PAGES - 1))


def pace() -> float:
    """Seconds of a small program."""
    begun = time.process_time()
    for number in range(200_000):
        str(number).encode()
    return time.process_time() - begun


FIRST = min(pace() for _ in range(5))


@contextmanager
def measured(clock: Callable[[], float], each: int) -> Iterator[list[float]]:
    """Have a list get the microseconds that a clock went on, for each of so many requests, at the first pace."""
    found: list[float] = []
    paces, begun = [pace()], clock()
    yield found
    took = clock() - begun
    paces.append(pace())
    found.append(1e6 * took / each * FIRST / (sum(paces) / 2))


def say(line: str) -> None:
    print(line, flush=True)


def told(what: str, foretold: float, found: float, unit: str) -> None:
    error = 100 * (foretold / found - 1)
    say(f"{what}: foretold {foretold:.1f}{unit}, found {found:.1f}{unit}, error {error:+.0f} %")


def of_a_zeo_server(directory: Path) -> None:
    """Each process sends the same requests; a change by one is news for all others."""

    def took(processes: int) -> float:
        """Microseconds of the server's processor time for each request."""
        where = directory / f"zeo-{processes}"
        where.mkdir()
        with running(ZEO, where, missing) as zeo:
            clients = [
                subprocess.Popen(
                    [sys.executable, "-m", "bench.capacity", zeo.uri(), str(number)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                )
                for number in range(processes)
            ]
            for client in clients:
                if client.stdout is None or client.stdout.readline() != "ready\n":
                    raise RuntimeError("a client does not begin")
            with measured(lambda: processor_time(zeo), REQUESTS * processes) as found:
                for client in clients:
                    client.stdin.write("go\n")  # type: ignore[union-attr]
                    client.stdin.flush()  # type: ignore[union-attr]
                for client in clients:
                    client.wait()
            return found[0]

    one, two = took(1), took(2)
    foretold = one + 5 * (two - one)
    say(f"A ZEO server takes {one:.0f} us of a request of one process, {two:.0f} of two; six: {foretold:.0f}?")
    told("  of six", foretold, took(6), " us")


def of_keep(directory: Path) -> None:
    """A page is sent again if it was read since its last change, and the one before that was read as well."""
    uri = f"file://{directory}/kept.fs"
    app = site(uri, "keep")

    def took(number: int, *of: Any) -> float:
        with measured(time.process_time, number) as found:
            for one in range(number):
                ask(app, *of[one % len(of)])
        return found[0]

    for page in range(PAGES):
        for _ in range(3):
            ask(app, page)
    pages = [(page,) for page in range(PAGES)]
    again = took(3 * PAGES, *pages)
    write = took(PAGES, *((page, "POST") for page in range(PAGES)))
    made = took(PAGES, *pages)
    changed = 1 / KEPT_PER_WRITE / PAGES
    share = sum(chance * chance / (chance + changed) for chance in chances())
    reads = 1 - 1 / KEPT_PER_WRITE
    foretold = reads * (share * again + (1 - share) * made) + write / KEPT_PER_WRITE
    say(f"A page is made and kept in {made:.0f} us, sent again in {again:.0f}, changed in {write:.0f}; "
        f"{100 * share:.1f} % sent again, {foretold:.1f} us a request?")
    counts = app.offered["kept_pages"].counts
    before = counts["sent again"]
    with measured(time.process_time, KEPT_REQUESTS) as found:
        requests(KEPT_REQUESTS, KEPT_PER_WRITE, 1, app)
    told("  sent again", 100 * share, 100 * (counts["sent again"] - before) / KEPT_REQUESTS / reads, " %")
    told("  a request", foretold, found[0], " us")


def of_replicas(stack: ExitStack, directory: Path) -> None:
    """Draw a line through two shares of reads."""
    of = Replicated(stack, directory)
    few, many = of.took(10)["replicas"], of.took(90)["replicas"]
    foretold = (few + many) / 2
    say(f"A primary takes {few:.0f} us of a request at 10 % reads, {many:.0f} at 90 %; at 50 %: {foretold:.0f}?")
    told("  at 50 %", foretold, of.took(50)["replicas"], " us")


def main() -> None:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.chmod(0o755)
        of_a_zeo_server(directory)
        of_keep(directory)
        close_all()
        of_replicas(stack, directory)


def client(uri: str, number: int) -> None:
    app = site(uri)
    for page in range(PAGES):
        ask(app, page)
    print("ready", flush=True)
    sys.stdin.readline()
    requests(REQUESTS, PER_WRITE, number, app)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        client(sys.argv[1], int(sys.argv[2]))
    else:
        main()
