"""The lines of a ``switch`` that no request can reach, since an earlier line takes each of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from paste.deploy.loadwsgi import APP, loadcontext

from pipeline.ini import Source, lines_from, sections_of
from pipeline.switch import branch_lines, segments_of, switch
from pipeline.telling.findings import Finding


def of_switches(path: Path, variables: dict[str, str]) -> Iterator[Finding]:
    """Yield the lines of the switches of an ini that no request can reach."""
    for section in sections_of(str(path)):
        kind, _, name = section.partition(":")
        if kind in ("composite", "composit"):
            context = loadcontext(APP, f"config:{path}", name=name.strip() or "main", global_conf=variables)
            if context.object is switch:
                lines = branch_lines(context.local_conf)
                place = Source(context.global_conf, switch).option("branches")
                yield from of_lines(lines, context.local_conf.get("default"), place)


def of_lines(lines: list[str], default: str | None, place: str) -> Iterator[Finding]:
    """Yield the lines of one switch that no request can reach.

    place  the place of the option ``branches``
    """
    wanted = [line.split()[1:] for line in lines]
    for number, conditions in enumerate(wanted):
        where = _line(place, lines[number])
        earlier = next((one for one in range(number) if takes_all(wanted[one], conditions)), None)
        if earlier is not None:
            yield Finding.of("taken line", where, what=f"the line {lines[number]!r}", taker=lines[earlier])
        elif (pair := contradiction(conditions)) is not None:
            yield Finding.of("contradiction", where, line=lines[number], pair=" and ".join(pair))
    everything = next((number for number, one in enumerate(wanted) if takes_all(one, [])), None)
    if default is not None and everything is not None:
        where = _line(place, lines[everything])
        yield Finding.of("taken line", where, what=f"default = {default}", taker=lines[everything])


def takes_all(earlier: list[str], conditions: list[str]) -> bool:
    """Return whether each request with some conditions has the earlier ones, too."""
    wanted = [one for one in earlier if one[:5] != "path=" or segments_of(one[5:])]
    return all(any(_implies(other, one) for other in conditions) for one in wanted)


def contradiction(conditions: list[str]) -> tuple[str, str] | None:
    """Return two conditions of one line of which no request has both, or None."""
    for number, one in enumerate(conditions):
        for other in conditions[:number]:
            kind, _, value = one.partition("=")
            if other.partition("=")[0] == kind and _are_apart(kind, value, other.partition("=")[2]):
                return other, one
    return None


def _are_apart(kind: str, one: str, other: str) -> bool:
    if kind in ("method", "scheme"):
        return not {*one.upper().split(",")} & {*other.upper().split(",")}
    if kind == "path":
        return segments_of(one)[: len(segments_of(other))] != segments_of(other)[: len(segments_of(one))]
    return False


def _implies(condition: str, wanted: str) -> bool:
    """Return whether each request with a condition has the other one, too."""
    kind, _, value = condition.partition("=")
    wanted_kind, _, wanted_value = wanted.partition("=")
    if kind.lower() != wanted_kind.lower() or kind == "view":  # each line asks its own app
        return False
    if kind in ("method", "scheme"):
        return {*value.upper().split(",")} <= {*wanted_value.upper().split(",")}
    if kind == "path":
        return segments_of(value)[: len(segments_of(wanted_value))] == segments_of(wanted_value)
    # A pattern that takes a "*" for any other letter matches all that it stands for.
    taken = [one.replace("[", "[[]").replace("?", "[?]") for one in wanted_value.lower().split(",")]
    return all(any(fnmatchcase(word, one) for one in taken) for word in value.lower().split(","))


def _line(place: str, text: str) -> str:
    """Return the place of a line of an option of several lines, as exactly as can be told."""
    head, _, first = place.rpartition(", line ")
    words = text.split()
    found = (number for number, line in enumerate(lines_from(place)) if line.split()[-len(words) :] == words)
    number = next(found, None)
    return place if number is None else f"{head}, line {int(first) + number}"
