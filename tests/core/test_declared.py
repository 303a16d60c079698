"""Mistakes of people who write elements and watchers, each refused at load, with its neighbours that are right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from typing import Any

import pytest
from zope.interface import implementer

from asking import ask
from pipeline import Pipeline, Request, element
from pipeline.composition import Element, Offers
from pipeline.database.written import seen_by
from pipeline.declared import THINGS
from pipeline.elements.authenticate import authenticate
from pipeline.elements.causal import causal
from pipeline.elements.errors import errors
from pipeline.elements.session import session
from pipeline.elements.traverse import traverse
from pipeline.interfaces import ConfigurationError, Facts, ISecurityPolicy


@element
def end() -> Any:
    def end(request: Any, response: Any) -> None:
        response.plain("200 OK", "hello")

    return end


def mine(**declared: Any) -> Element:
    """An element with that declaration."""

    @element(**declared)
    def mine(next: Any) -> Offers:
        return Offers(next)

    return mine


@element
def forum(next: Any) -> Any:
    """An element of this module, which is not installed, and has almost the name of another."""
    return next


NAMES = [
    ("erors", "errors"),
    ("error", "errors"),
    ("travers", "traverse"),
    ("authentication", "authenticate"),
    ("databse", "database"),
    ("zdob", "zodb"),
    ("transactions", "transaction"),
    ("publishers", "publisher"),
]


@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize(("name", "meant"), NAMES)
def test_a_misspelt_name_in_a_declaration_is_refused(where: str, name: str, meant: str) -> None:
    wrong = f"element mine declares {where} = '{name}', and no element has that name. Did you mean '{meant}'"
    with pytest.raises(ConfigurationError, match=wrong):
        Pipeline(mine(**{where: {name: "why"}})(), end())


@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize(
    "name", [*sorted({meant for _, meant in NAMES}), *sorted(THINGS), "forum", "x", "their_cache"]
)
def test_a_name_of_an_element_that_may_stand_there_is_not(where: str, name: str) -> None:
    assert ask(Pipeline(mine(**{where: {name: "why"}})(), end())).status == 200


def test_the_handler_may_be_that_of_another_element() -> None:
    """An element that passes on what it was given has the handler of the one inside of it."""
    with pytest.raises(ConfigurationError, match="Did you mean 'errors'"):
        Pipeline(mine(inside={"erors": "why"})(), errors(), end())


def test_things_are_those_that_our_elements_provide() -> None:
    points = [
        one for one in entry_points(group="paste.filter_factory") if one.value.startswith("pipeline.elements.")
    ]
    ours = [point.load().contract for point in points]
    assert {thing for contract in ours for thing in contract.provides} == THINGS


def one(first: Any) -> None: ...


def two(first: Any, second: Any) -> None: ...


def two_and_more(first: Any, second: Any, third: Any = None) -> None: ...


def any_number(*all: Any) -> None: ...


@pytest.mark.parametrize("function", [one, lambda: None, len, 5])
def test_a_new_session_that_cannot_be_called_is_refused(function: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"mine declares new_session = .*with \(request, principal\)"):
        Pipeline(mine(new_session=function)(), end())


@pytest.mark.parametrize("function", [two, two_and_more, any_number, getattr, min])
def test_a_new_session_that_can_be_called_is_not(function: Callable[..., None]) -> None:
    assert ask(Pipeline(mine(new_session=function)(), end())).status == 200


def is_passed_on(next: Any) -> Any:
    def handler(request: Any, response: Any) -> None:
        next(request, response)

    return handler


def is_async(next: Any) -> Any:
    async def handler(request: Any, response: Any) -> None:
        next(request, response)

    return handler


def is_generator(next: Any) -> Any:
    def handler(request: Any, response: Any) -> Any:
        yield next(request, response)

    return handler


def is_async_generator(next: Any) -> Any:
    async def handler(request: Any, response: Any) -> Any:
        yield next(request, response)

    return handler


def is_object(next: Any) -> Any:
    class Handler:
        def __call__(self, request: Any, response: Any) -> None:
            next(request, response)

    return Handler()


def is_async_object(next: Any) -> Any:
    class Handler:
        async def __call__(self, request: Any, response: Any) -> None:
            next(request, response)

    return Handler()


def is_class(next: Any) -> Any:
    class Handler:
        def __call__(self, request: Any, response: Any) -> None:
            next(request, response)

    return Handler


def is_partial(next: Any) -> Any:
    def handler(flag: bool, request: Any, response: Any) -> None:
        next(request, response)

    return partial(handler, True)


def is_async_partial(next: Any) -> Any:
    async def handler(flag: bool, request: Any, response: Any) -> None:
        next(request, response)

    return partial(handler, True)


def takes_one(next: Any) -> Any:
    return lambda request: next(request, None)


def is_wsgi(next: Any) -> Any:
    return lambda environ, start_response: next(environ, start_response)


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        (is_async, "is async"),
        (is_generator, "has a yield"),
        (is_async_generator, "is async"),
        (is_async_object, "is async"),
        (is_class, r"cannot be called with \(request, response\)"),
        (is_async_partial, "is async"),
        (takes_one, r"cannot be called with \(request, response\)"),
    ],
)
def test_a_handler_that_would_answer_nothing_is_refused(factory: Any, why: str) -> None:
    """All but two of them were an empty 200."""
    with pytest.raises(ConfigurationError, match=f"the handler of the element {factory.__name__} {why}"):
        Pipeline(element(factory)(), end())


@pytest.mark.parametrize("factory", [is_passed_on, is_object, is_partial, is_wsgi])
def test_a_handler_that_answers_is_not(factory: Any) -> None:
    assert ask(Pipeline(element(factory)(), end())).body == b"hello\n"


async def find_later(*all: Any) -> Any:
    """An async function, where any function is expected."""


class FoundLater:
    """An object that is async when it is called."""

    async def __call__(self, *all: Any) -> Any: ...


@pytest.mark.parametrize("function", [find_later, partial(find_later, None), FoundLater()])
@pytest.mark.parametrize("option", ["root", "check"])
def test_an_async_function_is_refused_as_an_option(function: Any, option: str, tmp_path: Any) -> None:
    """An async root was a 404 for each page."""
    parts = {
        "root": lambda: Pipeline(traverse(root=function), end()),
        "check": lambda: Pipeline(errors(), authenticate(check=function), traverse(root=Request), end()),
    }
    with pytest.raises(ConfigurationError, match=f"option '{option}' of .* is async, and nothing awaits it"):
        parts[option]()


class Kept(Request):
    """The attributes of a database that tells no position."""


class Told(Request):
    """The attributes of a database whose processes are never behind."""

    def __positions__(self) -> dict[str, int]:
        return {}


@pytest.mark.parametrize("adds", [None, Kept])
def test_a_database_under_causal_that_tells_no_position_is_refused(adds: Any, tmp_path: Any) -> None:
    database = mine(provides=("database",), adds=adds)()
    assert ask(Pipeline(database, end())).status == 200
    with pytest.raises(ConfigurationError, match="mine declares adds = no class with __positions__"):
        Pipeline(causal(keys=str(tmp_path / "keys")), database, end())


def test_a_database_that_is_never_behind_is_not(tmp_path: Any) -> None:
    database = mine(provides=("database",), adds=Told)()
    assert ask(Pipeline(causal(keys=str(tmp_path / "keys")), database, end())).status == 200


@pytest.mark.parametrize("position", ["5", 5.0, None, True])
def test_a_position_that_is_no_number_is_named(position: Any) -> None:
    class Wrong(Request):
        def __positions__(self) -> Any:
            return {"store": position}

    request = Wrong.blank("/")
    request.written = {}  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=f"position {position!r} of the database 'store' is not an int"):
        seen_by(request)


@pytest.mark.parametrize("name", ["writes", "leftovers", "servers", "secrets", "packages", "hosts", "user_headers"])
def test_a_fact_that_is_a_text_in_the_place_of_several_is_refused(name: str) -> None:
    """Each letter was a file, a host or a package."""
    made = mine(facts=lambda **options: Facts(**{name: "a.b"}))()
    with pytest.raises(ConfigurationError, match=f"facts of mine .*{name} must be a tuple of texts, not .*'a.b'"):
        _ = made.facts
    assert getattr(mine(facts=lambda **options: Facts(**{name: ("a.b",)}))().facts, name) == ("a.b",)


def watching(maker: Callable[[Any, Any], Any]) -> Pipeline:
    """A pipeline with an element that watches one that offers ``authorize``."""

    @element
    def offering(next: Any) -> Offers:
        return Offers(next, authorize="theirs")

    return Pipeline(mine(between=maker)(), offering(), end())


@pytest.mark.parametrize("made", [None, "x", lambda request, response: None])
def test_a_watcher_that_does_not_return_offers_is_refused(made: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"test_declared\.py, line \d+ returned .*return what it was given"
    ):
        watching(lambda step, offers: made)


@pytest.mark.parametrize(
    ("maker", "kept"),
    [
        (lambda step, offers: Offers(offers.handler), "theirs"),
        (lambda step, offers: offers, "theirs"),
        (lambda step, offers: Offers(offers.handler, authorize="mine"), "mine"),
    ],
)
def test_a_watcher_cannot_lose_what_a_part_offers(maker: Any, kept: str) -> None:
    assert watching(maker).offered["authorize"] == kept


def test_a_watcher_of_one_argument_is_refused() -> None:
    with pytest.raises(TypeError, match="positional argument"):
        watching(lambda step: None)  # type: ignore[arg-type, misc]


class Policy:
    def permits(self, request: Any, permission: str, context: Any) -> bool:
        return True


@implementer(ISecurityPolicy)
class Misspelt:
    def permit(self, request: Any, permission: str, context: Any) -> bool:
        return True


@implementer(ISecurityPolicy)
class Short:
    def permits(self, request: Any, permission: str) -> bool:
        return True


@implementer(ISecurityPolicy)
class Whole(Policy):
    pass


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        (Policy, "does not provide ISecurityPolicy"),
        (Misspelt, "permits.* was not provided"),
        (Short, "doesn't allow enough arguments"),
    ],
)
def test_a_policy_that_cannot_be_asked_is_refused(policy: Any, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong):
        Pipeline(authenticate(check=two_and_more, policy=policy), end())


def test_a_policy_that_can_be_asked_is_not() -> None:
    assert ask(Pipeline(authenticate(check=two_and_more, policy=Whole), end())).status == 200


class AsgiApp:
    """An application of FastAPI, Starlette or Litestar."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


@pytest.mark.parametrize("app", [AsgiApp(), AsgiApp().__call__])
def test_an_asgi_app_is_refused(app: Any) -> None:
    with pytest.raises(ConfigurationError, match="is an ASGI app, and a pipeline takes a WSGI app"):
        Pipeline(errors(), app)


@pytest.mark.parametrize(
    ("data", "login", "is_refused"),
    [
        ("data", "data", True),
        ("browser", "pipeline_login", True),
        ("data", "pipeline_login", False),
    ],
)
def test_two_cookies_of_one_name_are_refused(data: str, login: str, is_refused: bool, tmp_path: Any) -> None:
    """The later one of an answer would hide the other, and the visitor would lose what it has."""
    keys = str(tmp_path / "keys")
    by = authenticate(by=("session",), keys=keys, realm="here", cookie=login)
    parts = errors(), session(keys=keys, cookie=data), by, end()
    if is_refused:
        with pytest.raises(ConfigurationError, match=f"declares cookie = '{data}', which .* has"):
            Pipeline(*parts)
    else:
        Pipeline(*parts)
