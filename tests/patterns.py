"""The regular expressions of the project, and the steps that they take: a time would depend on the machine.

``patterns`` finds the regular expressions in the sources. A ``Counter`` matches as ``re`` does, by trying and going
back, and counts its steps. ``attacks`` makes texts that repeat the parts of a regular expression.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import count, islice, product
from pathlib import Path
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split")
LENGTHS = ((40, 80), (160, 320))
"""Lengths of texts that are compared. The second pair judges patterns of limited repeats, such as ``{1,63}``."""
GROWTH = 2.6
"""Upper limit of the steps for a text of twice the length: 2 for a linear pattern, 4 for a quadratic one."""
ENOUGH = 40_000
"""Steps after which a match is given up. The patterns of the project take 1,500 at most."""
Run = Callable[[int], Iterator[int]]
"""Function that yields the ends of the matches that begin at a place, those that ``re`` would find first first."""


class Pattern(NamedTuple):
    where: str
    text: str | bytes
    flags: int
    methods: tuple[str, ...]
    """Methods by which it is used. If the sources do not show them, ``search``, which is the slowest."""


# Where they are.


def patterns(top: Path, local: dict[str, dict[str, Any]]) -> Iterator[Pattern]:
    """Yield the regular expressions of all files below a directory of packages.

    ``local`` has, by file, examples of the local variables of which a pattern is made.
    """
    for path in sorted(top.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        file = path.relative_to(top).as_posix()
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and (function := _of_re(call.func)) not in (None, "escape"):
                names = {**_globals(file, tree), **local.get(file, {})}
                text = _value(call.args[0], names)
                others = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
                flags = sum(int(_value(node, names)) for node in others if _is_flag(node))
                used = _uses(tree, call) if function == "compile" else [str(function)]
                yield Pattern(f"{file}:{call.lineno}", text, flags, tuple(sorted(used)))


def _of_re(node: ast.AST) -> str | None:
    """Return the name of an attribute of the module re."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re":
        return node.attr
    return None


def _is_flag(node: ast.AST) -> bool:
    return any((_of_re(part) or "").isupper() for part in ast.walk(node))


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "a pattern", "eval"), names)


