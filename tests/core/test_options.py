"""Options: every type from its string, and errors that say where, what is wrong and what would work."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Optional

import pytest
from paste.deploy import loadapp

from pipeline import element
from pipeline.interfaces import ConfigurationError, OptionError
from pipeline.options import Signature, resolve
from pipeline.strings import convert


@element
def thing(
    next: Any,
    *,
    text: str = "",
    size: int = 1,
    share: float = 0.5,
    wanted: bool = False,
    words: tuple[str, ...] = (),
    table: dict[str, str] | None = None,
    mode: Literal["fast", "slow"] = "fast",
    limit: int | None = None,
    hook: Callable[..., Any] | None = None,
) -> Any:
    """Takes an option of every type, and says which it got."""
    got = dict(locals())

    def thing(request: Any, response: Any) -> None:
        response.text = repr([got[option] for option in sorted(got) if option != "next"])

    thing.got = got  # type: ignore[attr-defined]
    return thing


@element
def demanding(next: Any, *, secret: str) -> Any:
    """Has an option that must be given."""
    return next


def nothing(environ: Any, start_response: Any) -> Any:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"nothing"]


def nothing_factory(global_conf: Any, **local_conf: Any) -> Any:
    return nothing


CONVERTED: list[tuple[Any, str, Any]] = [
    (str, " a b ", "a b"),
    (str, "", ""),
    (int, "12", 12),
    (int, " -3 ", -3),
    (float, "0.25", 0.25),
    (float, "3", 3.0),
    *[(bool, text, True) for text in ("true", "True", "YES", "on", "1")],
    *[(bool, text, False) for text in ("false", "no", "Off", "0")],
    (tuple[str, ...], "a  b\n  c", ("a", "b", "c")),
    (tuple[str, ...], "", ()),
    (tuple[int, ...], "1 2", (1, 2)),
    (dict[str, str], "a = 1\n\n  b=x = y", {"a": "1", "b": "x = y"}),
    (dict[str, str], "", {}),
    (Literal["a", "b"], "b", "b"),
    (int | None, "", None),
    (int | None, "7", 7),
    (Optional[int], "", None),  # noqa: UP045
    (int | str, "x", "x"),
    (str | None, "", None),
    (tuple[str, ...] | None, "a b", ("a", "b")),
    (Callable[..., Any], "os.path:join", os.path.join),
    (Callable[..., Any], "os.path.join", os.path.join),
    (Callable[..., Any] | None, "", None),
    (Any, "os:path", os.path),
    (object, "os:path.join", os.path.join),
]


@pytest.mark.parametrize(("annotation", "text", "value"), CONVERTED)
def test_a_string_becomes_what_the_annotation_asks_for(annotation: Any, text: str, value: Any) -> None:
    converted = convert(text, annotation)
    assert converted == value and type(converted) is type(value)


REFUSED: list[tuple[Any, str, str]] = [
    (int, "ten", "'ten' is not a whole number"),
    (int, "1.5", "'1.5' is not a whole number"),
    (int, "", "'' is not a whole number"),
    (float, "much", "'much' is not a number"),
    (bool, "maybe", "'maybe' is not one of true, yes, on, 1, false, no, off, 0"),
    (bool, "", "'' is not one of"),
    (Literal["a", "b"], "c", "'c' is not one of a, b"),
    (tuple[int, ...], "1 x", "'x' is not a whole number"),
    (dict[str, str], "a = 1\nb", "the line 'b' is not of the form 'key = value'"),
    (int | None, "x", "'x' is not a whole number"),
    (int | bool, "x", "'x' is not a whole number or 'x' is not one of"),
    (Callable[..., Any], "join", "'join' is not a dotted name such as package.module:attribute"),
    (Callable[..., Any], "no_such_module:x", "there is no module 'no_such_module'"),
    (Callable[..., Any], "os.no_such:x", "there is no module 'os.no_such'"),
    (Callable[..., Any], "os:nothing", "has no attribute 'nothing'"),
    (Callable[..., Any], ":x", "not a dotted name"),
    (Callable[..., Any], "os:", "not a dotted name"),
    (Callable[..., Any], "..os:path", "not a dotted name"),
    (complex, "1", "cannot be written in an ini"),
]


@pytest.mark.parametrize(("annotation", "text", "message"), REFUSED)
def test_a_bad_value_is_refused_and_says_what_would_do(annotation: Any, text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        convert(text, annotation)
    assert message in str(refused.value)


def test_a_module_that_fails_while_it_is_imported_is_no_missing_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_options_module.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        resolve("broken_options_module:x")


# From Python: names alone are checked.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sice": 1}, "thing has no option 'sice'; did you mean 'size'?"),
        ({"modes": 1}, "thing has no option 'modes'; did you mean 'mode'?"),
        ({"zzz": 1}, "thing has no option 'zzz'; it takes hook, limit, mode, share, size, table, text"),
    ],
)
def test_an_unknown_option_from_python_names_the_nearest(options: Any, message: str) -> None:
    with pytest.raises(OptionError) as refused:
        thing(**options)
    assert message in str(refused.value)


def test_a_missing_option_from_python() -> None:
    with pytest.raises(OptionError, match="demanding needs the option 'secret'"):
        demanding()(nothing)


def test_an_element_that_takes_no_options_says_so() -> None:
    @element
    def plain(next: Any) -> Any:
        return next

    with pytest.raises(OptionError, match="plain has no option 'x'; it takes no options"):
        plain(x=1)


def test_annotations_are_understood_whether_they_are_strings_or_not() -> None:
    source = "def el(next, *, n: int = 1, m: 'int | None' = None, o=3): return next"
    for head in ("", "from __future__ import annotations\n"):
        names: dict[str, Any] = {}
        exec(head + source, names)
        assert Signature.of(names["el"]).annotations == {"n": int, "m": int | None, "o": str}


# From an ini.


@pytest.fixture
def ini(tmp_path: Path) -> Callable[..., str]:
    """``ini(text)`` is the URI of an ini with this text, in which {here} is this module."""

    def ini(text: str, name: str = "site.ini") -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text).lstrip().replace("{here}", __name__))
        return f"config:{path}"

    return ini


SITE = """
[pipeline:main]
pipeline = thing nothing

