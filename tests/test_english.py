"""Plain English: the tell-tale forms of stilted text do not stand in the code and the docs."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

pytestmark = pytest.mark.once
TOP = Path(__file__).resolve().parents[1]

TELL_TALES = {
    r"(?<![Tt]here )\b(is|are|was|were|be) none\b": 'write "is not a ..."',
    r"(?<![Tt]here )\b(is|are|was|were) no (?!longer\b|more\b|less\b)": 'write "is not a ..."',
    r"\bhad by\b|\bnone need\b": "use the usual order: subject, verb, object",
    r"\b[Ww]hat is none\b|\b[Ww]hat there is\b": "name the thing",
    r"\b([Ww]hoever|[Ss]omebody|[Aa]nybody|[Nn]obody|[Ee]verybody|those who|who asks)\b": "name the role",
}
"""Patterns of stilted text, with the remedy."""

OPENING = re.compile(r"(Of|Who|Whom|What|Whose|Where|Whoever|Whether) ")
"""Words that do not begin a docstring. The docstring of a property may begin with "Whether"."""


def files() -> list[Path]:
    texts = [TOP / "README.rst", TOP / "Makefile", *sorted((TOP / "docs").rglob("*.rst"))]
    texts += sorted(path for path in (TOP / ".ci").iterdir() if path.is_file())
    code = [path for place in ("src", "bench", "fuzz") for path in (TOP / place).rglob("*.py")]
    return [*texts, *sorted(code)]


def passages(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield line, text, and whether the text is a docstring, for each passage of English in a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        start = 1
        for passage in text.split("\n\n"):
            yield start, passage, False
            start += passage.count("\n") + 2
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# "), False
    tree = ast.parse(text)
    docstrings = {id(docstring) for node in ast.walk(tree) for docstring in docstrings_of(node)}
    docstrings |= {id(docstring) for node in ast.walk(tree) for docstring in docstrings_of_attributes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value, id(node) in docstrings


def docstrings_of(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the docstring of a module, a class or a function, but not of a property."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body:
        first = node.body[0]
        decorators = [ast.unparse(one) for one in getattr(node, "decorator_list", ())]
        if isinstance(first, ast.Expr) and "property" not in decorators:
            yield first.value


def docstrings_of_attributes(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the string behind each assignment of a module, a class or a function."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
        for assignment, behind in pairwise(node.body):
            if isinstance(assignment, (ast.Assign, ast.AnnAssign)) and isinstance(behind, ast.Expr):
                yield behind.value


def faults(passage: str, docstring: bool) -> Iterator[str]:
    """Yield the faults of a passage. Code between double backquotes is not read."""
    plain = " ".join(re.sub(r"``.*?``", "``x``", passage, flags=re.DOTALL).split())
    for pattern, remedy in TELL_TALES.items():
        for found in re.finditer(pattern, plain):
            yield f"{plain[max(0, found.start() - 30) : found.end() + 20]!r}: {remedy}"
    if docstring and OPENING.match(plain):
        yield f"{plain[:60]!r}: begin with a verb or with a noun"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(TOP)))
def test_the_text_is_plain(path: Path) -> None:
    found = [f"line {line}: {fault}" for line, text, doc in passages(path) for fault in faults(text, doc)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "The body is no JSON.",
        "its boundary is none",
        "They are no containers.",
        "for them none need be made",
        "Whoever asks gets it.",
        "Put on the request who asks.",
        "What is none, costs no more.",
    ],
)
def test_control_stilted_text_is_found(text: str) -> None:
    assert list(faults(text, False))


@pytest.mark.parametrize("text", ["Whether it is so.", "Of a file: its state.", "What a factory returns."])
def test_control_a_docstring_that_begins_badly_is_found(text: str) -> None:
    assert list(faults(text, True)) and not list(faults(text, False))


@pytest.mark.parametrize(
    "text",
    ["There is no such file.", "It is no longer open.", "The body is not valid JSON.", "None of them is used."],
)
def test_control_plain_text_is_not_found(text: str) -> None:
    assert not list(faults(text, True))


def test_control_the_docstring_of_an_attribute_is_one() -> None:
    tree = ast.parse('class Part:\n    failed: bool\n    """Whether it has failed."""')
    [found] = [docstring for node in ast.walk(tree) for docstring in docstrings_of_attributes(node)]
    assert list(faults(ast.literal_eval(found), True))