def _globals(file: str, tree: ast.Module) -> dict[str, Any]:
    """Return the names of a module; its constants alone if what it imports is not installed."""
    try:
        return vars(import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")))
    except ImportError:
        names: dict[str, Any] = {"re": re}
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                with suppress(Exception):  # it needs what is missing
                    names[node.targets[0].id] = _value(node.value, names)
        return names


def _uses(tree: ast.Module, compiled: ast.Call) -> set[str]:
    """Return the methods of a compiled pattern that its file calls."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.value is compiled:
            return {node.attr}
        if isinstance(node, ast.Assign) and node.value is compiled:
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            found = {
                part.attr
                for part in ast.walk(tree)
                if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in names
            }
    return found & {*METHODS} or {"search"}


# How they match.


class TooMany(Exception):
    """A match took more steps than ``ENOUGH``."""


class Counter:
    """A matcher that counts the characters and the empty places that it looks at."""

    def __init__(self, pattern: Pattern) -> None:
        self.tree = _parser.parse(pattern.text, pattern.flags)
        self.is_bytes = isinstance(pattern.text, bytes)
        self.characters: list[Callable[[str], bool]] = []
        self.groups: dict[int, str] = {}
        self.text = ""
        self.steps = 0
        self.begin = self._sequence(self.tree, self.tree.state.flags)

    def count(self, method: str, text: str) -> int:
        """Return the steps that a method takes for a text."""
        self.search(method, text)
        return self.steps

    def search(self, method: str, text: str) -> list[tuple[int, int]]:
        """Return where a method finds the pattern."""
        self.text, self.steps = text, 0
        found: list[tuple[int, int]] = []
        place = 0
        while place <= len(text):
            self.groups.clear()
            ends = (end for end in self.begin(place) if method != "fullmatch" or end == len(text))
            end = next(ends, None)
            if end is not None:
                found.append((place, end))
            if method in ("match", "fullmatch"):
                break
            place = place + 1 if end is None else max(end, place + 1)
        return found

    def _step(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > ENOUGH:
            raise TooMany

    def _sequence(self, nodes: Any, flags: int) -> Run:
        parts = [self._node(operator, value, flags) for operator, value in nodes]

        def run(place: int, part: int = 0) -> Iterator[int]:
            if part == len(parts):
                yield place
            else:
                for end in parts[part](place):
                    yield from run(end, part + 1)

        return run

    def _node(self, operator: Any, value: Any, flags: int) -> Run:
        if str(operator) in ("LITERAL", "NOT_LITERAL", "IN", "ANY"):
            return self._character(operator, value, flags)
        return getattr(self, f"_{str(operator).lower()}")(value, flags)  # type: ignore[no-any-return]

    def _compiled(self, operator: Any, value: Any, flags: int) -> Callable[[str, int], Any]:
        node = _parser.SubPattern(self.tree.state, [(operator, value)])
        compiled = _compiler.compile(node, flags)
        return lambda text, place: compiled.match(text.encode("latin-1") if self.is_bytes else text, place)

    def _character(self, operator: Any, value: Any, flags: int) -> Run:
        compiled = self._compiled(operator, value, flags)
        known: dict[str, bool] = {}

        def matches(character: str) -> bool:
            if character not in known:
                known[character] = compiled(character, 0) is not None
            return known[character]

        def run(place: int) -> Iterator[int]:
            self._step()
            if place < len(self.text) and matches(self.text[place]):
                yield place + 1

        self.characters.append(matches)
        return run

    def _at(self, value: Any, flags: int) -> Run:
        compiled = self._compiled(_constants.AT, value, flags)

        def run(place: int) -> Iterator[int]:
            self._step()
            if compiled(self.text, place) is not None:
                yield place

        return run

    def _branch(self, value: Any, flags: int) -> Run:
        branches = [self._sequence(branch, flags) for branch in value[1]]

        def run(place: int) -> Iterator[int]:
            for branch in branches:
                yield from branch(place)

        return run

    def _subpattern(self, value: Any, flags: int) -> Run:
        group, added, removed, inner = value
        body = self._sequence(inner, flags & ~removed | added)

        def run(place: int) -> Iterator[int]:
            for end in body(place):
                self.groups[group] = self.text[place:end]
                yield end

        return run

    def _groupref(self, group: int, flags: int) -> Run:
        def run(place: int) -> Iterator[int]:
            text = self.groups.get(group)
            self._step(len(text or "") + 1)
            if text is not None and self.text.startswith(text, place):
                yield place + len(text)

        return run

    def _atomic_group(self, inner: Any, flags: int) -> Run:
        body = self._sequence(inner, flags)
        return lambda place: islice(body(place), 1)

    def _max_repeat(self, value: Any, flags: int, greedy: bool = True) -> Run:
        least, most, inner = value
        body = self._sequence(inner, flags)

        def run(place: int, number: int = 0) -> Iterator[int]:
            if not greedy and number >= least:
                yield place
            if number < most:
                for end in body(place):
                    if end > place or number < least:
                        yield from run(end, number + 1)
            if greedy and number >= least:
                yield place

        return run

    def _min_repeat(self, value: Any, flags: int) -> Run:
        return self._max_repeat(value, flags, greedy=False)

    def _possessive_repeat(self, value: Any, flags: int) -> Run:
        body = self._max_repeat(value, flags)
        return lambda place: islice(body(place), 1)

    def _assert(self, value: Any, flags: int, wanted: bool = True) -> Run:
        direction, inner = value
        body = self._sequence(inner, flags)
        width = inner.getwidth()[0] if direction < 0 else 0

        def run(place: int) -> Iterator[int]:
            self._step()
            found = place >= width and any(direction > 0 or end == place for end in body(place - width))
            if found == wanted:
                yield place

        return run

    def _assert_not(self, value: Any, flags: int) -> Run:
        return self._assert(value, flags, wanted=False)


# What is hard for them.


def attacks(counter: Counter) -> Iterator[tuple[str, str, str]]:
    """Yield texts in three parts, of which the middle one is to be repeated."""
    alphabet = _alphabet(counter)
    samples = _Samples(counter, alphabet)
    pumps = dict.fromkeys(filter(None, [*alphabet, *samples.parts]))
    yield from product(dict.fromkeys(["", *samples.heads]), pumps, ["", *alphabet[:2]])


def _alphabet(counter: Counter) -> list[str]:
    """Return one character for each set of characters that the pattern does not tell apart."""
    kinds: dict[tuple[bool, ...], str] = {}
    for character in map(chr, (*range(0x21, 0x7F), *range(0x21), *range(0x7F, 0x100))):
        kinds.setdefault(tuple(matches(character) for matches in counter.characters), character)
    return sorted(kinds.values(), key=lambda one: sum(matches(one) for matches in counter.characters))


class _Samples:
    """Texts that match a pattern and its parts."""

    def __init__(self, counter: Counter, alphabet: list[str]) -> None:
        self.counter = counter
        self.alphabet = alphabet
        self.numbers = count()
        self.parts: list[str] = []
        self.heads: list[str] = []
        """Texts before a repeat."""
        self.groups: dict[int, str] = {}
        self.of(counter.tree, "")

    def of(self, nodes: Any, head: str) -> list[str]:
        """Return texts that match a sequence after a head: one, and for each choice in it one more."""
        found = [""]
        for operator, value in nodes:
            texts = self.of_node(str(operator), value, head + found[0])
            first, *others = found
            found = [first + texts[0], *(first + text for text in texts[1:]), *(one + texts[0] for one in others)]
            self.parts += found[:4]
        return list(dict.fromkeys(found))[:8]

    def of_node(self, operator: str, value: Any, head: str) -> list[str]:
        if operator in ("LITERAL", "NOT_LITERAL", "IN", "ANY"):
            matches = self.counter.characters[next(self.numbers)]
            return [character for character in self.alphabet if matches(character)][:2] or [""]
        if operator == "BRANCH":
            return [text for branch in value[1] for text in self.of(branch, head)[:1]]
        if operator == "SUBPATTERN":
            texts = self.of(value[3], head)
            self.groups[value[0]] = texts[0]
            return texts
        if operator == "ATOMIC_GROUP":
            return self.of(value, head)
        if operator.endswith("REPEAT"):
            self.heads.append(head)
            texts = self.of(value[2], head)
            return [text * max(value[0], 1) for text in texts] if value[0] else ["", *texts]
        if operator.startswith("ASSERT"):
            self.of(value[1], head)
        return [self.groups.get(value, "")] if operator == "GROUPREF" else [""]


def slow(counter: Counter, method: str, attack: tuple[str, str, str]) -> bool:
    """Return whether the steps for an attack grow faster than its length."""
    head, pump, tail = attack
    try:
        for shorter, longer in LENGTHS:
            few, many = (
                counter.count(method, head + pump * (length // len(pump) + 1) + tail)
                for length in (shorter, longer)
            )
            if many <= GROWTH * few:
                return False
    except TooMany:
        pass
    return True
