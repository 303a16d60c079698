"""``pipeline check`` and templates: what only their rendering would show, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inis import ini_of
from pipeline.tools.command import main

VIEWS = """from pipeline import render, view
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
    "a mistake in the syntax": ({"page.html": "\n{% if x %}"}, "page.html, line 2", "cannot be used"),
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
    assert status == (0 if "block" in name else 1), said


@pytest.mark.parametrize("name", QUIET)
def test_a_template_without_one_is_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    status, said = check(QUIET[name], tmp_path, monkeypatch, capsys)
    assert status == 0 and "the template " not in said and "the block" not in said and "in a loop" not in said, said
