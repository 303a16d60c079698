"""The security policy decides as Zope's does, whatever changes between two decisions of one interaction (R14)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from persistent import Persistent
from zope.annotation.interfaces import IAttributeAnnotatable
from zope.component import getGlobalSiteManager
from zope.component.hooks import setSite
from zope.component.interfaces import ISite
from zope.interface import Interface, alsoProvides, implementer, noLongerProvides
from zope.interface.registry import Components
from zope.security.management import endInteraction, thread_local
from zope.securitypolicy.interfaces import (
    IPrincipalPermissionManager,
    IPrincipalPermissionMap,
    IPrincipalRoleManager,
    IPrincipalRoleMap,
    IRolePermissionManager,
)
from zope.securitypolicy.principalpermission import PrincipalPermissionManager
from zope.securitypolicy.principalrole import PrincipalRoleManager
from zope.securitypolicy.zopepolicy import ZopeSecurityPolicy

from pipeline.ztk.policy import QuickPolicy
from ztk.compared_site import make_db

GRANTS = {
    IPrincipalPermissionManager: (
        *("grantPermissionToPrincipal", "denyPermissionToPrincipal", "unsetPermissionForPrincipal"),
    ),
    IPrincipalRoleManager: ("assignRoleToPrincipal", "removeRoleFromPrincipal", "unsetRoleForPrincipal"),
    IRolePermissionManager: ("grantPermissionToRole", "denyPermissionToRole", "unsetPermissionFromRole"),
}
PERMISSIONS = ("test.View", "test.Edit")
PRINCIPALS = ("someone", "member")
ROLE = "test.Editor"
GROUPS = {"member": ("test.editor",)}


class IMarked(Interface):
    """Says that another adapter tells of the grants of an object."""


@implementer(IAttributeAnnotatable)
class Place(Persistent):
    """An object of a tree."""

    def __init__(self, parent: Any = None) -> None:
        self.__parent__: Any = parent


@implementer(ISite)
class Local:
    """A site with adapters of its own."""

    def __init__(self) -> None:
        self.components = Components("local", (getGlobalSiteManager(),))

    def getSiteManager(self) -> Components:
        return self.components


class Participation:
    """One who asks."""

    interaction = None

    def __init__(self, id: str) -> None:
        self.principal = type("Principal", (), {"id": id, "groups": GROUPS.get(id, ())})()


class Both:
    """The interaction of the thread: the policy of Zope and ours, which hear alike of grants."""

    def __init__(self, *ids: str) -> None:
        self.policies = [cls(*map(Participation, ids)) for cls in (ZopeSecurityPolicy, QuickPolicy)]
        thread_local.interaction = self

    def invalidate_cache(self) -> None:
        for policy in self.policies:
            policy.invalidate_cache()

    def check(self, permission: str, ob: Any) -> bool:
        theirs, ours = (policy.checkPermission(permission, ob) for policy in self.policies)
        assert ours == theirs
        return bool(ours)


@pytest.fixture(autouse=True, scope="module")
def configured() -> None:
    make_db().close()


@pytest.fixture(autouse=True)
def no_interaction() -> Any:
    yield
    thread_local.__dict__.pop("interaction", None)


DENYING, ASSIGNING = PrincipalPermissionManager(), PrincipalRoleManager()
"""Maps of grants that are not kept in annotations."""
for principal in PRINCIPALS:
    DENYING.denyPermissionToPrincipal("test.View", principal, check=False)
ASSIGNING.assignRoleToPrincipal(ROLE, "someone", check=False)


def denies(ob: Any) -> PrincipalPermissionManager:
    return DENYING


def assigns(ob: Any) -> PrincipalRoleManager:
    return ASSIGNING


NUMBER = st.integers(0, 7)


class Decisions(RuleBasedStateMachine):
    """A tree in which objects are moved, added, deleted and regranted, and adapters and sites come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: list[Any] = [*tree()]
        self.objects += [Place(self.objects[0]), self.objects[0].__parent__]
        self.local = Local()
        self.registered: list[tuple[Any, ...]] = []
        self.both = Both("someone")

    def at(self, number: int) -> Any:
        return self.objects[number % len(self.objects)]

    @rule(number=NUMBER, permission=st.sampled_from(PERMISSIONS))
    def check(self, number: int, permission: str) -> None:
        self.both.check(permission, self.at(number))

    @rule(permission=st.sampled_from(PERMISSIONS))
    def check_all(self, permission: str) -> None:
        for ob in reversed(self.objects):
            self.both.check(permission, ob)

    @rule(parent=NUMBER)
    def add(self, parent: int) -> None:
        self.objects.append(Place(self.at(parent)))

    @rule(number=NUMBER, to=NUMBER)
    def move(self, number: int, to: int) -> None:
        ob = self.at(number)
        place = above = self.at(to)
        while above is not None and above is not ob:
            above = above.__parent__
        if above is None:
            ob.__parent__ = place

    @rule(number=NUMBER)
    def delete(self, number: int) -> None:
        self.at(number).__parent__ = None

    @rule(
        number=NUMBER,
        wanted=st.sampled_from([*GRANTS]),
        act=st.integers(0, 2),
        permission=st.sampled_from(PERMISSIONS),
        principal=st.sampled_from([*PRINCIPALS, "test.editor"]),
    )
    def regrant(self, number: int, wanted: Any, act: int, permission: str, principal: str) -> None:
        arguments = {
            IPrincipalPermissionManager: (permission, principal),
            IPrincipalRoleManager: (ROLE, principal),
            IRolePermissionManager: (permission, ROLE),
        }
        getattr(wanted(self.at(number)), GRANTS[wanted][act])(*arguments[wanted])

    @rule(number=NUMBER, other=NUMBER)
    def replace_annotations(self, number: int, other: int) -> None:
        """Which no policy hears of."""
        found = vars(self.at(other)).get("__annotations__")
        if found is not None:
            self.at(number).__annotations__ = found

    @rule(number=NUMBER)
    def delete_annotations(self, number: int) -> None:
        vars(self.at(number)).pop("__annotations__", None)

    @rule(number=NUMBER)
    def mark(self, number: int) -> None:
        ob = self.at(number)
        if IMarked.providedBy(ob):
            noLongerProvides(ob, IMarked)
        else:
            alsoProvides(ob, IMarked)

    @rule(
        local=st.booleans(),
        wanted=st.sampled_from([(denies, IPrincipalPermissionMap), (assigns, IPrincipalRoleMap)]),
    )
    def register(self, local: bool, wanted: tuple[Any, Any]) -> None:
        components = self.local.components if local else getGlobalSiteManager()
        factory, provided = wanted
        if components.unregisterAdapter(factory, (IMarked,), provided):
            return
        components.registerAdapter(factory, (IMarked,), provided)
        self.registered.append((components, factory, provided))

    @rule(local=st.booleans())
    def enter(self, local: bool) -> None:
        setSite(self.local if local else None)

    @rule(ids=st.sampled_from([("someone",), ("member",), ("someone", "member")]))
    def begin_anew(self, ids: tuple[str, ...]) -> None:
        self.both = Both(*ids)

    def teardown(self) -> None:
        setSite(None)
        endInteraction()
        for components, factory, provided in self.registered:
            components.unregisterAdapter(factory, (IMarked,), provided)