[app:nothing]
paste.app_factory = {here}:nothing_factory

[filter:thing]
paste.filter_factory = {here}:thing
"""
LINE = 9
"""Where the first line after SITE stands."""


def got(uri: str, **variables: str) -> dict[str, Any]:
    app = loadapp(uri, global_conf=variables)
    return app.handler.got  # type: ignore[no-any-return]


def test_every_option_from_an_ini(ini: Callable[..., str]) -> None:
    made = got(
        ini(
            SITE + "text = a b\nsize = 7\nshare = 0.1\nwanted = yes\nwords = a\n  b c\nmode = slow\n"
            "table =\n  k = v\n  l = w\nlimit =\nhook = os.path:join\n"
        )
    )
    del made["next"]
    assert made == {
        "text": "a b",
        "size": 7,
        "share": 0.1,
        "wanted": True,
        "words": ("a", "b", "c"),
        "mode": "slow",
        "table": {"k": "v", "l": "w"},
        "limit": None,
        "hook": os.path.join,
    }


BAD_LINES: list[tuple[str, str]] = [
    ("sice = 3", "thing has no option 'sice'; did you mean 'size'?"),
    ("size = ten", "option 'size' of thing: 'ten' is not a whole number"),
    ("size: ten", "option 'size' of thing: 'ten' is not a whole number"),
    ("share = x", "option 'share' of thing: 'x' is not a number"),
    ("wanted = x", "option 'wanted' of thing: 'x' is not one of true, yes"),
    ("mode = x", "option 'mode' of thing: 'x' is not one of fast, slow"),
    ("table = x", "option 'table' of thing: the line 'x' is not of the form"),
    ("limit = x", "option 'limit' of thing: 'x' is not a whole number"),
    ("hook = x", "option 'hook' of thing: 'x' is not a dotted name"),
    ("hook = no_such_module:x", "option 'hook' of thing: there is no module 'no_such_module'"),
    ("hook = os:nothing", "has no attribute 'nothing'"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
@pytest.mark.parametrize(
    "before", ["", "text = a\n\n# size = 1\n", "words =\n  size\n  mode\n", "text = \f\n"]
)
def test_a_bad_line_of_an_ini_is_named(ini: Callable[..., str], line: str, message: str, before: str) -> None:
    uri = ini(SITE + before + line + "\n")
    with pytest.raises(OptionError) as refused:
        loadapp(uri)
    number = LINE + before.count("\n")
    assert str(refused.value).startswith(f"{uri[7:]}, section [filter:thing], line {number}: ")
    assert message in str(refused.value)


def test_a_missing_option_names_file_and_section(ini: Callable[..., str]) -> None:
    uri = ini(SITE.replace(":thing\n", ":demanding\n"))
    with pytest.raises(OptionError) as refused:
        loadapp(uri)
    place = f"{uri[7:]}, section [filter:thing], line 7"
    assert str(refused.value) == f"{place}: demanding needs the option 'secret'"


def test_an_option_swallowed_by_default_is_refused(ini: Callable[..., str]) -> None:
    """Paste Deploy drops a section's key that also stands in [DEFAULT], without a word."""
    uri = ini("[DEFAULT]\nsize = 3\n\n" + SITE.strip() + "\nsize = 7\n")
    with pytest.raises(OptionError) as refused:
        loadapp(uri)
    place, _, said = str(refused.value).partition(": ")
    assert place == f"{uri[7:]}, section [filter:thing], line 12"
    assert said.startswith("option 'size' of thing also stands in [DEFAULT]") and "'get size = size'" in said


