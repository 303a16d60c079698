"""``python -m bench [SUITE ...]``: measure, print tables, write JSON to bench/results."""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import warnings
from pathlib import Path

from bench.measure import machine, write
from bench.suites import SUITES

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("WebOb", "zope.interface", "falcon", "wheezy.web", "pyramid", "Zope", "ZODB", "Flask", "bottle")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("suite", nargs="*", help=f"of {', '.join(SUITES)}; default: all")
    parser.add_argument("--rounds", type=int, default=9, help="how often each contender is timed (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a round (%(default)s)")
    options = parser.parse_args()
    if len(options.suite) != 1:  # each in a process of its own: some peers can be set up but once
        for suite in options.suite or SUITES:
            rounds = ["--rounds", str(options.rounds), "--seconds", str(options.seconds)]
            subprocess.run([sys.executable, "-m", "bench", suite, *rounds], check=True)
        return
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    suite = options.suite[0]
    figures = SUITES[suite](options.rounds, options.seconds)
    write(RESULTS / f"{suite}.json", suite, machine(*PACKAGES), figures)


if __name__ == "__main__":
    main()
