"""``pipeline adopt INI``: put a pipeline around a site that exists, and show that it answers as before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any

from webob import Request

from pipeline.adopting.comparing import differences
from pipeline.adopting.reading import read
from pipeline.adopting.writing import Line, parts_of, text_of_ini
from pipeline.interfaces import ConfigurationError
from pipeline.loading.asking import request_of
from pipeline.loading.command_line import options_of, parser_of
from pipeline.options import on_demand
from pipeline.staging.asked import OWN, Asked
from pipeline.telling.words import bold

if TYPE_CHECKING:
    from pipeline.proving.proof import Proof
else:  # it needs what proofs need
    Proof = on_demand("pipeline.proving.proof:Proof")
BUDGET = 20.0
"""Seconds after which nothing more is proved."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = options_of(parser_of("adopt"), arguments)
    existing = read(options.ini, options.variables)
    if Path(options.output).name != options.output:
        raise ConfigurationError(f"-o {options.output}: name a file, since the new ini stands beside the old one")
    target = existing.path.with_name(options.output)
    if target.exists():
        raise ConfigurationError(f"{target} is there already: delete it, or name another by -o")
    pages = [request(path, options.headers) for path in options.pages or ["/"]]
    twice = [*pages, pages[0] | {"is_new_visitor": True}, *pages[1:]]
    before = asked(existing.ini, options.variables, twice, is_ours=False)
    parts, left = parts_of(existing, before["pyramid"])
    write_as(existing.path, target, "\n".join(text_of_ini(existing, parts)))
    put(target, parts, left)
    words = (one.partition(" ") for one in options.writes)
    writes = [request(path, options.headers, data) for path, _, data in words]
    after = asked(str(target), options.variables, [*twice, *writes, *pages, *pages], is_ours=True)
    problems = compared(pages, before, after)
    if writes:
        again = asked(existing.ini, options.variables, [*pages, *pages], after["cookies"], is_ours=False)
        problems += stored(pages, writes, after, again)
    if any(part.name == "zodb" for part in parts):
        answers = after["asked"][len(twice) :]
        sent = [one | {"data": got["data"]} for one, got in zip(writes, answers, strict=False)]
        problems += proved(str(target), options.variables, [*pages, *sent], after["cookies"])
    print(bold("\nit does not answer as before" if problems else "\nit answers as before"))
    for problem in problems:
        print(f"  {problem}")
    print(f"\nFurther: pipeline check {target.name}, pipeline show {target.name}, pipeline serve {target.name}")
    return 1 if problems else 0


def write_as(source: Path, target: Path, text: str) -> None:
    """Write a new file that repeats another one, with at most its mode, from its first byte on (S26)."""
    state = source.stat()
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        if os.geteuid() == 0:
            os.chown(file.fileno(), state.st_uid, state.st_gid)
        file.write(text)
        file.flush()
        os.chmod(file.fileno(), S_IMODE(state.st_mode) & 0o666)


def request(path: str, headers: Sequence[str], data: str | None = None) -> dict[str, Any]:
    """Return a request for ``asking``: a GET, or a POST if there are data."""
    if not path.startswith("/"):
        raise ConfigurationError(f"the path {path!r} must start with /")
    method = "GET" if data is None else "POST"
    return {"method": method, "path": path, "headers": list(headers), "data": [data] if data else []}


def asked(
    ini: str,
    words: Sequence[str],
    requests: Sequence[dict[str, Any]],
    cookies: Sequence[str] = (),
    *,
    is_ours: bool,
) -> dict[str, Any]:
    """Ask an ini in a process of its own, as a visitor with these cookies; return what it found."""
    with tempfile.TemporaryDirectory() as directory:
        job, answers = Path(directory, "job"), Path(directory, "answers")
        told = {"ini": ini, "words": list(words), "requests": list(requests), "cookies": list(cookies)}
        job.write_text(json.dumps(told | {"is_ours": is_ours}), "utf-8")
        command = [sys.executable, "-m", "pipeline.adopting.asking", str(job), str(answers)]
        # One seed for both inis: what is made of a set is in the order of the hashes.
        environ = os.environ | {"PYTHONHASHSEED": "0"}
        no_input = subprocess.DEVNULL
        ran = subprocess.run(command, stdin=no_input, capture_output=True, text=True, check=False, env=environ)
        if not answers.exists():
            lines = ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"]
            raise ConfigurationError(f"{ini} does not load: {lines[-1]}")
        found: dict[str, Any] = json.loads(answers.read_text("utf-8"))
        return found


def proved(ini: str, words: Sequence[str], requests: Sequence[dict[str, Any]], cookies: Sequence[str]) -> list[str]:
    """Ask with every failure at every point, on copies of the databases; return what was found, in words."""
    if find_spec("webtest") is None:
        print("  not proved: that needs pip install 'wsgi-pipeline[testing]'")
        return []
    corpus = []
    for told in requests:
        made = Request(request_of(told["method"], told["path"], told["headers"], told["data"]))
        given = {name: value for name, value in made.headers.items() if name not in ("Host", "Content-Length")}
        given["Cookie"] = "; ".join([*filter(None, [given.get("Cookie")]), *cookies])
        headers = [(name, value) for name, value in given.items() if value]
        corpus.append(Asked(told["method"], told["path"], made.body, (*headers, *OWN)))
    proof = Proof(ini, words, corpus=corpus, budget=BUDGET)
    with proof.loaded():
        report = proof.faults().report
    print(f"  pipeline prove: {report.runs} runs with failures, on copies, {len(report.found)} kinds of findings")
    found: list[str] = report.text().splitlines()
    return found


def put(target: Path, parts: Sequence[Line], left: Sequence[Line]) -> None:
    """Print what the new ini has, and what was left alone."""
    print(bold(f"{target} is written: {' '.join(part.name for part in parts)}"))
    for part in parts:
        print(f"  {part.name:14} {part.why}")
        for line in part.lines[1:]:
            print(f"  {'':14}     {line}")
    for part in left:
        print(f"  {part.name:14} left alone or left out: {part.why}")


def compared(pages: Sequence[dict[str, Any]], before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return how the pages differ, in words. Each was asked for twice."""
    count, found = len(pages), []
    for number, page in enumerate(pages):
        old, new = (one["asked"][number : 2 * count : count] for one in (before, after))
        print(f"  GET {page['path']}: {old[0]['status']}, {len(old[0]['body'])} bytes")
        found += [f"GET {page['path']}: {one}" for one in differences(old, new)]
    return found


def stored(
    pages: Sequence[dict[str, Any]], writes: Sequence[dict[str, Any]], after: dict[str, Any], again: dict[str, Any]
) -> list[str]:
    """Return why writes were not stored, in words: a page must have changed, and the old ini must show the same."""
    count = len(pages)
    answers = after["asked"][2 * count :]
    found, is_changed = [], False
    for write, answer in zip(writes, answers, strict=False):
        print(f"  POST {write['path']}: {answer['status']}")
        if answer["status"] >= "400":
            found.append(f"POST {write['path']} was answered {answer['status']}")
    changed = answers[len(writes) :]
    for number, page in enumerate(pages):
        first, new, old = (one[number : 2 * count : count] for one in (after["asked"], changed, again["asked"]))
        is_changed = is_changed or any(differences(first, new))
        found += [f"GET {page['path']}, by the old ini after the write: {one}" for one in differences(new, old)]
    if not is_changed:
        remedy = "name one that shows it by --page, and log in before the POST if it needs that"
        found.append(f"no page has changed behind the POST: {remedy}")
    return found
