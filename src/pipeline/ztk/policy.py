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
from zope.component import getSiteManager
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
        self._kinds: dict[Any, Any] = {}

    def invalidate_cache(self) -> None:
        super().invalidate_cache()
        self._holders = {}
        self._kinds = {}

    def holder(self, ob: Any) -> Any:
        """Return the object itself or the nearest of its parents that may have grants; None if none has."""
        found = self._holders.get(id(ob))
        if found is None:
            holder = ob
            while holder is not None and self.has_no_grants(holder):
                holder = removeSecurityProxy(getattr(holder, "__parent__", None))
            found = self._holders[id(ob)] = (holder, ob)  # which keeps the id from being used again
        return found[0]

    def has_no_grants(self, ob: Any) -> bool:
        """Return whether no map of grants says anything of an object, as far as the object itself can tell."""
        provided = providedBy(ob)
        kind = self._kinds.get(provided)
        if kind is None:
            kind = self._kinds[provided] = kind_of(provided)
        if kind is Kind.OTHER or hasattr(type(ob), "__conform__"):
            return False
        annotations = None if kind is Kind.WITHOUT else getattr(ob, "__annotations__", None)
        return not annotations or not any(key in annotations for key in KEYS)

    def cached_prinper(self, parent: Any, principal: str, groups: Any, permission: str) -> Any:
        return super().cached_prinper(self.holder(parent), principal, groups, permission)

    def cached_roles(self, parent: Any, permission: str) -> Any:
        return super().cached_roles(self.holder(parent), permission)

    def cached_principal_roles(self, parent: Any, principal: str) -> Any:
        return super().cached_principal_roles(self.holder(parent), principal)


class Kind(Enum):
    """Kind of all objects that provide the same interfaces."""

    WITHOUT = auto()
    """They cannot have grants."""
    ANNOTATED = auto()
    """Their grants are in their attribute ``__annotations__``."""
    OTHER = auto()
    """Adapters that are not Zope's tell of them."""


def kind_of(provided: Any) -> Kind:
    """Find out which adapters tell of the grants of objects that provide something."""
    lookup = getSiteManager().adapters.lookup1
    stored = False
    for wanted, manager in MAPS:
        factory = lookup(provided, wanted)
        if factory is not None:
            if not makes(factory, manager):
                return Kind.OTHER
            stored = True
        elif provided.isOrExtends(wanted):
            return Kind.OTHER
    if not stored:
        return Kind.WITHOUT
    if makes(lookup(provided, IAnnotations), AttributeAnnotations) and not provided.isOrExtends(IAnnotations):
        return Kind.ANNOTATED
    return Kind.OTHER


_WRAPPERS = (LocatingTrustedAdapterFactory, TrustedAdapterFactory, LocatingUntrustedAdapterFactory)
"""What ZCML puts around a factory that is trusted or that gets a location."""


def makes(factory: Any, cls: type) -> bool:
    """Return whether a factory, which ZCML may have wrapped, makes instances of exactly this class."""
    while type(factory) in _WRAPPERS:
        factory = factory.factory
    return factory is cls
