"""The security policy of Zope, which passes over objects without grants of their own.

``ZopeSecurityPolicy`` adapts an object and each of its parents to three maps of grants. Most objects have no
grants: they have no annotations, or none of these. Where the adapters are those that zope.securitypolicy registers,
and the annotations are attributes, the object itself tells so. Where anything else is registered, the adapters are
asked.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from zope.annotation.attribute import AttributeAnnotations
from zope.annotation.interfaces import IAnnotations
from zope.interface import providedBy
from zope.security.adapter import (
    LocatingTrustedAdapterFactory,
    LocatingUntrustedAdapterFactory,
    TrustedAdapterFactory,
)
from zope.security.proxy import removeSecurityProxy
from zope.securitypolicy.interfaces import IPrincipalPermissionMap, IPrincipalRoleMap, IRolePermissionMap
from zope.securitypolicy.principalpermission import AnnotationPrincipalPermissionManager
from zope.securitypolicy.principalrole import AnnotationPrincipalRoleManager
from zope.securitypolicy.rolepermission import AnnotationRolePermissionManager
from zope.securitypolicy.zopepolicy import ZopeSecurityPolicy

from pipeline.ztk.kinds import memory

MAPS: tuple[tuple[Any, type], ...] = (
    (IPrincipalPermissionMap, AnnotationPrincipalPermissionManager),
    (IPrincipalRoleMap, AnnotationPrincipalRoleManager),
    (IRolePermissionMap, AnnotationRolePermissionManager),
)
KEYS = tuple(manager.key for _, manager in MAPS)  # type: ignore[attr-defined]


class QuickPolicy(ZopeSecurityPolicy):  # type: ignore[misc]
    """``ZopeSecurityPolicy``, with the same decisions."""

    def __init__(self, *participations: Any) -> None:
        super().__init__(*participations)
        self._holders: dict[int, tuple[Any, Any]] = {}

    def invalidate_cache(self) -> None:
        super().invalidate_cache()
        self._holders = {}

    def holder(self, ob: Any) -> Any:
        """Return the object itself or the nearest of its parents that may have grants; None if none has."""
        holders = self._holders
        found = holders.get(id(ob))
        if found is not None:
            return found[0]
        known = memory()
        passed = []
        holder = ob
        while holder is not None:
            key = (providedBy(holder), type(holder))
            grants = known.answers.get(key) or known.put(grants_of, *key)
            if grants is Grants.OTHER or (grants is Grants.ANNOTATED and has_grants(holder)):
                break
            passed.append(holder)
            holder = removeSecurityProxy(getattr(holder, "__parent__", None))
            found = holders.get(id(holder))
            if found is not None:
                holder = found[0]
                break
        for one in passed:
            holders[id(one)] = (holder, one)  # which keeps the id from being used again
        return holder

    def cached_decision(self, parent: Any, principal: str, groups: Any, permission: str) -> Any:
        return super().cached_decision(self.holder(parent), principal, groups, permission)

    def cached_prinper(self, parent: Any, principal: str, groups: Any, permission: str) -> Any:
        return super().cached_prinper(self.holder(parent), principal, groups, permission)

    def cached_roles(self, parent: Any, permission: str) -> Any:
        return super().cached_roles(self.holder(parent), permission)

    def cached_principal_roles(self, parent: Any, principal: str) -> Any:
        return super().cached_principal_roles(self.holder(parent), principal)


def has_grants(ob: Any) -> bool:
    """Return whether the annotations of an object have grants."""
    annotations = getattr(ob, "__annotations__", None)
    return bool(annotations) and any(key in annotations for key in KEYS)  # type: ignore[operator]


class Grants(Enum):
    """Place of the grants of all objects that provide the same interfaces."""

    NONE = auto()
    """They cannot have grants."""
    ANNOTATED = auto()
    """Their grants are in their attribute ``__annotations__``."""
    OTHER = auto()
    """Adapters that are not Zope's tell of them."""


def grants_of(registry: Any, provided: Any, cls: type) -> Grants:
    """Find out which adapters tell of the grants of the objects of a class that provide something."""
    if hasattr(cls, "__conform__"):
        return Grants.OTHER
    lookup = registry.lookup1
    stored = False
    for wanted, manager in MAPS:
        factory = lookup(provided, wanted)
        if factory is not None:
            if not makes(factory, manager):
                return Grants.OTHER
            stored = True
        elif provided.isOrExtends(wanted):
            return Grants.OTHER
    if not stored:
        return Grants.NONE
    if makes(lookup(provided, IAnnotations), AttributeAnnotations) and not provided.isOrExtends(IAnnotations):
        return Grants.ANNOTATED
    return Grants.OTHER


_WRAPPERS = (LocatingTrustedAdapterFactory, TrustedAdapterFactory, LocatingUntrustedAdapterFactory)
"""Factories that ZCML puts around a factory that is trusted or that makes located objects."""


def makes(factory: Any, cls: type) -> bool:
    """Return whether a factory, which ZCML may have wrapped, makes instances of exactly this class."""
    while type(factory) in _WRAPPERS:
        factory = factory.factory
    return factory is cls
