"""``pipeline top INI [name=value ...]``: what runs now in each process of a site."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import options_of, parser_of, plan_of
from pipeline.running.instance import processes, state_of
from pipeline.telling.errors import refusal
from pipeline.telling.findings import put_json
from pipeline.telling.words import bold, is_of_the_site


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = options_of(parser_of("top"), arguments)
    directory = directory_of(options)
    while True:
        told = processes(directory)
        if not told:
            raise ConfigurationError(f"{directory}: no process of the site runs here")
        found = {
            "draining": any(one.get("draining") for one in told),
            "processes": [{**one, "state": state_of(one).word, "why": state_of(one).why} for one in told],
        }
        if options.json:
            put_json(found)
        else:
            print("\n".join(lines_of(found, options.stacks)), flush=True)
        if not options.every:
            return 0
        time.sleep(options.every)


def directory_of(options: argparse.Namespace) -> str:
    """Return the directory with the sockets of the processes."""
    for chain in plan_of(options.ini, options.variables):
        watch = chain.steps[-1].facts.watch
        if watch is not None:
            return str(watch.directory)
    raise refusal("nothing is watched", ini=options.ini)


def lines_of(found: Mapping[str, Any], stacks: bool = False) -> Iterator[str]:
    """Yield the lines of the report: each process with its requests."""
    if found["draining"]:
        yield "The instance is draining: it is about to stop."
    for one in found["processes"]:
        requests = one.get("requests", [])
        of = f" of {one['threads']}" if one.get("threads") else ""
        waiting = f", {one['waiting']} waiting" if one.get("waiting") else ""
        yield bold(f"process {one['pid']}: {one['state']}, {len(requests)}{of} running{waiting}")
        if one["why"]:
            yield f"  {one['why']}"
        for pool in one.get("pools", []):
            limit = f" of {pool['limit']}" if pool["limit"] is not None else ""
            yield f"  pool {pool['database']}: {pool['used']}{limit} used, {pool['idle']} idle"
        for request in requests:
            within = " in ".join(filter(None, (request["view"], request["element"]))) or "-"
            yield f"  {request['seconds']:8.1f} s  {request['method']} {request['path']}"
            yield f"             {within}, user {request['user'] or '-'}"
            yield from (f"             {line}" for line in (request["stack"] if stacks else at(request)))


def at(request: Mapping[str, Any]) -> list[str]:
    """Return the line where a request is, and the line of the site that has led to it."""
    stack: list[str] = request["stack"]
    return list(dict.fromkeys((stack[0], *list(filter(is_of_the_site, stack))[:1])))