def test_an_option_swallowed_by_a_variable_is_refused(ini: Callable[..., str]) -> None:
    """``paster serve site.ini size=3`` and ``loadapp(global_conf=...)``: the variable is a default."""
    uri = ini(SITE + "size = 7\n")
    assert got(uri)["size"] == 7
    with pytest.raises(OptionError, match=r"\[filter:thing\], line 9: option 'size' of thing also stands"):
        loadapp(uri, global_conf={"size": "3"})


def test_a_swallowed_option_is_seen_where_others_are_made_of_variables(ini: Callable[..., str]) -> None:
    uri = ini(SITE + "text = %(name)s\nsize = 7\n")
    assert got(uri, name="x")["text"] == "x"
    with pytest.raises(OptionError, match="line 10: option 'size' of thing also stands"):
        loadapp(uri, global_conf={"name": "x", "size": "3"})


def test_a_bad_value_made_of_a_variable_is_named(ini: Callable[..., str]) -> None:
    uri = ini(SITE + "text = a\nsize = %(number)s\n")
    with pytest.raises(OptionError, match=r"line 10: option 'size' of thing: 'x' is not a whole number"):
        loadapp(uri, global_conf={"number": "x"})


def test_a_default_that_no_section_repeats_disturbs_nobody(ini: Callable[..., str]) -> None:
    assert got(ini("[DEFAULT]\nsize = 3\ndebug = true\n\n" + SITE.strip() + "\ntext = a\n"))["size"] == 1


def test_get_takes_a_variable(ini: Callable[..., str]) -> None:
    uri = ini("[DEFAULT]\nsize = 3\nother = 4\n\n" + SITE.strip() + "\nget size = size\nget limit = other\n")
    made = got(uri)
    assert made["size"] == 3 and made["limit"] == 4
    assert got(uri, size="5")["size"] == 5


