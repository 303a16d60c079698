"""Options that cannot be meant are refused when the site is loaded, for each element of this package."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, get_args

import pytest
from paste.deploy import loadapp
from webob import Request as WebObRequest

from pipeline.composition import Element, Pipeline, element
from pipeline.database.transactions import Manager
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.transaction import transaction
from pipeline.interfaces import ConfigurationError

ELEMENTS: dict[str, Any] = {}
for point in [*entry_points(group="paste.filter_factory"), *entry_points(group="paste.app_factory")]:
    if point.dist is not None and point.dist.name == "wsgi-pipeline":
        with suppress(ImportError):  # those of Zope
            ELEMENTS[point.name] = point.load()
NUMBERS = [
    (name, option, int if int in (annotation, *get_args(annotation)) else float)
    for name, one in sorted(ELEMENTS.items())
    if isinstance(one, Element)
    for option, annotation in one.signature.annotations.items()
    if any(kind in (annotation, *get_args(annotation)) for kind in (int, float))
]
NO_LIMIT = {("sql", "max_overflow"), ("sql", "pool_recycle")}
"""Options for which SQLAlchemy takes -1 for no limit."""
ZERO_IS_NOTHING = {
    "forms": "every form would be refused",
    "session": "browsers drop such a cookie at once",
    "causal": "browsers drop such a cookie at once",
    "traverse": "every path and every query would be refused",
}


def made(name: str, tmp_path: Path, **options: Any) -> None:
    """Call the factory of an element with an option, and with those that it needs."""
    keys = str(tmp_path / "keys")
    needed: dict[str, dict[str, Any]] = {
        "causal": {"keys": keys},
        "session": {"keys": keys},
        "authenticate": {"by": ("session",), "keys": keys, "check": lambda request, login, password: None},
        "cors": {"origins": ("https://www.example.com",)},
        "zodb": {"uri": f"memory://{tmp_path.name}"},
        "sql": {"url": f"sqlite:///{tmp_path}/site.db"},
    }
    one = ELEMENTS[name]
    one(**needed.get(name, {}), **options).link(*[lambda request, response: None] * one.signature.takes_next)


def test_elements_with_numbers_are_found() -> None:
    assert len(NUMBERS) > 40 and {"retry", "forms", "zodb", "sql", "keep"} <= {name for name, *_ in NUMBERS}


@pytest.mark.parametrize("value", [-1, -2, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("name", "option", "kind"), NUMBERS, ids=lambda one: getattr(one, "__name__", str(one)))
def test_a_number_that_is_none_is_refused(name: str, option: str, kind: type, value: float, tmp_path: Path) -> None:
    if kind is int and not math.isfinite(value):
        return  # an ini has no such int
    if value == -1 and (name, option) in NO_LIMIT:
        made(name, tmp_path, **{option: -1})
        return
    with pytest.raises(ConfigurationError, match=f"{option}|must last longer"):
        made(name, tmp_path, **{option: value})


@pytest.mark.parametrize(("name", "option", "kind"), [one for one in NUMBERS if one[0] in ZERO_IS_NOTHING])
def test_a_limit_that_lets_nothing_pass_is_refused(name: str, option: str, kind: type, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        made(name, tmp_path, **{option: 0})


@pytest.mark.parametrize(
    ("name", "option", "words"),
    [
        ("forms", "methods", "POST, PUT"),
        ("cors", "methods", "GET, POST"),
        ("cors", "headers", "X-One, X-Two"),
        ("cors", "expose", "X-One, X-Two"),
        ("compress", "types", "text/html, text/css"),
        ("compress", "types", "html css"),
        ("compress", "types", '"text/html"'),
    ],
)
def test_words_that_never_match_are_refused_in_an_ini(name: str, option: str, words: str, tmp_path: Path) -> None:
    needed = "origins = https://www.example.com\n" if name == "cors" else ""
    ini = tmp_path / "site.ini"
    ini.write_text(
        f"[pipeline:main]\npipeline = {name} end\n[filter:{name}]\nuse = egg:wsgi-pipeline#{name}\n"
        f"{needed}{option} = {words}\n[app:end]\nuse = egg:wsgi-pipeline#publisher\nscan = json\n"
    )
    with pytest.raises(ConfigurationError, match=option):
        loadapp(f"config:{ini}")


def end(environ: Any, start_response: Any) -> Any:
    """Answer with nothing."""
    start_response("200 OK", [])
    return [b""]


def no_groups() -> list[str]:
    """Return the groups of a user whom it does not ask for."""
    return []


class NoManager:
    """A class that is no transaction manager."""


@pytest.mark.parametrize(
    ("part", "count"),
    [
        (authenticate(check=lambda login, password: None), "3 arguments"),
        (authenticate(check=lambda request, login, password: None, groups=no_groups), "1 argument"),
        (transaction(veto=lambda request: True), "2 arguments"),
        (errors(reporter=print), ""),
        (errors(reporter=lambda error: None), "3 arguments"),
        (transaction(manager=NoManager), "no class that extends Manager"),
        (transaction(manager=Manager), ""),
    ],
)
def test_a_function_that_the_element_cannot_call_is_refused(part: Any, count: str) -> None:
    if not count:
        assert WebObRequest.blank("/").get_response(Pipeline(part, end)).status_int == 200
        return
    with pytest.raises(ConfigurationError, match=count):
        Pipeline(part, end)


def test_the_option_of_an_element_from_outside_is_asked_too() -> None:
    @element
    def greeting(next: Any, *, greet: Callable[[Any, str], str]) -> Any:
        return next

    with pytest.raises(ConfigurationError, match=r"option 'greet' of greeting is .* cannot be called with 2 arg"):
        Pipeline(greeting(greet=str.upper), end)
    Pipeline(greeting(greet=lambda request, name: name), end)
    Pipeline(greeting(greet=max), end)  # a builtin tells no signature


@pytest.mark.parametrize(
    "login", ["/@@login", "//evil.example", "https://login.example/", "a b", "é", "login?x=1", ""]
)
def test_an_address_of_the_login_page_that_is_no_path_is_refused(login: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="option 'login'"):
        made("authenticate", tmp_path, login=login)


@pytest.mark.parametrize("level", ["nonsense", "READ COMMITTED", '"SERIALIZABLE"'])
def test_a_level_of_isolation_that_the_database_has_not_is_refused(level: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="and sqlite has READ UNCOMMITTED, SERIALIZABLE"):
        made("sql", tmp_path, isolation_level=level)
    made("sql", tmp_path, isolation_level="read_uncommitted")


@pytest.mark.parametrize("login", ["@@login", "members/@@login", "log-in/", "++skin++blue/@@login"])
def test_the_path_of_a_login_page(login: str, tmp_path: Path) -> None:
    made("authenticate", tmp_path, login=login)


def test_two_elements_with_a_cookie_of_the_same_name_are_refused(tmp_path: Path) -> None:
    keys = str(tmp_path / "keys")
    login = {"by": ("session",), "keys": keys, "check": lambda request, login, password: None}
    with pytest.raises(ConfigurationError, match=r"authenticate declares cookie = 'shop', which session has"):
        Pipeline(ELEMENTS["session"](keys=keys, cookie="shop"), authenticate(**login, cookie="shop"), end)
    Pipeline(ELEMENTS["session"](keys=keys, cookie="shop"), authenticate(**login, cookie="shop_login"), end)
