"""What objects are for traversal. Publishing is deny-by-default at every step (S1).

A step is taken through ``IPublishTraverse``, or through ``__getitem__`` of an object whose class has one;
attributes are never walked (S4). Text and sequences are no containers. Classes, modules, functions and the
like are no containers, and never a context either.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from functools import lru_cache, partial

from zope.interface.interface import InterfaceClass

from pipeline.interfaces import IPublishTraverse

_CODE = (
    type,
    InterfaceClass,
    types.GenericAlias,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    classmethod,
    staticmethod,
    property,
    partial,
    type(lru_cache(len)),
    types.CodeType,
    types.FrameType,
    types.TracebackType,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
)

DENIED, LEAF, CONTAINER, TRAVERSER = range(4)


def kind_of(cls: type) -> int:
    """What objects of a class are for traversal."""
    if issubclass(cls, _CODE):
        return DENIED
    if IPublishTraverse.implementedBy(cls):
        return TRAVERSER
    if issubclass(cls, Sequence):  # text, list, tuple, PersistentList ...
        return LEAF
    # Not hasattr(cls, ...), which also finds what a metaclass has: an Enum's members are no containers.
    steps = (vars(base)["__getitem__"] for base in cls.__mro__ if "__getitem__" in vars(base))
    return LEAF if next(steps, None) is None else CONTAINER


def is_container(obj: object) -> bool:
    """Whether a step may be taken to an item of the object."""
    return kind_of(type(obj)) == CONTAINER
