"""The kinds of objects: what a program consists of is never published (S1)."""

from __future__ import annotations

import ast
import contextvars
import ctypes
import functools
import importlib
import inspect
import io
import operator
import os
import string
import sys
import types
import typing
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zope.interface
from webob.exc import HTTPNotFound
from zope.interface import Interface, implementedBy

from pipeline.publishing.kinds import CONTAINER, DENIED, KINDS, LEAF, kind_of, known_kind

T = typing.TypeVar("T")
P = typing.ParamSpec("P")


class IFace(Interface):
    name = zope.interface.Attribute("A name.")

    def method(argument: str) -> None:
        """Do something."""


class Descriptor:
    """A descriptor of an application."""

    def __get__(self, obj: object, owner: type) -> str:
        return "secret"


class Klass:
    cached = functools.cached_property(lambda self: "secret")
    partial = functools.partialmethod(lambda self: "secret")
    single = functools.singledispatchmethod(lambda self: "secret")
    own = Descriptor()

    def method(self) -> str:
        return "secret"

    __slots__ = ("__dict__", "__weakref__", "slot")


class Partial(functools.partial):  # type: ignore[type-arg]
    """A subclass is code, too."""


def closed_over(value: Any) -> Callable[[], Any]:
    return lambda: value


ALIVE = Klass()
OBJECTS: dict[str, Any] = {
    "int | str": int | str,
    "list[int]": list[int],
    "typing.List": typing.List,  # noqa: UP006
    "typing.List[int]": typing.List[int],  # noqa: UP006
    "typing.Dict[str, int]": typing.Dict[str, int],  # noqa: UP006
    "typing.Union": typing.Union[int, str],  # noqa: UP007
    "typing.Optional": typing.Optional,
    "typing.Callable": typing.Callable[[int], str],
    "typing.Annotated": typing.Annotated[int, "secret"],
    "typing.Literal": typing.Literal["secret"],
    "typing.Tuple": typing.Tuple[int, ...],  # noqa: UP006
    "TypeVar": T,
    "ParamSpec": P,
    "ForwardRef": typing.ForwardRef("secret"),
    "NewType": typing.NewType("Secret", int),
    "cached_property": vars(Klass)["cached"],
    "partialmethod": vars(Klass)["partial"],
    "singledispatchmethod": vars(Klass)["single"],
    "a descriptor": vars(Klass)["own"],
    "slot": vars(Klass)["slot"],
    "partial": functools.partial(len),
    "subclass of partial": Partial(len),
    "cmp_to_key": functools.cmp_to_key(lambda a, b: 0),
    "singledispatch": functools.singledispatch(len),
    "itemgetter": operator.itemgetter("x"),
    "attrgetter": operator.attrgetter("__class__"),
    "methodcaller": operator.methodcaller("clear"),
    "weakref": weakref.ref(ALIVE),
    "weak method": weakref.WeakMethod(ALIVE.method),
    "proxy": weakref.proxy(ALIVE),
    "proxy of a function": weakref.proxy(closed_over),
    "cell": closed_over(1).__closure__[0],  # type: ignore[index]
    "super": super(Klass, ALIVE),
    "frame": inspect.currentframe(),
    "signature": inspect.signature(closed_over),
    "parameter": inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY),
    "syntax tree": ast.parse("1"),
    "loader": io.__spec__.loader,
    "spec": io.__spec__,
    "source loader": string.__spec__.loader,
    "library": ctypes.pythonapi,
    "function of a library": ctypes.pythonapi["Py_GetVersion"],
    "library loader": ctypes.cdll,
    "exit": exit,
    "environment": os.environ,
    "attribute of an interface": IFace["name"],
    "method of an interface": IFace["method"],
    "declaration": implementedBy(Klass),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_parts_of_a_program_are_never_published(name: str) -> None:
    assert kind_of(type(OBJECTS[name])) == DENIED