def test_get_of_a_bad_value_is_named(ini: Callable[..., str]) -> None:
    uri = ini("[DEFAULT]\nnumber = x\n\n" + SITE.strip() + "\nget size = number\n")
    with pytest.raises(OptionError, match=r"\[filter:thing\], line 12: option 'size' of thing: 'x' is not"):
        loadapp(uri)


def test_set_is_for_variables_and_is_refused_for_an_option(ini: Callable[..., str]) -> None:
    """``set size = 7`` changes the variable ``size`` for what is below; the element would not see it."""
    uri = ini(SITE + "set debug = true\n")
    assert got(uri)["size"] == 1
    with pytest.raises(OptionError) as refused:
        loadapp(ini(SITE + "text = a\nset size = 7\n"))
    assert str(refused.value).startswith(f"{uri[7:]}, section [filter:thing], line 10: ")
    assert "'set size'" in str(refused.value) and "'size = ...'" in str(refused.value)
    assert got(ini(SITE + "set size = 7\nget size = size\n"))["size"] == 7


# The ways in which an ini can lead to an element; each names the line that is wrong.

WAYS: dict[str, tuple[str, str, int]] = {
    "paste.filter_factory": (SITE + "sice = 3\n", "filter:thing", 9),
    "use call": (SITE.replace("paste.filter_factory = ", "use = call:") + "sice = 3\n", "filter:thing", 9),
    "use of another section": (
        SITE.replace("pipeline = thing", "pipeline = small") + "\n[filter:small]\nuse = thing\nsice = 3\n",
        "filter:small",
        12,
    ),
    "in the section that is used": (
        SITE.replace("pipeline = thing", "pipeline = small") + "sice = 3\n\n[filter:small]\nuse = thing\n",
        "filter:thing",
        9,
    ),
    "filter-app": (
        """
        [filter-app:main]
        next = nothing
        paste.filter_factory = {here}:thing
        sice = 3

        [app:nothing]
        paste.app_factory = {here}:nothing_factory
        """,
        "filter-app:main",
        4,
    ),
    "filter-app with use": (
        """
        [filter-app:main]
        next = nothing
        use = thing
        sice = 3

        [filter:thing]
        paste.filter_factory = {here}:thing

        [app:nothing]
        paste.app_factory = {here}:nothing_factory
        """,
        "filter-app:main",
        4,
    ),
    "filter-with": (
        """
        [app:main]
        paste.app_factory = {here}:nothing_factory
        filter-with = thing

        [filter:thing]
        paste.filter_factory = {here}:thing
        sice = 3
        """,
        "filter:thing",
        7,
    ),
    "filter-with of a filter": (
        """
        [pipeline:main]
        pipeline = plain nothing

        [filter:plain]
        paste.filter_factory = {here}:other
        filter-with = thing

        [filter:thing]
        paste.filter_factory = {here}:thing
        sice = 3

        [app:nothing]
        paste.app_factory = {here}:nothing_factory
        """,
        "filter:thing",
        10,
    ),
    "the app itself": (
        """
        [app:main]
        use = egg:wsgi-pipeline#publisher

        sice = 3
        """,
        "app:main",
        4,
    ),
    "a composite": (
        """
        [composite:main]
        use = egg:wsgi-pipeline#switch
        sice = 3
        default = other

        [app:other]
        paste.app_factory = {here}:nothing_factory
        """,
        "composite:main",
        3,
    ),
}


@element
def other(next: Any) -> Any:
    return next


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_an_element_names_the_line(ini: Callable[..., str], way: str) -> None:
    text, section, line = WAYS[way]
    uri = ini(text)
    with pytest.raises(OptionError) as refused:
        loadapp(uri)
    assert str(refused.value).startswith(f"{uri[7:]}, section [{section}], line {line}: ")
    assert "has no option 'sice'" in str(refused.value)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_an_element_loads_without_the_bad_line(ini: Callable[..., str], way: str) -> None:
    assert callable(loadapp(ini(WAYS[way][0].replace("sice = 3", ""))))