def test_the_quick_policy_decides_as_that_of_zope() -> None:
    run_state_machine_as_test(
        Decisions, settings=settings(max_examples=150, stateful_step_count=40, deadline=None)
    )


def tree() -> tuple[Any, Any, Any]:
    """Return a folder that someone may read and edit, one that denies the reading, and an object in the first."""
    root = Place()
    folder, closed = Place(root), Place(root)
    ob = Place(folder)
    grants = IPrincipalPermissionManager(root)
    for permission in PERMISSIONS:
        grants.grantPermissionToPrincipal(permission, "someone")
    IPrincipalPermissionManager(closed).denyPermissionToPrincipal("test.View", "someone")
    return folder, closed, ob


def test_an_object_that_was_moved_is_asked_at_its_new_place() -> None:
    _, closed, ob = tree()
    both = Both("someone")
    assert both.check("test.Edit", ob)
    ob.__parent__ = closed
    assert not both.check("test.View", ob)


def test_a_folder_that_was_moved_takes_its_objects_along() -> None:
    folder, closed, ob = tree()
    both = Both("someone")
    assert both.check("test.Edit", ob)
    folder.__parent__ = closed
    assert not both.check("test.View", ob)


def test_a_role_at_the_new_place_grants_no_more_than_zope_does() -> None:
    """Zope's policy keeps the roles that a principal has at an object, for every permission."""
    root = Place()
    old, given = Place(root), Place(root)
    ob = Place(old)
    for permission in PERMISSIONS:
        IRolePermissionManager(root).grantPermissionToRole(permission, ROLE)
    IPrincipalRoleManager(given).assignRoleToPrincipal(ROLE, "someone")
    both = Both("someone")
    assert not both.check("test.Edit", ob)
    ob.__parent__ = given
    assert not both.check("test.View", ob)
    assert both.check("test.View", Place(given))


def test_roles_that_nobody_has_asked_for_are_not_kept() -> None:
    """The permission to read is granted to someone, so his roles are not looked at. Later they are, at the root."""
    folder, _, ob = tree()
    root = folder.__parent__
    both = Both("someone")
    assert both.check("test.View", ob)
    alsoProvides(root, IMarked)
    registry = getGlobalSiteManager()
    for factory, provided in ((denies, IPrincipalPermissionMap), (assigns, IPrincipalRoleMap)):
        registry.registerAdapter(factory, (IMarked,), provided)
    try:
        folder.__parent__ = None
        both.check("test.Edit", root)
        assert not both.check("test.Edit", ob)
    finally:
        for factory, provided in ((denies, IPrincipalPermissionMap), (assigns, IPrincipalRoleMap)):
            registry.unregisterAdapter(factory, (IMarked,), provided)


def test_annotations_that_were_replaced_are_read() -> None:
    folder, closed, ob = tree()
    both = Both("someone")
    assert both.check("test.Edit", ob)
    folder.__annotations__ = closed.__annotations__
    assert not both.check("test.View", ob)


def test_a_tree_that_has_no_root_is_an_error() -> None:
    """An object that was moved into itself: Zope's policy recurses, ours must not walk for ever."""
    ob = Place()
    ob.__parent__ = Place(ob)
    for policy in Both("someone").policies:
        with pytest.raises(RecursionError):
            policy.checkPermission("test.View", ob)


def test_a_grant_in_mid_request_counts_at_once() -> None:
    folder, ob = Place(), Place()
    ob.__parent__ = folder
    policy = thread_local.interaction = QuickPolicy(Participation("someone"))
    assert not policy.checkPermission("test.Edit", ob)
    IPrincipalPermissionManager(folder).grantPermissionToPrincipal("test.Edit", "someone")
    assert policy.checkPermission("test.Edit", ob)
