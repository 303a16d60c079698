"""Folders, documents and the counter, alone and with two writers at once."""

from __future__ import annotations

from typing import Any

import pytest
import transaction
from ZODB.POSException import ConflictError

from pipeline_demo.models import Counter, Document, Folder, Site
from pipeline_demo.names import BadText


def test_a_folder_is_a_mapping_in_the_order_of_titles() -> None:
    folder = Folder("F")
    folder["z"] = Document("apple")
    folder["a"] = Document("Zebra")
    folder["m"] = Document("Mango")
    assert list(folder) == ["z", "m", "a"]
    assert [item.title for item in folder.items(1, 2)] == ["Mango"]
    folder["a"].title = "aardvark"
    assert list(folder) == ["a", "z", "m"]
    assert folder.count() == 3
    item = folder["m"]
    assert (item.__parent__, item.__name__) == (folder, "m")
    del folder["m"]
    assert (item.__parent__, item.__name__, folder.count()) == (None, None, 2)
    assert "m" not in folder
    assert folder.get("m") is None
    with pytest.raises(KeyError):
        folder["m"]


def test_an_empty_folder_is_true() -> None:
    assert Folder("F")


def test_a_folder_takes_no_bad_name_and_no_name_twice() -> None:
    folder = Folder("F")
    folder["a"] = item = Document("A")
    with pytest.raises(ValueError, match="already"):
        folder["a"] = Document("B")
    with pytest.raises(ValueError, match="already"):
        folder["b"] = item
    with pytest.raises(BadText):
        folder["_a"] = Document("B")
    assert folder.count() == 1


def test_renaming() -> None:
    folder = Folder("F")
    folder["a"], folder["b"] = Document("A"), Document("B")
    folder.rename("a", "c")
    assert sorted(folder) == ["b", "c"]
    assert folder["c"].__name__ == "c"
    with pytest.raises(ValueError, match="already"):
        folder.rename("c", "b")


def test_walking_is_no_recursion() -> None:
    top = folder = Folder("F")
    for _ in range(3000):
        folder["d"] = deeper = Folder("D")
        folder = deeper
    assert sum(1 for _ in top.walk()) == 3000


def test_a_refused_edit_changes_nothing() -> None:
    folder = Folder("F")
    folder["a"] = document = Document("A", "text")
    for title, text in [("", "new"), ("New", "\0")]:
        with pytest.raises(BadText):
            document.edit(title, text, "markdown")
    assert (document.title, document.text, document.revision) == ("A", "text", 1)
    document.edit("B", "new", "rst")
    assert (document.title, document.text, document.format, document.revision) == ("B", "new", "rst", 2)
    assert document.same("B", "new", "rst")
    assert not document.same("B", "new", "text")


class Two:
    """Two connections to one database, each in a transaction of its own."""

    def __init__(self, connection: Any) -> None:
        self.managers = [transaction.TransactionManager(), transaction.TransactionManager()]
        self.connections = [connection.db().open(manager) for manager in self.managers]
        self.sites: list[Site] = []
        for manager, other in zip(self.managers, self.connections, strict=True):
            manager.begin()
            self.sites.append(other.root()["site"])

    def close(self) -> None:
        for manager, other in zip(self.managers, self.connections, strict=True):
            manager.abort()
            other.close()


@pytest.fixture
def two(connection: Any, stored_site: Site) -> Any:
    stored_site["folder"] = Folder("Folder")
    stored_site["folder"]["document"] = Document("Document")  # type: ignore[index]
    stored_site["counter"] = Counter("Counter")
    connection.transaction_manager.commit()
    two = Two(connection)
    yield two
    two.close()


def commit_both(two: Two) -> None:
    """The first wins; what the second did must be seen as a conflict."""
    two.managers[0].commit()
    with pytest.raises(ConflictError):
        two.managers[1].commit()


def test_two_of_one_number_conflict(two: Two) -> None:
    assert [site["counter"].next() for site in two.sites] == [1, 1]  # type: ignore[attr-defined]
    commit_both(two)


def test_two_edits_conflict(two: Two) -> None:
    for site in two.sites:
        site["folder"]["document"].edit("D", "text", "markdown")  # type: ignore[index]
    commit_both(two)


def test_two_of_one_name_conflict(two: Two) -> None:
    for site in two.sites:
        site["folder"]["new"] = Document("New")  # type: ignore[index]
    commit_both(two)


def test_two_names_do_not_conflict(two: Two) -> None:
    for number, site in enumerate(two.sites):
        site["folder"][f"new-{number}"] = Document("New")  # type: ignore[index]
    for manager in two.managers:
        manager.commit()
    two.managers[0].begin()
    assert two.connections[0].root()["site"]["folder"].count() == 3


@pytest.mark.parametrize("gone", ["folder", "document"])
def test_an_edit_of_what_is_being_deleted_conflicts(two: Two, gone: str) -> None:
    """Otherwise the edit would be acknowledged, and lost."""
    folder: Any = two.sites[0]["folder"]
    if gone == "document":
        del folder["document"]
    else:
        del two.sites[0]["folder"]
    two.sites[1]["folder"]["document"].edit("D", "text", "markdown")  # type: ignore[index]
    commit_both(two)


def test_adding_to_what_is_being_deleted_conflicts(two: Two) -> None:
    del two.sites[0]["folder"]
    two.sites[1]["folder"]["new"] = Document("New")  # type: ignore[index]
    commit_both(two)


def test_renaming_does_not_disturb_readers(two: Two) -> None:
    two.sites[0].rename("folder", "other")
    assert two.sites[1]["folder"].title == "Folder"
    two.managers[0].commit()
    two.managers[1].commit()