OTHER_INI = "[filter:small]\npaste.filter_factory = {here}:thing\n\nsize = %s\n"


def test_a_filter_of_another_ini(ini: Callable[..., str]) -> None:
    ini(OTHER_INI % 4, "other.ini")
    main = SITE.replace("paste.filter_factory = {here}:thing", "use = config:other.ini#small")
    assert got(ini(main + "limit = 3\n"))["size"] == 4
    assert got(ini(main + "size = 5\n"))["size"] == 5


def test_a_bad_value_in_another_ini_is_named_there(ini: Callable[..., str]) -> None:
    other = ini(OTHER_INI % "x", "other.ini")
    main = ini(SITE.replace("paste.filter_factory = {here}:thing", "use = config:other.ini#small"))
    with pytest.raises(OptionError) as refused:
        loadapp(main)
    assert f"{other[7:]}, section [small], line 4: " in str(refused.value).replace("filter:", "")
    assert "'x' is not a whole number" in str(refused.value)


def test_a_bad_value_beside_the_use_of_another_ini(ini: Callable[..., str]) -> None:
    ini(OTHER_INI % 4, "other.ini")
    main = ini(SITE.replace("paste.filter_factory = {here}:thing", "use = config:other.ini#small\nlimit = x"))
    with pytest.raises(OptionError, match=r"site.ini, section \[filter:thing\], line 9: .* is not a whole"):
        loadapp(main)


def test_a_pipeline_of_another_ini(ini: Callable[..., str]) -> None:
    other = ini(SITE + "size = x\n", "other.ini")
    main = ini("[app:main]\nuse = config:other.ini\n")
    with pytest.raises(OptionError) as refused:
        loadapp(main)
    assert str(refused.value).startswith(f"{other[7:]}, section [filter:thing], line 9: ")


def test_a_refusal_by_the_factory_itself_names_the_section(ini: Callable[..., str]) -> None:
    text = SITE + "\n[filter:picky]\npaste.filter_factory = {here}:picky\nsize = 0\n"
    uri = ini(text.replace("thing nothing", "picky nothing"))
    with pytest.raises(ConfigurationError) as refused:
        loadapp(uri)
    assert str(refused.value) == f"{uri[7:]}, section [filter:picky], line 10: size is at least 1"


@element
def picky(next: Any, *, size: int = 1) -> Any:
    if size < 1:
        raise ConfigurationError("size is at least 1")
    return next


def test_only_the_ends_of_lines_end_a_line(ini: Callable[..., str]) -> None:
    """What splitlines() takes for one would make keys of what is a value."""
    uri = ini(SITE + "text = a\u2028size = 3\x1cmode = x\n")
    assert got(uri)["text"] == "a\u2028size = 3\x1cmode = x"


def test_what_looks_like_another_ini_and_is_none_is_left_alone(ini: Callable[..., str]) -> None:
    ini("this is no ini", "notes.txt")
    uri = ini(SITE + "# as in config:site.ini\ntext = config:notes.txt config:nowhere.ini config:site.ini\n")
    assert got(uri)["text"].startswith("config:notes.txt")


def test_a_variable_set_for_what_is_below_swallows_nothing(ini: Callable[..., str]) -> None:
    """Paste Deploy drops a key that stands in [DEFAULT], not one that a composite has set."""
    uri = ini(
        """
        [composite:main]
        use = egg:wsgi-pipeline#switch
        set size = 3
        default = site

        [pipeline:site]
        pipeline = thing nothing

        [app:nothing]
        paste.app_factory = {here}:nothing_factory

        [filter:thing]
        paste.filter_factory = {here}:thing
        size = 7
        """
    )
    assert loadapp(uri).default.handler.got["size"] == 7