def test_no_type_of_the_interpreter_is_published() -> None:
    """All that the module ``types`` names, but for data."""
    data = {types.SimpleNamespace, types.MappingProxyType}
    data |= {getattr(types, name) for name in ("NoneType", "EllipsisType", "NotImplementedType")}
    named = {cls for cls in vars(types).values() if isinstance(cls, type) and cls.__module__ != "types"}
    allowed = {cls for cls in named - data if kind_of(cls) != DENIED}
    # PyCapsule is opaque, and has a name in Python 3.13 only.
    assert {cls.__name__ for cls in allowed} <= {"PyCapsule"}


UNSAFE = {"antigravity", "this", "idlelib", "turtledemo", "turtle", "tkinter", "lib2to3", "test"}
"""Modules that do something when they are imported."""


def _attributes_of_the_standard_library() -> Iterator[tuple[str, Any]]:
    for name in sorted(sys.stdlib_module_names - UNSAFE):
        if not name.startswith("_"):
            try:
                module = importlib.import_module(name)
            except ImportError:  # of another platform
                continue
            yield from ((f"{name}.{attribute}", value) for attribute, value in list(vars(module).items()))


def test_nothing_that_the_standard_library_calls_is_published() -> None:
    """Whatever can be called, in any module: functions, classes, and objects such as ``random.random``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        called = [(name, value) for name, value in _attributes_of_the_standard_library() if callable(value)]
    assert len(called) > 1000
    assert [name for name, value in called if kind_of(type(value)) != DENIED] == []


LEADS_TO_CODE = {
    *("__builtins__", "__closure__", "__code__", "__forward_code__", "__forward_module__", "__func__"),
    *("__globals__", "__loader__", "__owner__", "__self__", "__spec__", "__wrapped__", "ag_code", "ag_frame"),
    *("cell_contents", "cr_code", "cr_frame", "evaluate", "f_back", "f_code", "f_globals", "f_locals", "gi_code"),
    *("gi_frame", "tb_frame"),
}
"""Names of attributes from which a program can be reached."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_class_of_the_standard_library_that_leads_to_code_is_published() -> None:
    """Every class that exists when all modules are imported, also those that no module names."""
    list(_attributes_of_the_standard_library())
    found: set[type] = set()
    new = {object}
    while new:
        new = {cls for base in new for cls in type.__subclasses__(base)} - found
        found |= new
    library = [cls for cls in found if str(cls.__module__).partition(".")[0] in sys.stdlib_module_names]
    assert len(library) > 1000
    published = [
        cls
        for cls in library
        if not LEADS_TO_CODE.isdisjoint({name for base in cls.__mro__ for name in vars(base)})
        and kind_of(cls) != DENIED
    ]
    assert published == []


def test_the_variables_of_a_frame_are_never_published() -> None:
    """From Python 3.13 on they are not a dict."""
    variables = type(inspect.currentframe().f_locals)  # type: ignore[union-attr]
    assert kind_of(variables) == (CONTAINER if variables is dict else DENIED)


class Page:
    """An object of an application that can be called, as a page template is."""

    def __call__(self) -> str:
        return "page"


class Command(Page, typing.Generic[T]):
    """A class of an application with a base in ``typing``."""


class Acting(Callable):  # type: ignore[misc]
    """A class of an application that is called by its own method, whatever its base."""

    def __call__(self) -> str:
        return "acted"


class Stored(types.SimpleNamespace):
    """Content."""


@pytest.mark.parametrize("made", [Page, Command, Acting, Stored, types.SimpleNamespace, object])
def test_objects_of_an_application_are_published(made: Callable[[], Any]) -> None:
    assert kind_of(type(made())) == LEAF


def test_weak_dictionaries_are_containers() -> None:
    assert kind_of(weakref.WeakValueDictionary) == kind_of(types.MappingProxyType) == CONTAINER
    assert kind_of(contextvars.ContextVar) == LEAF


def test_what_is_denied_is_not_kept() -> None:
    with pytest.raises(HTTPNotFound):
        known_kind(len)
    assert type(len) not in KINDS and known_kind({}) == KINDS[dict] == CONTAINER
