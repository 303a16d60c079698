"""``pipeline prove INI [name=value ...]``: ask a site for everything, with every failure at every point."""

from __future__ import annotations

import re
import shlex
import signal
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from pipeline.interfaces import ConfigurationError
from pipeline.loading.asking import header_of
from pipeline.loading.command_line import options_of, parser_of
from pipeline.proving.proof import JUDGES, Proof
from pipeline.proving.report import Waiver, put_begin, put_end
from pipeline.proving.sequences import Explorer, is_sequence, steps_from, with_tokens, written
from pipeline.staging.runs import FAULTS
from pipeline.telling.findings import put_json
from pipeline.telling.secrets import is_secret, told_option

AS_GIVEN = ("user", "view", "log", "allow", "budget", "seed", "cover")
"""The options that a proof takes as they are."""
HARMLESS = ("accept", "accept-language", "content-type", "host", "user-agent")
"""Headers whose values are printed: they are not secret."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = parser_of("prove")
    options = options_of(parser, arguments)
    if options.headers and not options.user:
        parser.error("-H is for what the user of --user asks")
    try:
        headers = dict(map(header_of, options.headers))
    except ConfigurationError as error:
        parser.error(str(error))
    kinds, chosen = options.faults.split(","), options.judge.split(",")
    for name, words, known in (("faults", kinds, FAULTS), ("judge", chosen, JUDGES)):
        if unknown := {*words} - {*known}:
            parser.error(f"--{name} {unknown.pop()}: there are {', '.join(known)}")
    proof = Proof(
        options.ini,
        options.variables,
        users=[name for name in options.users.split(",") if name],
        headers=headers,
        waived=waivers_of(options.waive) if options.waive else (),
        **{name: getattr(options, name) for name in AS_GIVEN},
    )
    for number in (signal.SIGTERM, signal.SIGINT):  # what was copied is removed
        signal.signal(number, proof.end)
    with proof.loaded():
        if options.replay:
            return put_replay(proof, options.replay)
        proof.report.follow = not options.json
        if not options.json:
            put_begin(proof.report)
        judges = sorted({*chosen}, key=JUDGES.index)
        for done, judge in enumerate(judges):
            proof.report.share(len(judges) - done)
            getattr(proof, judge)(*((options.depth, kinds) if judge == "faults" else ()))
    report = proof.report
    if options.json:
        put_json(report.as_dict())
    else:
        command = again(parser, options)
        put_end(report, command)
        names = re.findall(r"\$(PROVE_\w+)", command)
        if names and report.found:
            print(f"Set {', '.join(names)} first: a secret that was given is not printed")
    if options.junit:
        Path(options.junit).write_text(report.as_junit())
    return report.exit_status


def again(parser: ArgumentParser, options: Namespace) -> str:
    """Return the command that asks the same site as the same users."""
    words = ["pipeline", "prove", shlex.quote(options.ini)]
    words += [shell_word(*text.partition("=")) for text in options.variables]
    for name in ("user", "users", "log", "seed"):
        value = getattr(options, name)
        words += [f"--{name}", shlex.quote(str(value))] if value != parser.get_default(name) else []
    words += [word for header in options.headers for word in ("-H", shell_word(*header.partition(":")))]
    words += [word for effect in options.allow for word in ("--allow", shlex.quote(effect))]
    return " ".join(words)


def shell_word(name: str, mark: str, value: str) -> str:
    """Return a header, or a variable of an ini, for a shell. A secret is a variable of the shell there (S25)."""
    is_header = mark == ":"
    if name.lower() in HARMLESS if is_header else told_option(name, value, is_secret) == value:
        return shlex.quote(f"{name}{mark}{value}")
    variable = re.sub(r"\W", "_", name.upper(), flags=re.ASCII)
    escaped = re.sub(r'[\\"$`]', r"\\\g<0>", name)
    return f'"{escaped}{mark}{" " * is_header}$PROVE_{variable}"'


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
        explorer = Explorer(proof, (), ())
        found = explorer.run(with_tokens(proof, steps))
        for step, run in zip(steps, explorer.runs, strict=False):
            print(f"  {run.status or '-'}  {written([step])}")
    else:
        run, found = proof.replay(plan)
        hits = {hit.point: f"  <- {hit.kind}, at {hit.where}" for hit in run.hits}
        for number, point in enumerate(run.trace, 1):
            print(f"  {number:4} {point}{hits.get(point, '')}")
        outcome = f", X-Outcome: {run.outcome}" if run.outcome else ""
        print(f"answered {run.status or type(run.escaped).__name__}{outcome}")
    for one in found:
        print(f"found: {one}")
    return 1 if found else 0
