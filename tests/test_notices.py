"""Notices of debug mode: what is lost without an error is told, and right code is told nothing of."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.list import PersistentList
from persistent.mapping import PersistentMapping

from around_a_view import end
from asking import ask
from pipeline import Pipeline, Request, Response
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from pipeline.explaining.remedies import remedy_of


class Plain:
    """A class of the site that is not persistent."""

    def __init__(self) -> None:
        self.value = 1


@dataclass
class Line:
    number: int = 1
    tags: list[str] = field(default_factory=list)


class Page(Persistent):
    def __init__(self, shared: list[str] = []) -> None:  # noqa: B006  # the mistake
        self.tags: Any = ["a"]
        self.names: Any = {"a": 1}
        self.seen: Any = {"a", "b", "c"}
        self.plain: Any = Plain()
        self.shared: Any = shared
        self.text: Any = "a"
        self.lines: Any = PersistentList([Line()])
        self.tree: Any = OOBTree({"a": ["x"], "b": ["y"]})
        self.mapping: Any = PersistentMapping({"a": ["x"]})
        self.other: Any = None


    @cached_property
    def first(self) -> str:
        return str(self.tags[0])

    @property
    def last(self) -> str:
        return str(self.tags[-1])


def root(database: Any) -> Any:
    return database.setdefault("page", Page())


def rebind(page: Page) -> None:
    page.tags = [*page.tags, "b"]


def told(page: Page) -> None:
    page.tags.append("b")
    page._p_changed = True


def volatile(page: Page) -> None:
    page._v_cache = page.text


def linked(page: Page) -> None:
    page.other = Page()
    page.other.tags.append("b")


LOST: dict[str, tuple[Any, str]] = {
    "a list": (lambda page: page.tags.append("b"), "tags"),
    "a dict": (lambda page: page.names.update(b=2), "names"),
    "a set": (lambda page: page.seen.add("z"), "seen"),
    "a list in a dict": (lambda page: page.names.setdefault("c", []), "names"),
    "a class that is not persistent": (lambda page: setattr(page.plain, "value", 2), "plain"),
    "a dataclass in a PersistentList": (lambda page: setattr(page.lines[0], "number", 2), "its content"),
    "a list in a dataclass": (lambda page: page.lines[0].tags.append("b"), "its content"),
    "a list in a BTree": (lambda page: page.tree["a"].append("b"), "its content"),
    "a list in a PersistentMapping": (lambda page: page.mapping["a"].append("b"), "its content"),
    "__dict__": (lambda page: page.__dict__.update(text="b"), "text"),
    "an attribute in __dict__ that was not there": (lambda page: page.__dict__.update(fresh="b"), "fresh"),
    "a mutable default": (lambda page: page.shared.append("b"), "shared"),
    "what cannot be stored": (lambda page: page.tags.append(lambda: None), "tags"),
}
STORED: dict[str, Any] = {
    "nothing": lambda page: None,
    "only read": lambda page: [
        page.tags,
        page.lines[0].number,
        page.tree["a"],
        dict(page.names),
        sorted(page.seen),
    ],
    "assigned again": rebind,
    "_p_changed": told,
    "PersistentList": lambda page: page.lines.append(Line()),
    "PersistentMapping": lambda page: page.mapping.update(b=1),
    "BTree": lambda page: page.tree.update({"c": ["z"]}),
    "_v_": volatile,
    "a new object": linked,
    "there and back": lambda page: (page.tags.append("b"), page.tags.pop()),
}


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    close_all()


def site(view: Any, tmp_path: Path, **options: Any) -> Pipeline:
    database = zodb(uri=f"file://{tmp_path / 'Data.fs'}", root=root)
    return Pipeline(retry(), database, errors(**options), transaction(), end(view=view))


def notices(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"]


def changed(work: Any, tmp_path: Path) -> Any:
    """A site whose POST works on a page that was stored and loaded before, by another request."""

    def view(request: Any, response: Response) -> None:
        if request.method == "POST" and request.path != "/make":
            work(request.root)
        elif request.path == "/make":
            request.root._p_changed = True

    app = site(view, tmp_path, debug=True)
    ask(app, "/make", "POST")
    return app


@pytest.mark.parametrize("name", LOST)
def test_a_change_in_place_is_told(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    work, what = LOST[name]
    assert ask(changed(work, tmp_path), "/", "POST").status == 200
    (notice,) = notices(caplog)
    assert notice.startswith(f"POST /: {what} of ") and "was changed in place" in notice, notice


@pytest.mark.parametrize("name", STORED)
def test_right_code_is_quiet(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = changed(STORED[name], tmp_path)
    for _ in range(3):
        assert ask(app, "/", "POST").status == 200
    assert notices(caplog) == []


def test_a_cached_property_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It keeps its value in the object, so that it is stored with it, and shown after a change."""
    app = changed(lambda page: setattr(page, "text", page.last), tmp_path)
    assert ask(app, "/", "POST").status == 200
    assert notices(caplog) == []
    app = changed(lambda page: page.first, tmp_path)
    assert ask(app, "/", "POST").status == 200
    (notice,) = notices(caplog)
    assert "Page is a cached_property: its old value stays" in notice


