"""``python -m bench [SUITE ...]``: measure, print tables and the budgets, keep the figures in bench/results.

``python -m bench ci`` measures a small part, and fails where a ratio is more than twice its budget;
``python -m bench docs`` writes what was kept into docs/performance.rst and docs/measurements.rst, with charts.
"""

from __future__ import annotations

import argparse
import atexit
import logging
import shutil
import subprocess
import sys
import tempfile
import warnings
from importlib import import_module

from bench import budgets
from bench.measure import Others, Result, kept_as, machine, read, write
from bench.show import budget_cells, lines, show

SUITES = {
    "inprocess": "bench.suites",
    "requests": "bench.requests",
    "frameworks": "bench.frameworks",
    "default": "bench.default",
    "zodb": "bench.suites",
    "sql": "bench.sql",
    "elements": "bench.suites",
    "instructions": "bench.instructions",
    "growth": "bench.growth",
    "startup": "bench.startup",
    "served": "bench.served",
    "blocks": "bench.blocks",
    "kept": "bench.kept",
    "comparisons": "bench.comparisons",
}
"""The place of each, which is a function of its name."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", nargs="*", help=f"of {', '.join(SUITES)}; default: all; or ci, or docs")
    parser.add_argument("--rounds", type=int, help="how often each contender is measured")
    parser.add_argument("--seconds", type=float, help="length of a round")
    options = parser.parse_args()
    # What is left lies in a directory that is removed at the very end, when databases are closed.
    tempfile.tempdir = tempfile.mkdtemp(prefix="bench-")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if options.suite == ["ci"]:
        return import_module("bench.ci").main()  # type: ignore[no-any-return]
    if options.suite == ["docs"]:
        return import_module("bench.docs").main()  # type: ignore[no-any-return]
    suites = options.suite or list(SUITES)
    if unknown := set(suites).difference(SUITES):
        parser.error(f"there is no suite {', '.join(unknown)}")
    if len(suites) > 1:  # each in a process of its own: some peers can be set up but once
        arguments = [argument for argument in sys.argv[1:] if argument not in suites]
        for suite in suites:
            subprocess.run([sys.executable, "-m", "bench", suite, *arguments], check=True)
    else:
        given = {name: value for name in ("rounds", "seconds") if (value := getattr(options, name)) is not None}
        show(run(suites[0], **given))
    found = list(budgets.verdicts({suite: read(kept_as(suite))[1] for suite in suites}))
    if found:
        print()
        lines("The budgets", *budget_cells(found))
    return 0


def run(suite: str, **options: float) -> Result:
    """Measure, and keep what was found."""
    others = Others()
    result: Result = getattr(import_module(SUITES[suite]), suite)(**options)
    write(kept_as(suite), {**machine(), "others": others.percent()}, result)
    return result


if __name__ == "__main__":
    sys.exit(main())
