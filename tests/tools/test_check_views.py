"""``pipeline check`` of views that are lost without an error, and of files that are not what they seem."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from zope.interface import Interface, implementedBy

from pipeline.telling.row import Row
from pipeline.tools.command import main

INI = """\
[pipeline:main]
pipeline = errors forms traverse publisher

[filter:errors]
use = egg:wsgi-pipeline#errors

[filter:forms]
use = egg:wsgi-pipeline#forms

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = MODULE:Root

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = MODULE
"""
BEGIN = """\
import functools
from pipeline import view

class Root(dict):
    pass

def lossy(function):
    def inner(*args, **kw):
        return function(*args, **kw)
    return inner

def careful(function):
    @functools.wraps(function)
    def inner(*args, **kw):
        return function(*args, **kw)
    return inner

@view(context=Root, name="other")
def other(context, request):
    return "other"
"""
LOST: dict[str, tuple[str, list[str]]] = {
    "a path in place of a class": (
        '@view("/hello")\ndef hello(context, request):\n    return "x"\n',
        ["@view stands with '/hello' as the class of its objects; write @view() or @view(name=...)"],
    ),
    "a bare @view": ('@view\ndef hello(context, request):\n    return "x"\n', ["@view stands bare on "]),
    "a method": (
        "class More:\n    @view(name='hello')\n    def hello(self, request):\n        return 'x'\n",
        ["no publisher has the view More.hello (hello): it is a method: a view is a function", "LINE 23"],
    ),
    "two functions of one name": (
        "@view(context=Root)\ndef page(context, request):\n    return 'x'\n\n"
        "@view(context=Root, name='b')\ndef page(context, request):\n    return 'y'\n",
        ["no publisher has the view page (a default view): line 26 has another page, which takes", "LINE 22"],
    ),
    "a decorator below that forgets the name": (
        "@view(context=Root)\n@lossy\ndef hello(context, request, name: str):\n    return name\n",
        ["no publisher has the view hello (a default view): another decorator beside @view", "use functools.wraps"],
    ),
    "a decorator above that forgets the view": (
        "@lossy\n@view(context=Root)\ndef hello(context, request):\n    return 'x'\n",
        ["no publisher has the view hello (a default view): another decorator beside @view"],
    ),
}
FINE = {
    "a decorator that keeps the name": "@view(context=Root)\n@careful\ndef hello(context, request):\n    pass\n",
    "the same above": "@careful\n@view(context=Root)\ndef hello(context, request):\n    return 'x'\n",
    "two names of one view": "@view(context=Root)\n@view(context=Root, name='b')\n"
    "def hello(context, request):\n    return 'x'\n",
    "a class": "@view(context=Root)\nclass Hello:\n    def __init__(self, context, request):\n        pass\n"
    "    def __call__(self):\n        return 'x'\n",
}
NUMBERS = count()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in {name for name in sys.modules if name.startswith("checked_")} - before:
        del sys.modules[name]


def checked(place: Path, code: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    module = f"checked_{next(NUMBERS)}"
    (place / f"{module}.py").write_text(BEGIN + code)
    (place / "site.ini").write_text(INI.replace("MODULE", module))
    status = main(["check", "site.ini"])
    return status, " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", LOST)
def test_a_view_that_is_lost_is_named(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, words = LOST[name]
    _, said = checked(place, code, capsys)
    for word in words:
        assert word.replace("LINE", "line") in said, said


@pytest.mark.parametrize("name", FINE)
def test_right_code_is_quiet(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = checked(place, FINE[name], capsys)
    assert status == 0 and "no publisher has" not in said, said


def test_an_option_that_is_indented(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "site.ini").write_text(INI.replace("\nroot = MODULE:Root", "\n  root = MODULE:Root"))
    assert main(["check", "site.ini"]) == 1
    said = capsys.readouterr().out
    assert "'root = MODULE:Root' is indented, and so belongs to the value of use above it" in said
    assert "section [filter:traverse], line 12\n" in said


def test_a_package_without_egg_in_front(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "site.ini").write_text("[composite:main]\nuse = Paste#urlmap\n/ = site\n")
    assert main(["check", "site.ini"]) == 1
    assert "[app:Paste#urlmap] is missing; did you mean egg:Paste#urlmap?" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("bytes_", "said"),
    [
        (
            b"\xef\xbb\xbf" + INI.encode(),
            "the file begins with a byte order mark: save it as UTF-8 without one (BOM)",
        ),
        (INI.encode().replace(b"#errors\n", b"#errors\n# gr\xfc\xdfe\n"), "a file is not UTF-8: save it as that"),
    ],
)
def test_an_ini_of_another_encoding(
    bytes_: bytes, said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "site.ini").write_bytes(bytes_)
    assert main(["check", "site.ini"]) == 1
    told = capsys.readouterr().out
    line = next(number for number, line in enumerate(bytes_.splitlines(), 1) if not line.isascii())
    assert said in told and f"line {line}\n" in told


@pytest.mark.parametrize(
    ("kind", "wanted", "is_for"),
    [
        (implementedBy(dict), None, True),
        (implementedBy(dict), implementedBy(dict), True),
        (implementedBy(dict), implementedBy(list), False),
        (Interface, implementedBy(list), True),
        (None, implementedBy(list), True),
    ],
)
def test_a_view_for_all_objects_is_one_for_each(kind: object, wanted: object, is_for: bool) -> None:
    assert Row(kind, "", "", "", "", "").is_for(wanted) is is_for


@pytest.mark.parametrize(
    ("section", "more", "is_told"),
    [
        ("filter:compress", "", True),
        ("filter:compress", "[app:other]\nuse = config:site.ini#compress\n", False),
        ("app:compress", "", False),
    ],
)
def test_a_filter_of_another_ini_that_no_pipeline_names(
    section: str, more: str, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An app of it may be served by itself."""
    (tmp_path / "other_views.py").write_text(BEGIN)
    text = INI.replace("MODULE", "other_views")
    (tmp_path / "site.ini").write_text(f"{text}\n[{section}]\nuse = egg:wsgi-pipeline#compress\n")
    (tmp_path / "development.ini").write_text(f"[app:main]\nuse = config:site.ini\n\n{more}")
    main(["check", str(tmp_path / "development.ini")])
    said = capsys.readouterr().out
    assert (f"no pipeline uses [{section}]" in said) is is_told, said
    assert ("site.ini, section [filter:compress], line " in said) is is_told