def test_a_get_that_writes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = site(lambda request, response: setattr(request.root, "text", "b"), tmp_path, debug=True)
    ask(app, "/")
    assert notices(caplog) == [], "the first request makes the root"
    ask(app, "/")
    (notice,) = notices(caplog)
    assert "a GET has changed the database" in notice


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("request.commit_on_eror", "request.commit_on_error"),
        ("request.attempt_left", "request.attempts_left"),
        ("request.basket", None),
        ("response.content_typ", "response.content_type"),
        ("response.cachecontrol", "response.cache_control"),
        ("response.etag", None),
        ("response.seen", None),
    ],
)
def test_an_attribute_that_nothing_reads(
    name: str, near: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    what, _, attribute = name.partition(".")

    def view(request: Any, response: Response) -> None:
        setattr({"request": request, "response": response}[what], attribute, "x")

    ask(site(view, tmp_path, debug=True), "/")
    expected = [] if near is None else [f"{name} was set, and nothing reads it. Did you mean {near}?"]
    assert [notice.partition(": ")[2] for notice in notices(caplog)] == expected


def test_a_new_database_beside_another_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Most likely its URI was changed, and all that was stored is gone from the pages. One that this process has
    made is not told: a site may have several."""

    def view(request: Any, response: Response) -> None:
        assert request.root is not None

    for name, told in (("Data", 0), ("Data", 0), ("Other", 0), ("Date", 1), ("Date", 1)):
        app = Pipeline(zodb(uri=f"file://{tmp_path}/{name}.fs"), errors(), end(view=view))
        assert ask(app, "/").status == 200
        close_all()
        assert len([one for one in caplog.records if one.levelname == "WARNING"]) == told
        if name == "Other":
            os.utime(tmp_path / "Data.fs", (0, 0))  # of an earlier process
    assert f"{tmp_path}/Date.fs is a new database, beside Data.fs: is the option uri what it was?" in caplog.text


def test_production_looks_at_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.elements.errors.tell_notices", None)
    app = site(lambda request, response: request.root.tags.append("b"), tmp_path)
    assert [ask(app, "/", "POST").status for _ in range(2)] == [200, 200]
    assert notices(caplog) == []


def test_a_fault_of_the_notices_is_no_fault_of_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.explaining.notices.notices_of", lambda *arguments: 1 / 0)
    assert ask(site(lambda request, response: None, tmp_path, debug=True), "/").status == 200
    assert any(record.levelno == logging.ERROR for record in caplog.records)


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (Request.blank("/"), "as a parameter of the view"),
        (PersistentList(), "(context, request), in this order"),
        (type("Row", (type("DeclarativeBase", (), {}),), {}), "request.sql.scalars(select(...))"),
        (Plain(), ""),
        (None, ""),
    ],
)
def test_a_name_of_another_framework_has_a_remedy(obj: Any, words: str) -> None:
    """Such as ``request.args``, ``note.save()`` and ``Note.objects``: it depends on the object."""
    with pytest.raises(AttributeError) as caught:
        _ = obj.objects
    assert words in remedy_of(caught.value) and bool(words) == bool(remedy_of(caught.value))
