"""``pipeline prove INI [name=value ...]``: ask a site for everything, with every failure at every point."""

from __future__ import annotations

import shlex
import signal
import tomllib
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from pipeline.interfaces import ConfigurationError
from pipeline.loading.asking import header_of
from pipeline.loading.command_line import ini_parser, options_of
from pipeline.proving.proof import JUDGES, KINDS, Proof
from pipeline.proving.report import Waiver, put_begin, put_end
from pipeline.proving.sequences import is_sequence, steps_from, written
from pipeline.telling.findings import put_json

SEED = 7
DEFAULT = "faults,attack,links,sequences,growth"
EPILOG = """\
examples:
  pipeline prove site.ini
  pipeline prove site.ini --user admin --budget 60
  pipeline prove site.ini --view @@edit --depth 2
  pipeline prove site.ini --replay 'POST /@@edit error@Connection.tpc_vote:before'

Each request runs on copies of the databases: a ZODB is only read, an SQLite file is copied, and a database that
cannot be copied is refused. Exit status: 0 nothing found, 1 something found or too few views tried, 2 wrong
usage, 3 the budget is over."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = ini_parser(
        "prove",
        "Asks for every view of a site, once for each way in which something can fail at each point on the way, "
        "and says where data is lost, stored twice, or left in memory.",
        EPILOG,
    )
    parser.add_argument("--user", metavar="NAME", help="ask as this user, without a password")
    parser.add_argument(
        "--users", metavar="NAMES", default="", help="ordinary users: ann,bob; none may touch what is another one's"
    )
    what = "'Name: value' of what --user asks for, such as the cookie of his login"
    parser.add_argument("-H", metavar="HEADER", dest="headers", action="append", default=[], help=what)
    parser.add_argument("--view", metavar="REGEX", default="", help="only requests with this in METHOD URL")
    parser.add_argument("--log", metavar="FILE", help="also ask what an access log in JSON has")
    parser.add_argument(
        "--judge", metavar="JUDGES", default=DEFAULT, help=f"of {', '.join(JUDGES)}; default {DEFAULT}"
    )
    parser.add_argument("--depth", type=int, choices=(1, 2, 3), default=1, help="faults of one run; default 1")
    parser.add_argument(
        "--faults", metavar="KINDS", default=",".join(KINDS), help=f"kinds of faults; default {','.join(KINDS)}"
    )
    parser.add_argument("--budget", metavar="SECONDS", type=float, help="try no more after so many seconds")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the random numbers; default {SEED}")
    parser.add_argument("--cover", type=float, default=0.9, help="least part of the views to succeed; default 0.9")
    parser.add_argument("--allow", metavar="EFFECT", action="append", default=[], help="host:port, or a program")
    parser.add_argument("--replay", metavar="PLAN", help="run one request with one plan, as a finding prints it")
    parser.add_argument("--junit", metavar="FILE", help="write the report as XML that CI servers read")
    parser.add_argument("--waive", metavar="FILE", help="TOML with the findings that are left, and why")
    options = options_of(parser, arguments)
    if options.headers and not options.user:
        parser.error("-H is for what the user of --user asks")
    try:
        headers = dict(map(header_of, options.headers))
    except ConfigurationError as error:
        parser.error(str(error))
    kinds, chosen = options.faults.split(","), options.judge.split(",")
    if unknown := {*kinds} - {*KINDS}:
        parser.error(f"--faults {unknown.pop()}: the kinds are {', '.join(KINDS)}")
    if unknown := {*chosen} - {*JUDGES}:
        parser.error(f"--judge {unknown.pop()}: the judges are {', '.join(JUDGES)}")
    proof = Proof(
        options.ini,
        options.variables,
        user=options.user,
        users=[name for name in options.users.split(",") if name],
        headers=headers,
        view=options.view,
        log=options.log,
        allow=options.allow,
        budget=options.budget,
        seed=options.seed,
        cover=options.cover,
        waived=waivers_of(options.waive) if options.waive else (),
    )
    for number in (signal.SIGTERM, signal.SIGINT):  # what was copied is removed
        signal.signal(number, proof.site.end)
    with proof.loaded():
        if options.replay:
            return put_replay(proof, options.replay)
        proof.report.follow = not options.json
        if not options.json:
            put_begin(proof.report)
        for left, judge in zip(range(len({*chosen}), 0, -1), sorted({*chosen}, key=JUDGES.index), strict=True):
            proof.report.share(left)
            getattr(proof, judge)(*((options.depth, kinds) if judge == "faults" else ()))
    report = proof.report
    if options.json:
        put_json(report.as_dict())
    else:
        put_end(report, again(options))
    if options.junit:
        Path(options.junit).write_text(report.as_junit())
    return report.exit_status


def again(options: Namespace) -> str:
    """Return the command that asks the same site as the same users."""
    words = ["pipeline", "prove", options.ini, *options.variables]
    for name in ("user", "users", "log", "seed"):
        value = getattr(options, name)
        words += [f"--{name}", str(value)] if value not in (None, "", SEED) else []
    words += [word for header in options.headers for word in ("-H", header)]
    words += [word for effect in options.allow for word in ("--allow", effect)]
    return shlex.join(words)


def waivers_of(path: str) -> list[Waiver]:
    """Return the findings that a file waives. Raise ConfigurationError if it does not say which, and why."""
    try:
        entries = tomllib.loads(Path(path).read_text())["waive"]
        return [Waiver(**entry) for entry in entries]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path}: {error}. It has a table [[waive]] for each finding, with {', '.join(Waiver._fields)}"
        ) from error


def put_replay(proof: Proof, plan: str) -> int:
    """Run one plan and print the points that it passes, or a sequence and print its answers."""
    if is_sequence(plan):
        steps = steps_from(plan)
        statuses, found = proof.replay_steps(steps)
        for step, status in zip(steps, statuses, strict=False):
            print(f"  {status or '-'}  {written([step])}")
        return put_found(found)
    run, found = proof.replay(plan)
    for number, point in enumerate(run.trace, 1):
        hit = next((f"  <- {hit.kind}, at {hit.where}" for hit in run.hits if hit.point == point), "")
        print(f"  {number:4} {point}{hit}")
    outcome = f", X-Outcome: {run.outcome}" if run.outcome else ""
    print(f"answered {run.status or type(run.escaped).__name__}{outcome}")
    return put_found(found)


def put_found(found: Sequence[str]) -> int:
    """Print what is wrong with what was run again. Return the exit status."""
    for one in found:
        print(f"found: {one}")
    return 1 if found else 0
