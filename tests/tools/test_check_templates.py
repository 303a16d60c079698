"""``pipeline check`` and templates: what only their rendering would show, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inis import ini_of
from pipeline.tools.command import main

VIEWS = """from pipeline import render, view
class Note:
    title = "a"
    def is_public(self):
        return False
def root(request):
    return {}
@view()
def page(context, request):
    return render("page.html")
"""
LAYOUT = (
    "<title>{% block title %}{% endblock %}</title>{% block body %}{% block aside %}{% endblock %}{% endblock %}"
)
EXTENDS = '{% extends "layout.html" %}\n'
TOLD = {
    "a block that the parent lacks": (
        {"page.html": EXTENDS + "{% block boddy %}x{% endblock %}"},
        "line 2",
        "boddy",
    ),
    "a block that the parent of the parent lacks": (
        {"mid.html": EXTENDS, "page.html": '{% extends "mid.html" %}{% block main %}{% endblock %}'},
        "page.html, line 1",
        "They have aside, body, title.",
    ),
    "a block in which a loop counts": (
        {"page.html": "{% set n = 0 %}{% for x in y %}\n{% set n = n + x %}{% endfor %}"},
        "page.html, line 2",
        "n is set in a loop, and has its old value again",
        "namespace(n=0)",
    ),
    "a method as a condition": (
        {"page.html": "{% for note in notes %}\n{% if note and not note.is_public %}x{% endif %}{% endfor %}"},
        "page.html, line 2",
        "note.is_public is a method, which is always true",
        "Call it: note.is_public().",
    ),
    "a box that is always ticked": (
        {"page.html": '<input name="a" type="checkbox" checked="{{ note.title }}">'},
        "page.html, line 1",
        "such an attribute is on with any value",
    ),
    "a month for a minute": ({"page.html": "\n{{ a.strftime('%H:%m') }}"}, "page.html, line 2", "%M"),
    "a value without quotes": ({"page.html": "\n<a title='a' href={{ a }}>"}, "html, line 2", "quotes"),
    "a mistake in the syntax": ({"page.html": "\n{% if x %}"}, "page.html, line 2", "cannot be used"),
    "a tag of another language": (
        {"page.html": "\n{% csrf_token %}"},
        "page.html, line 2",
        "cannot be used",
        "Jinja has no such tag",
    ),
    "a filter that nobody has": ({"page.html": "{{ x|sized }}"}, "page.html, line 1", "No filter named 'sized'"),
    "a parent that is missing": ({"page.html": '{% extends "other.html" %}'}, "page.html", "other.html"),
    "Latin-1": ({"page.html": "Gr\xfc\xdfe".encode("latin-1")}, "page.html", "Save it as UTF-8."),
}
QUIET: dict[str, Any] = {
    "a block of the parent": {"page.html": EXTENDS + "{% block body %}x{% endblock %}"},
    "an inner block of the parent": {"page.html": EXTENDS + "{% block aside %}x{% endblock %}"},
    "a new block in one of the parent": {
        "page.html": EXTENDS + "{% block body %}{% block x %}{% endblock %}{% endblock %}"
    },
    "a loop that counts": {
        "page.html": "{% set n = namespace(a=0) %}{% for x in y %}{% set n.a = x + n.a %}{% endfor %}",
        "layout.html": "{% for x in y %}{% set z = x %}{% endfor %}",
    },
    "conditions": {
        "page.html": "{% if note.is_public() and note.title and x.is_public %}a{% endif %}"
        "{% if note.is_public is defined %}{{ 1 if note.is_public() else note.is_public }}{% endif %}"
    },
    "a query, boxes and dates": {
        "page.html": """<a href="/find?q={{ q }}" title='a={{ q }}'>{{ d.strftime("%H:%M %d.%m.%Y") }}</a>
        <input name="a" {{ "checked" if a }} value="{{ checked }}" aria-hidden="{{ a }}" data-open="{{ a }}">"""
    },
    "no parent": {"page.html": "{% block anything %}x{% endblock %}"},
    "a parent that is known when it is rendered": {"page.html": "{% extends layout %}{% block x %}{% endblock %}"},
    "a parent of the parent that is known when it is rendered": {
        "mid.html": "{% extends layout %}",
        "page.html": '{% extends "mid.html" %}{% block x %}{% endblock %}',
    },
    "a byte order mark": {"page.html": "\ufeffpage".encode()},
    "a file that is not a template": {"page.html": "page", "notes.txt": "{% if"},
}


def check(files: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> tuple[int, str]:
    module = f"site_of_templates_{abs(hash(tmp_path))}"
    (tmp_path / f"{module}.py").write_text(VIEWS)
    (tmp_path / "site.ini").write_text(ini_of(["errors", "traverse"], module, traverse=f"root = {module}:root"))
    for name, content in {"layout.html": LAYOUT, **files}.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.syspath_prepend(str(tmp_path))
    status = main(["check", str(tmp_path / "site.ini")])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("name", TOLD)
def test_a_mistake_is_told(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    files, *told = TOLD[name]
    status, said = check(files, tmp_path, monkeypatch, capsys)
    assert [text for text in told if text not in said] == [], said
    assert status == ("cannot be used" in said), said


@pytest.mark.parametrize("name", QUIET)
def test_a_template_without_one_is_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    status, said = check(QUIET[name], tmp_path, monkeypatch, capsys)
    assert status == 0 and ".html" not in said, said
