"""``pipeline rehearse INI --log access.json [--against OLD]``: ask new code what visitors asked last."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import options_of, parser_of
from pipeline.loading.site import private_variables
from pipeline.ranges import at_least
from pipeline.rehearsing.comparing import Line, Rehearsal, as_nobody, newest, rehearse
from pipeline.rehearsing.sides import SideFailed, directory_of, started
from pipeline.staging.asked import Logged, read_log
from pipeline.telling.findings import put_json
from pipeline.telling.words import bold


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = parser_of("rehearse")
    options = options_of(parser, arguments)
    try:
        at_least(1, each=options.each)
        requests = newest(read_log(options.log), options.each)
        if not requests:
            raise ConfigurationError(f"{options.log} has no GET and no HEAD, so nothing can be rehearsed")
        rehearsal = on_both_sides(options, requests)
    except (OSError, ConfigurationError, SideFailed) as error:
        parser.exit(2, f"pipeline rehearse: {error}\n")
    if options.json:
        put_json({"ini": options.ini, "against": options.against, **rehearsal.as_dict()})
    else:
        put(rehearsal)
    return rehearsal.exit_status


def on_both_sides(options: argparse.Namespace, requests: Sequence[Logged]) -> Rehearsal:
    """Load both sides, each in a process of its own, and rehearse the requests."""
    began = monotonic()
    ends = began + options.budget
    words, allow, live = options.variables, options.allow, options.live
    if options.against is not None:  # the old code alone knows what a visitor without a login may see
        requests = [*requests, *as_nobody(requests)]
    with ExitStack() as stack:
        new = stack.enter_context(started(options.ini, words, ends, allow=allow, live=live))
        old = None
        if options.against is not None:
            cwd = directory_of(options.against, options.ini)
            python = options.python or sys.executable
            side = started(options.against, words, ends, python=python, cwd=cwd, allow=allow, live=live)
            old = stack.enter_context(side)
            try:
                old.load()
            except (SideFailed, TimeoutError) as error:
                raise SideFailed(
                    f"{options.against}: the code that is served now cannot be asked: {error}. "
                    f"Without --against, the status of the log is compared"
                ) from error
        try:
            new.load()
        except (SideFailed, TimeoutError) as error:
            failed = f"{options.ini} does not load: {error}"
            return Rehearsal([Line(logged, left="the new code does not load") for logged in requests], failed)
        rehearsal = rehearse(requests, new, old, ends=ends, slower=options.slower, floor=options.floor)
        if old is not None and old.files == new.files:
            rehearsal.note = f"both sides have the views of {', '.join(new.files) or 'wsgi-pipeline alone'}"
        rehearsal.seconds = monotonic() - began
        return rehearsal


def put(rehearsal: Rehearsal) -> None:
    """Print the requests, and what got worse."""
    for line in rehearsal.lines:
        put_line(line)
    kinds = len({line.logged.kind for line in rehearsal.lines if line.new is not None})
    asked = sum(line.new is not None for line in rehearsal.lines)
    if rehearsal.failed:
        print(rehearsal.failed)
    if rehearsal.note:
        print(f"note: {rehearsal.note}")
    said = f"{asked} requests of {kinds} kinds were rehearsed in {rehearsal.seconds:.1f} s"
    print(bold(f"{said}: {len(rehearsal.worse)} are worse, {len(rehearsal.left)} are left"))


def put_line(line: Line) -> None:
    """Print one request."""
    user = f" as {line.logged.asked.user}" if line.logged.asked.user else ""
    status = "" if line.new is None else f"  {line.before or '-'} -> {line.new.status or '-'}"
    times = f"  {' -> '.join(f'{one:g}' for one in line.milliseconds)} ms" if line.milliseconds else ""
    said = f"  ({line.note or line.left})" if line.note or (line.left and not line.worse) else ""
    print(f"{line.verdict:5} {line.logged.asked}{user}{status}{times}{said}")
    if line.worse:
        for what in line.worse:
            print(f"      {what}")
        for cause in line.new.causes if line.new is not None else ():
            print(f"      {cause['why']}\n      at {cause['where']}")
            if cause["remedy"]:
                print(f"      {cause['remedy']}")


def before_reload(ini: str, log: str, file: str | None = None, /, **variables: str) -> int:
    """Rehearse what the code of an ini is about to serve; return 1 if an answer got worse, and else 0.

    For the check that runs before a reload, which ``pipeline deploy --rehearse`` writes. A log that is missing or
    empty, as in front of the first start, refuses nothing.

    log   the access log, with whose status the answers are compared
    file  the file with the variables of the command line, as for ``pipeline.loading.site.deployed``
    """
    words = [f"{name}={value}" for name, value in (variables | private_variables(file)).items()]
    if not Path(log).exists() or not newest(read_log(log), 1):
        print(f"{log} has no requests: nothing is rehearsed.")
        return 0
    try:
        return int(main([ini, "--log", log, *words]) == 1)
    except SystemExit:  # it says why nothing can be rehearsed
        return 1
