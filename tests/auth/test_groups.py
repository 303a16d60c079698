"""Groups of principals: who tells them, who is asked, and what they hold."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from webtest import TestApp
from zope.interface import implementer

from pipeline import Pipeline, view
from pipeline.auth.login import begin_session
from pipeline.auth.policy import EVERYONE, LOGGED_IN, Group, LocalGrants
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.interfaces import PUBLIC, IAuthentication
from pipeline.publisher import publisher
from pipeline.views import adapter

EDITORS = Group("editors")


class Folder(dict[str, Any]):
    __name__ = __parent__ = None
    __grants__: Any = None


class Club(Folder):
    """A folder with users of its own."""


class Guests(Folder):
    """A folder with users of its own, who are in no groups."""


@adapter(Guests, IAuthentication)
@implementer(IAuthentication)
class Names:
    def __init__(self, guests: Guests) -> None:
        self.guests = guests

    def identify(self, request: Any) -> str | None:
        return request.headers.get("X-Guest") or None

    def challenge(self, request: Any, error: Any) -> Any:
        return error


@adapter(Club, IAuthentication)
@implementer(IAuthentication)
class Members:
    def __init__(self, club: Club) -> None:
        self.club = club

    def identify(self, request: Any) -> str | None:
        return "member" if request.headers.get("X-Member") else None

    def groups(self, request: Any) -> list[str]:
        return ["editors"]

    def challenge(self, request: Any, error: Any) -> Any:
        return error


@view(context=Folder, name="edit", permission="edit")
def edit(context: Folder, request: Any) -> str:
    return f"{request.principal} {sorted(request.groups)}"


@view(context=Folder, name="enter", permission=PUBLIC)
def enter(context: Folder, request: Any, response: Any) -> str:
    claims = {"groups": request.GET.getall("group")} if "group" in request.GET else None
    begin_session(request, response, request.GET["who"], claims)
    return "in"


@pytest.fixture
def site(tmp_path: Path) -> Callable[..., tuple[Folder, TestApp]]:
    def site(**options: Any) -> tuple[Folder, TestApp]:
        root = Folder(club=Club(), guests=Guests())
        for name, folder in root.items():
            folder.__parent__, folder.__name__ = root, name
        given = {
            "by": ("session",),
            "keys": str(tmp_path / "keys"),
            "realm": "here",
            "policy": LocalGrants,
            **options,
        }
        walk = traverse(root=lambda: root)
        return root, TestApp(Pipeline(errors(), authenticate(**given), walk, publisher(scan=(__name__,))))

    return site


def enters(client: TestApp, who: str, *groups: str) -> TestApp:
    client.reset()
    client.get("/enter", {"who": who, **({"group": list(groups)} if groups else {})})
    return client


def test_a_claim_tells_the_groups(site: Any) -> None:
    root, client = site()
    root.__grants__ = {EDITORS: {"edit"}}
    assert enters(client, "ann", "editors", "staff").get("/edit").text == "ann ['editors', 'staff']"
    enters(client, "bob", "staff").get("/edit", status=403)
    enters(client, "bob").get("/edit", status=403)


@pytest.mark.parametrize("name", ["editors", "Group(name='editors')", "('editors',)", "EVERYONE", "LOGGED_IN"])
def test_no_user_is_a_group_by_its_name__S27(site: Any, name: str) -> None:
    root, client = site()
    root.__grants__ = {EDITORS: {"edit"}}
    enters(client, name).get("/edit", status=403)
    enters(client, name, "editor", "Editors").get("/edit", status=403)
    root.__grants__ = {"editors": {"edit"}}
    enters(client, "ann", "editors").get("/edit", status=403)


def test_the_option_is_asked_once_and_only_if_a_group_may_hold_it(site: Any) -> None:
    asked: list[str] = []
    told: list[str] = ["editors"]

    def groups(request: Any) -> list[str]:
        asked.append(request.principal)
        return told

    root, client = site(groups=groups)
    root.__grants__ = {"ann": {"edit"}, EDITORS: {"delete"}}
    enters(client, "bob", "editors").get("/edit", status=403)
    client.reset()
    client.get("/edit", status=401)
    assert asked == []
    root.__grants__ = {EDITORS: {"edit"}, Group("staff"): {"edit"}}
    assert enters(client, "bob").get("/edit").text == "bob ['editors']"
    assert asked == ["bob"]
    told.clear()
    client.get("/edit", status=403)  # a group that was left counts at once (R14)


def test_a_user_of_a_folder_has_no_claims_of_a_user_of_the_site__S27(site: Any) -> None:
    """One browser has logged in as ann of the site, and comes as a guest of the folder."""
    root, client = site(placeful=True)
    root.__grants__ = {EDITORS: {"edit"}, "guest": {"edit"}}
    enters(client, "ann", "editors")
    assert client.get("/guests/edit", headers={"X-Guest": "guest"}).text == "guest []"
    client.get("/guests/edit", headers={"X-Guest": "other"}, status=403)
    assert client.get("/guests/edit").text == "ann ['editors']", "the folder knows none of them"


def test_the_users_of_a_folder_have_groups_of_their_own(site: Any) -> None:
    root, client = site(groups=lambda request: ["staff"])
    root["club"].__grants__ = {EDITORS: {"edit"}}
    root.__grants__ = {Group("staff"): {"edit"}}
    client.get("/club/edit", headers={"X-Member": "1"}, status=401)  # not asked without the option placeful
    root, client = site(groups=lambda request: ["staff"], placeful=True)
    root["club"].__grants__ = {EDITORS: {"edit"}}
    assert client.get("/club/edit", headers={"X-Member": "1"}).text == "member ['editors']"
    enters(client, "ann").get("/club/edit", status=403)
    root.__grants__ = {Group("staff"): {"edit"}}
    assert client.get("/club/edit").text == "ann ['staff']"


@pytest.mark.parametrize("told", ["editors", [1], [None], 5])
def test_odd_groups_are_an_error(site: Any, told: Any) -> None:
    root, client = site(groups=lambda request: told)
    root.__grants__ = {EDITORS: {"edit"}}
    enters(client, "ann").get("/edit", status=500)


def test_a_group_is_stored_as_it_is() -> None:
    grants = {EDITORS: {"edit"}, EVERYONE: {"view"}, LOGGED_IN: {"add"}, "editors": {"no"}}
    assert pickle.loads(pickle.dumps(grants)) == grants
    assert Group("editors") in pickle.loads(pickle.dumps(grants))
