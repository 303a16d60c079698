"""The kinds of objects for traversal. Publishing is deny-by-default at every step (S1).

A step is taken through ``IPublishTraverse``, or through ``__getitem__`` of an object whose class has one;
attributes are never walked (S4). Text and sequences are not containers. Modules, classes, functions and the
other objects that a program consists of are not containers, and never a context either.
"""

from __future__ import annotations

import os
import sys
import types
import weakref
from collections.abc import Sequence

from webob.exc import HTTPNotFound
from zope.interface.interface import Element, Specification

from pipeline.interfaces import IPublishTraverse

_CODE = (
    type,
    Element,  # interfaces and what they declare
    Specification,
    super,
    types.ModuleType,
    types.UnionType,
    types.CodeType,
    types.CellType,
    types.FrameType,
    types.TracebackType,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types._GeneratorWrapper,  # type: ignore[attr-defined]  # what types.coroutine makes of a generator
    weakref.ProxyType,
    weakref.CallableProxyType,
    type(os.environ),
)
_CODE += tuple({(lambda: type(sys._getframe().f_locals))(), getattr(types, "LazyImportType", super)} - {dict})
"""The variables of a frame have a type of their own since Python 3.13, late imports since 3.15."""
_CODE_MODULES = frozenset(("_ctypes", "_frozen_importlib", "_frozen_importlib_external"))
_CODE_MODULES |= {"annotationlib", "ast", "ctypes", "importlib", "inspect", "typing"}
"""Modules of the standard library whose objects stand for code, such as ``typing.List[int]``."""

DENIED, LEAF, CONTAINER, TRAVERSER = range(4)

KINDS: dict[type, int] = {}
"""The kinds of the classes that traversal has met, without those that are DENIED."""


def kind_of(cls: type) -> int:
    """Return the kind of the objects of a class for traversal."""
    if _is_code(cls):
        return DENIED
    if IPublishTraverse.implementedBy(cls):
        return TRAVERSER
    if issubclass(cls, Sequence):  # text, list, tuple, PersistentList ...
        return LEAF
    # hasattr(cls, ...) would also find the attributes of a metaclass: the members of an Enum are not containers.
    steps = (vars(base)["__getitem__"] for base in cls.__mro__ if "__getitem__" in vars(base))
    return LEAF if next(steps, None) is None else CONTAINER


def known_kind(obj: object) -> int:
    """Return the kind of an object, and keep it for the next object of its class; 404 for code (S1)."""
    cls = type(obj)
    kind = KINDS.get(cls)
    if kind is None:
        kind = kind_of(cls)
        if kind == DENIED:
            raise HTTPNotFound("There is nothing at this address.")
        KINDS[cls] = kind
    return kind


def _is_code(cls: type) -> bool:
    """Return whether the objects of a class are parts of a program.

    These are, beside those listed, descriptors (functions, methods, properties ...), and objects that a class of
    the standard library makes callable (``partial``, ``itemgetter``, ``len``). Objects of other classes may be
    callable: a page template is.
    """
    if issubclass(cls, _CODE) or _top_module(cls) in _CODE_MODULES:
        return True
    if any("__get__" in vars(base) for base in cls.__mro__):
        return True
    makers = (base for base in cls.__mro__ if "__call__" in vars(base))
    maker = next(makers, None)
    return maker is not None and _top_module(maker) in sys.stdlib_module_names


def _top_module(cls: type) -> str:
    return cls.__module__.partition(".")[0]
