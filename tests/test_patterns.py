"""No regular expression of the project takes more time than in proportion to the text (S12)."""

from __future__ import annotations

import re
import tomllib
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from patterns import Counter, Pattern, attacks, patterns, slow
from pipeline.explaining.slips import GROUP, WORD

pytestmark = pytest.mark.once
TOP = Path(__file__).resolve().parent.parent
LOCAL = {
    "pipeline_demo/text.py": {"tag": "title", "words": ["one", "two"]},
    "pipeline/elements/compress.py": {"types": ("text/*", "application/json")},
    "pipeline/http/html_head.py": {"name": b"title", "text": b">"},
    "pipeline/tools/check.py": {"name": "debug"},
    "pipeline/checking/values.py": {"slip": {"pattern": r"(?<!\S)\S++(?<=,)(?=\s|$)"}},
    "pipeline/proving/faults.py": {"points": ".*"},
    "pipeline/proving/proof.py": {"self": SimpleNamespace(view=".*")},
    "pipeline/loading/command_line.py": {"text": ".*"},
    "pipeline/switch.py": {"words": ["text/*", "*.png", "a*[?]b*c"]},
    "pipeline/ini.py": {"section": "server:main"},
    "pipeline/checking/templates.py": {"slip": {"pattern": r"<textarea[^<>]*>\s+\{\{"}},
    "pipeline/explaining/slips.py": {
        "names": {"CONTEXT": ["a"]}, "pattern": "^a", "rule": {"pattern": "CONTEXT"}, "wanted": " in a",
    },
    "pipeline/explaining/notices_of_pages.py": {"rule": {"pattern": "None"}},
}
"""Examples for the patterns that are made of something else."""
PLACES = (TOP / "src", TOP / "examples" / "demo" / "src")
FOUND = [pattern for place in PLACES for pattern in patterns(place, LOCAL)]
RULES = tomllib.loads((TOP / "src/pipeline/explaining/rules.toml").read_text("utf-8"))
RULES |= tomllib.loads((TOP / "src/pipeline/checking/templates.toml").read_text("utf-8"))
RULES |= tomllib.loads((TOP / "src/pipeline/checking/values.toml").read_text("utf-8"))
ACCEPTED = (("input", "fullmatch"), ("header", "fullmatch"))
SEARCHED = (("source", "search"), ("text", "search"), ("value", "search"))
IN_TOML = [
    Pattern(f"{table} {number} {key}", WORD.sub("name|other", text), 0, (method,))
    for table, method in (*SEARCHED, ("slip", "finditer"), *ACCEPTED)
    for number, rule in enumerate(RULES[table].values() if (table, method) in ACCEPTED else RULES[table])
    for key in ("pattern", "beside", "unless")
    for text in ([rule[key] if key == "pattern" else GROUP.sub("name", rule[key])] if key in rule else ())
]
"""The patterns of the rules of notices, of templates, and of values in an ini."""
BAD = {
    "(a+)+b": "match",  # exponential
    "(?:a|a)*b": "fullmatch",
    r"([\w.-]*(?:key|session)[\w.-]*)(\s*[=:]\s*)": "sub",  # cubic
    "a*a*b": "match",
    ".*,.*;": "fullmatch",
    r"(.+)' by '(\w+)'.* in (.+)": "match",
    r"(?:x|\s)\s*y": "search",
    "[^&;=]*=": "sub",
    "<[^>]*>": "findall",
    r"\s+$": "search",
    "<pre>(.*?)</pre>": "sub",
    r"(?<=a)\w*-": "search",
    "(?i:SESSION)+=": "search",
    "b(?=[ab]*c)": "search",
    r"(a*)\1b": "match",
}
GOOD = {
    "[^&;]*+": "sub",
    "<[^<>]*>": "sub",
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?": "search",
    r"(?<!\w)(\w++)=": "search",
    "(?:a|b)*c": "match",
    "(?>a*)b": "match",
    r'"(?:[^"\\]|\\.)*"': "match",
}


def test_every_pattern_is_found() -> None:
    assert len(FOUND) > 80
    names = {pattern.where.partition(":")[0] for pattern in FOUND}
    modules = {path.relative_to(place).as_posix(): path for place in PLACES for path in place.rglob("*.py")}
    made = re.compile(r"\bre\.(?!escape)\w+\(")
    assert names == {name for name, path in modules.items() if made.search(path.read_text("utf-8"))}
    for path in modules.values():  # nothing takes another way to the module
        assert not re.search(r"^\s*(?:from re |import re as|import regex)", path.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("pattern", [*FOUND, *IN_TOML], ids=[pattern.where for pattern in (*FOUND, *IN_TOML)])
def test_a_pattern_is_linear(pattern: Pattern) -> None:
    counter = Counter(pattern)
    for attack in attacks(counter):
        for method in pattern.methods:
            assert not slow(counter, method, attack), (method, attack)


@pytest.mark.parametrize("text", [*BAD, *GOOD])
def test_slow_patterns_are_seen_and_others_are_not(text: str) -> None:
    for kind in (text, text.encode()):
        counter = Counter(Pattern("here", kind, 0, ()))
        method = {**BAD, **GOOD}[text]
        assert any(slow(counter, method, attack) for attack in attacks(counter)) == (text in BAD)


@pytest.mark.parametrize("pattern", [*FOUND, *IN_TOML], ids=[pattern.where for pattern in (*FOUND, *IN_TOML)])
def test_the_counter_matches_as_re_does(pattern: Pattern) -> None:
    counter = Counter(pattern)
    compiled = re.compile(pattern.text, pattern.flags)
    for head, pump, tail in islice(attacks(counter), 0, None, 7):
        text = head + pump * 3 + tail
        for method in ("match", "fullmatch", "search"):
            found = getattr(compiled, method)(text.encode("latin-1") if isinstance(pattern.text, bytes) else text)
            assert counter.search(method, text)[:1] == ([found.span()] if found else []), (method, text)
