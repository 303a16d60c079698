"""The policies that ship, and what a policy that breaks does not let through."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from ZODB.DB import DB
from zope.interface import implementer
from zope.interface.verify import verifyObject

from pipeline import Pipeline, Request, view
from pipeline.auth.policy import EVERYONE, LOGGED_IN, LocalGrants, LoggedIn, Marker
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.interfaces import PUBLIC, ISecurityPolicy


class Place:
    __parent__: Any = None
    __grants__: Any = None


def ask(principal: str | None, permission: str, context: Any, policy: Any = LocalGrants) -> bool:
    request = Request({})
    request.principal = principal
    answer: bool = policy().permits(request, permission, context)
    return answer


def test_parents_that_make_a_circle_have_an_end() -> None:
    """A visitor has moved a folder into its own subfolder: each page below it took a thread for ever."""

    class Folder:
        __name__ = "folder"
        __parent__: Any = None

        def __repr__(self) -> str:
            return "<the folder>"

    outer, inner = Folder(), Folder()
    outer.__parent__, inner.__parent__ = inner, outer
    with pytest.raises(ValueError, match="the parents of <the folder> make a circle at <the folder>"):
        ask("ada", "view", inner)
    with pytest.raises(ValueError, match="make a circle at <the folder>, so it has no URL"):
        Request({}).absolute_url(inner)


def test_the_policies_keep_their_contract() -> None:
    assert verifyObject(ISecurityPolicy, LoggedIn()) and verifyObject(ISecurityPolicy, LocalGrants())


def test_whoever_is_logged_in() -> None:
    assert ask("ann", "edit", None, LoggedIn) and not ask(None, "edit", None, LoggedIn)


def test_grants_hold_there_and_below() -> None:
    root, folder, note = Place(), Place(), Place()
    folder.__parent__, note.__parent__ = root, folder
    folder.__grants__ = {"ann": {"edit"}, LOGGED_IN: ["comment"], EVERYONE: ("look",)}
    assert ask("ann", "edit", note) and ask("ann", "edit", folder) and not ask("ann", "edit", root)
    assert not ask("ben", "edit", note) and ask("ben", "comment", note)
    assert not ask(None, "comment", note) and ask(None, "look", note)
    assert not ask("ann", "edit", None) and not ask("ann", "edit", object())


@pytest.mark.parametrize("name", [EVERYONE, LOGGED_IN])
def test_a_user_who_is_called_like_a_marker_is_that_user__S27(name: Marker, caplog: Any) -> None:
    root = Place()
    for text in (str(name), name.was):
        root.__grants__ = {"ann": {"edit"}, text: {"edit"}}
        assert ask(text, "edit", root) and not ask("ben", "edit", root) and not ask(None, "edit", root)
    assert f"replace the text by pipeline.auth.policy.{name}" in caplog.text, "as a site of 0.2 has stored it"
    root.__grants__ = {name: {"edit"}}
    assert ask("ann", "edit", root) and ask(name.was, "edit", root)
    assert ask(None, "edit", root) is (name is EVERYONE)


def test_a_stored_marker_is_the_marker_when_it_is_read__S27() -> None:
    db = DB(None)
    with db.transaction() as connection:
        connection.root()["grants"] = {EVERYONE: {"look"}, LOGGED_IN: {"edit"}, "everyone": {"none"}}
    db.cacheMinimize()  # or the same objects are there still
    with closing(db), db.transaction() as connection:
        grants = connection.root()["grants"]
        assert [grants[key] for key in (EVERYONE, LOGGED_IN, "everyone")] == [{"look"}, {"edit"}, {"none"}]


def test_a_grant_that_is_a_word_is_refused() -> None:
    """S2: "edit" is in "editor"."""
    root = Place()
    root.__grants__ = {"ann": "editor"}
    with pytest.raises(TypeError, match="has a str; give it a set"):
        ask("ann", "edit", root)


class Folder(dict[str, Any]):
    """What the views are for."""


def policy_that(answer: Any) -> Callable[[], Any]:
    @implementer(ISecurityPolicy)
    class Policy:
        def permits(self, request: Any, permission: str, context: Any) -> Any:
            return answer()

    return Policy


def raising() -> Any:
    raise ZeroDivisionError("the secret of the policy")


@pytest.mark.parametrize(
    ("answer", "status"),
    [(raising, 500), (lambda: None, 401), (lambda: "no", 401), (lambda: 1, 401), (lambda: True, 200)],
)
def test_what_is_not_permitted_is_refused(
    publish: Callable[..., Pipeline], call: Callable[..., Any], answer: Any, status: int
) -> None:
    """A policy that raises is an error page that leaks nothing; what is not True permits nothing."""

    @view(context=Folder, name="edit", permission="edit")
    def edit(context: Any, request: Any) -> str:
        return "the secret of the view"

    @view(context=Folder, name="open", methods=("GET", "POST"), permission=PUBLIC)
    def open(context: Any, request: Any) -> str:
        return "public"

    check = authenticate(check=lambda *_: None, policy=policy_that(answer))
    app = publish(edit, open, root=Folder(), outer=(errors(), check))
    found = call(app, "/edit")
    assert found.status == status and ("secret" in found.text) == (status == 200)
    assert call(app, "/open", "POST").text == "public"  # of which no policy is asked
