"""The order contract: what is refused, with which reason, and which order is said to work."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import Pipeline
from pipeline.composition import Element
from pipeline.interfaces import ConfigurationError, OrderError
from pipeline.order import Contract, refuse_missing, refuse_wrong_order
from pipeline.publisher import publisher

DESIGNED = [
    *("log", "vhost", "shield", "retry", "zodb", "errors", "transaction", "forms", "authenticate", "traverse"),
    *("base", "compress", "coalesce"),
]
SHIPPED: dict[str, Element] = {
    name: getattr(import_module(f"pipeline.elements.{name}"), name)
    for name in (*DESIGNED, "sql", "events", "site", "sendfile")
    if find_spec(f"pipeline.elements.{name}")
}
DEFAULT_ORDER = [name for name in DESIGNED if name in SHIPPED]

OPTIONS: dict[str, dict[str, Any]] = {
    "zodb": {"uri": "memory://test_order"},
    "sql": {"url": "sqlite://"},
    "authenticate": {"check": lambda request, login, password: None},
}

CONSTRAINTS = [
    ("log", "vhost", "the address that was asked"),
    ("log", "retry", "each request is one line"),
    ("log", "database", "each request is one line"),
    ("log", "errors", "the answer that the visitor got"),
    ("vhost", "retry", "the path is rewritten once, not once per attempt"),
    ("vhost", "shield", "vhost knows if the visitor uses https"),
    ("shield", "retry", "the headers are put once"),
    ("shield", "errors", "an error page has secure headers"),
    ("retry", "database", "every attempt needs a fresh connection state"),
    ("retry", "errors", "lets a transient error pass while attempts remain"),
    ("database", "errors", "error views may read the database"),
    ("errors", "transaction", "a failed commit must reach an error view"),
    ("database", "transaction", "it commits what that connection changed, before the first byte"),
    ("errors", "forms", "a malformed form"),
    ("errors", "authenticate", "is answered like any other error"),
    ("forms", "authenticate", "the token of a session may be a field of the form"),
    ("forms", "traverse", "its limits hold before anything is looked up"),
    ("vhost", "traverse", "it says where traversal starts"),
    ("traverse", "base", "base requires 'context', which traverse provides"),
    ("compress", "coalesce", "blocks are joined before they are compressed"),
    ("authenticate", "traverse", "placeful authentication works by traversal hook"),
    ("errors", "base", "error page"),
    ("errors", "compress", "error page"),
    ("errors", "coalesce", "error page"),
    ("errors", "sendfile", "error page"),
    ("sendfile", "base", "a file that a filter changes is sent by the site"),
    ("sendfile", "compress", "the filters of the delivery are taken away"),
]
"""Outer, inner, and words of the reason; the table of the default order, with the rules of our own."""

FREE = {
    ("transaction", "forms"): "a malformed form raises, and aborts what there is, whoever is outer",
    ("base", "compress"): "base adds a filter and compress a transport, which comes after all filters",
}
"""Neighbours in the default order that may change places, and why nothing depends on it."""


def shipped(name: str) -> list[Element]:
    """The elements of that name, or that provide it."""
    return [element for element in SHIPPED.values() if element.contract.answers_to(name)]


def app(environ: Any, start_response: Any) -> Any:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"app"]


def configured(name: str) -> Element:
    return SHIPPED[name](**OPTIONS.get(name, {}))


def default() -> list[Element]:
    return [*map(configured, DEFAULT_ORDER), publisher()]


def test_the_default_order_is_accepted() -> None:
    assert [contract.name for contract in Pipeline(*default()).linked] == [*DEFAULT_ORDER, "publisher"]


@pytest.mark.parametrize(("outer", "inner", "reason"), CONSTRAINTS)
def test_a_constraint_holds_both_ways(outer: str, inner: str, reason: str) -> None:
    pairs = [(o, i) for o in shipped(outer) for i in shipped(inner)]
    if outer in DEFAULT_ORDER and inner in DEFAULT_ORDER:
        assert pairs
    for o, i in pairs:
        refuse_wrong_order([o.contract, i.contract])
        with pytest.raises(OrderError) as refused:
            refuse_wrong_order([i.contract, o.contract])
        said = str(refused.value)
        assert said.startswith(f"{o.name} must be outside {i.name}: ") and reason in said
        assert f"as written, outermost first: {i.name} {o.name}." in said
        assert said.endswith(f"An order that works: {o.name} {i.name}")


def passing(app: Any) -> Any:
    """A foreign middleware."""
    return lambda environ, start_response: app(environ, start_response)


ACROSS: dict[str, Callable[[Any, Any], Any]] = {
    "in one pipeline": lambda outer, inner: Pipeline(outer, passing, inner, app),
    "before a pipeline": lambda outer, inner: Pipeline(outer, passing, Pipeline(inner, app)),
    "before a pipeline, twice": lambda outer, inner: Pipeline(outer, passing, passing, Pipeline(inner, app)),
    "in the inner pipeline": lambda outer, inner: Pipeline(outer, Pipeline(passing, inner, app)),
    "before and in the inner pipeline": lambda outer, inner: Pipeline(
        outer, passing, Pipeline(passing, inner, app)
    ),
    "in the pipeline that an element is put around": lambda outer, inner: outer(Pipeline(passing, inner, app)),
    "between pipelines": lambda outer, inner: Pipeline(passing, Pipeline(outer, passing, Pipeline(inner, app))),
}
"""Pipelines of two elements with a foreign middleware between them, by the place of the middleware."""


@pytest.mark.parametrize("build", ACROSS.values(), ids=ACROSS)
@pytest.mark.parametrize(("outer", "inner", "reason"), CONSTRAINTS)
def test_a_constraint_holds_across_a_foreign_middleware(build: Any, outer: str, inner: str, reason: str) -> None:
    alone = [o for o in shipped(outer) if not list(configured(o.name).contract.unmet())]
    assert alone or outer == "traverse"
    for o, i in product(alone, shipped(inner)):
        with pytest.raises(OrderError, match=f"^{o.name} must be outside {i.name}: ") as refused:
            build(configured(i.name), configured(o.name))
        assert reason in str(refused.value)


@pytest.mark.parametrize("build", ACROSS.values(), ids=ACROSS)
def test_an_element_stands_once_also_across_a_foreign_middleware(build: Any) -> None:
    with pytest.raises(OrderError, match=r"^retry stands twice\. The order as written, .*: retry retry"):
        build(configured("retry"), configured("retry"))
    right = build(configured("retry"), configured("errors"))
    assert [contract.name for contract in right.all_contracts] == ["retry", "errors"]


@pytest.mark.parametrize("position", range(len(DEFAULT_ORDER)))
def test_neighbours_that_change_places(position: int) -> None:
    """Every pair of neighbours in the default order: refused with its reason, or documented as free."""
    parts = default()
    parts[position : position + 2] = reversed(parts[position : position + 2])
    outer, inner = [part.name for part in default()[position : position + 2]]
    if (outer, inner) in FREE:
        assert callable(Pipeline(*parts))
        return
    with pytest.raises(ConfigurationError) as refused:
        Pipeline(*parts)
    if inner == "publisher":
        assert str(refused.value) == "publisher is the end of a pipeline, so it must stand last"
    else:
        assert str(refused.value).startswith(f"{outer} must be outside {inner}: ")
        assert str(refused.value).endswith(f"An order that works: {' '.join(DEFAULT_ORDER)} publisher")


def test_the_free_pairs_are_neighbours_of_the_default_order() -> None:
    assert set(FREE) <= set(pairwise(DEFAULT_ORDER))


@settings(max_examples=60)
@given(st.permutations(DEFAULT_ORDER), st.integers(2, len(DEFAULT_ORDER)))
def test_the_order_that_is_said_to_work_does(names: list[str], length: int) -> None:
    chain = [configured(name).contract for name in names[:length]]
    try:
        refuse_wrong_order(chain)
    except OrderError as refused:
        [said] = re.findall("An order that works: (.*)", str(refused))
        assert sorted(said.split()) == sorted(names[:length])
        refuse_wrong_order([configured(name).contract for name in said.split()])


# The rules, on contracts made for it.

a = Contract("a", provides=("thing",))
b = Contract("b", requires=("thing",))
c = Contract("c", inside={"a": "c reads what a opened"})
d = Contract("d", outside={"thing": "d prepares the thing"})
free = Contract("free")

ACCEPTED: list[list[Contract]] = [
    [],
    [a],
    [free, a, b, c],
    [a, free, b],
    [d, a, b],
    [c],  # a is not here: nothing to be inside of
    [d],
    [a, Contract("a2", provides=("thing",)), b],
    [Contract("x", provides=("thing",)), b, a],  # what b requires is there already
]

REFUSED: list[tuple[list[Contract], str]] = [
    (
        [b, a],
        "a must be outside b: b requires 'thing', which a provides. The order as written, outermost first: "
        "b a. An order that works: a b",
    ),
    (
        [c, free, a],
        "a must be outside c: c reads what a opened. The order as written, outermost first: c free a. An "
        "order that works: free a c",
    ),
    (
        [a, d],
        "d must be outside a: d prepares the thing. The order as written, outermost first: a d. An order "
        "that works: d a",
    ),
    (
        [a, free, a],
        "a stands twice. The order as written, outermost first: a free a. Each element may stand there once",
    ),
    (
        [b, d, a],
        "a must be outside b: b requires 'thing', which a provides. The order as written, outermost first: "
        "b d a. An order that works: d a b",
    ),
]


@pytest.mark.parametrize("chain", ACCEPTED)
def test_an_order_that_is_accepted(chain: list[Contract]) -> None:
    refuse_wrong_order(chain)


@pytest.mark.parametrize(("chain", "message"), REFUSED)
def test_an_order_that_is_refused(chain: list[Contract], message: str) -> None:
    with pytest.raises(OrderError) as refused:
        refuse_wrong_order(chain)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "chain",
    [
        [Contract("x", inside={"y": "1"}), Contract("y", inside={"x": "2"})],
        [
            Contract("x", inside={"y": "1"}),
            Contract("y", inside={"z": "2"}),
            Contract("z", inside={"x": "3"}),
        ],
        [Contract("x", requires=("p",)), Contract("y", provides=("p",), inside={"x": "2"})],
    ],
)
def test_contracts_that_contradict_each_other_say_so(chain: list[Contract]) -> None:
    with pytest.raises(OrderError) as refused:
        refuse_wrong_order(chain)
    names = " ".join(contract.name for contract in chain)
    assert f"No order works: the contracts of {names} contradict one another" in str(refused.value)


MISSING: list[tuple[list[Contract], str]] = [
    ([b], "b requires 'thing', and no element outside it provides that"),
    ([free, b, free], "The order as written, outermost first: free b free"),
    ([b, a], "b requires 'thing'"),
    ([Contract("t", requires=("root",))], "Put an element that provides 'root' outside t, such as zodb, or give"),
    ([Contract("p", requires=("context",))], "provides 'context' outside p, such as traverse"),
]


@pytest.mark.parametrize(("chain", "message"), MISSING)
def test_a_missing_partner_is_named(chain: list[Contract], message: str) -> None:
    with pytest.raises(OrderError) as refused:
        refuse_missing(chain)
    assert message in str(refused.value)


def test_an_element_does_not_provide_for_itself() -> None:
    with pytest.raises(OrderError):
        refuse_missing([Contract("x", requires=("p",), provides=("p",))])


def test_a_requirement_is_met_by_an_option_of_its_own() -> None:
    traverse = SHIPPED["traverse"]
    refuse_missing([traverse(root=dict).contract])
    for without in (traverse, traverse(), traverse(max_segments=3), traverse(root=None)):
        with pytest.raises(OrderError, match="traverse requires 'root'"):
            refuse_missing([without.contract])


def test_a_root_of_its_own_is_not_taken_from_a_database_further_in() -> None:
    refuse_wrong_order([SHIPPED["traverse"](root=dict).contract, Contract("late", provides=("root",))])
    with pytest.raises(OrderError, match="late must be outside traverse: traverse requires 'root'"):
        refuse_wrong_order([SHIPPED["traverse"]().contract, Contract("late", provides=("root",))])


def test_a_pipeline_that_is_refused_was_not_started() -> None:
    """Order is checked before any factory is called: no database is opened, no module is scanned."""
    made: list[str] = []

    def factory(next: Any) -> Any:
        made.append("made")
        return next

    late = Element(factory, Contract("late", requires=("nothing",)))
    with pytest.raises(OrderError):
        Pipeline(late, app)
    assert made == []
