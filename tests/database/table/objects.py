"""The kit for a ZODB: what a request takes from it, and how it is touched by each of the means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.list import PersistentList
from persistent.mapping import PersistentMapping

from database.table import axes as a
from database.table.kits import (
    GONE,
    MARK,
    WAS,
    Kit,
    State,
    Synchronizer,
    check,
    in_own_transaction,
    nothing,
    register,
)
from pipeline.composition import Element
from pipeline.elements.zodb import zodb


class Thing(Persistent):  # type: ignore[misc]
    """An object with one value, and with one that can be deleted."""

    def __init__(self, value: str = WAS) -> None:
        self.value = value
        self.spare = WAS


class Taken:
    """What a request has taken from the database, as a global or a thread would keep it."""

    def __init__(self, request: Any) -> None:
        self.things = dict(request.root)
        for thing in self.things.values():
            thing._p_activate()
        self.things["unloaded"]._p_deactivate()
        self.connection = request.zodb
        self.tm = request.tm
        self.synchronizer = Synchronizer()

    def __getitem__(self, name: str) -> Any:
        return self.things[name]


class Objects(Kit):
    """The kit for the ZODB of a URI. ``reader`` opens it a second time, to read it without the pipeline."""

    kind = "zodb"
    take = Taken

    def __init__(self, uri: str, reader: Callable[[], Any], close: Callable[[], object] = nothing) -> None:
        self.uri = uri
        self.reader = reader
        self.close = close

    def element(self) -> Element:
        return zodb(uri=self.uri)

    def create(self, request: Any) -> None:
        root = request.root
        root.update({name: Thing() for name in ("thing", "other", "own", "parent", "visitor")})
        root.update({name: Thing() for name in ("loaded", "unloaded", "unknown")})
        root["mapping"] = PersistentMapping(key=WAS, victim=WAS)
        root["list"] = PersistentList([WAS])
        root["tree"] = OOBTree({"key": WAS})

    def put_back(self, request: Any) -> None:
        root = request.root
        for name in ("thing", "own", "parent"):
            if root[name].value != WAS:
                root[name].value = WAS
        if not hasattr(root["other"], "spare"):
            root["other"].spare = WAS
        if root["mapping"] != {"key": WAS, "victim": WAS}:
            root["mapping"].update(key=WAS, victim=WAS)
        if root["list"] != [WAS]:
            root["list"][:] = [WAS]
        if dict(root["tree"]) != {"key": WAS}:
            root["tree"].clear()
            root["tree"]["key"] = WAS

    def state(self, request: Any) -> State:
        return state_of(request.root)

    def stored(self) -> State:
        db = self.reader()
        try:
            with db.transaction() as connection:
                return state_of(connection.root())
        finally:
            db.close()

    def write(self, taken: Any, name: str, value: str) -> None:
        taken[name].value = value

    def write_at_once(self, request: Any, name: str, value: str) -> None:
        request.root[name].value = value

    def go_on(self, taken: Any) -> None:
        taken["unloaded"]._p_deactivate()
        check(taken["unloaded"].value)
        check(taken.connection.get(taken["unknown"]._p_oid).value)


def state_of(root: Any) -> State:
    """Return the state of everything that the means write."""
    names = ("thing", "own", "parent", "visitor")
    return {name: root[name].value for name in names} | {
        "attribute": getattr(root["other"], "spare", GONE),
        "key": root["mapping"]["key"],
        "victim": root["mapping"].get("victim", GONE),
        "list": root["list"][0],
        "tree": root["tree"]["key"],
        "added": getattr(root["tree"].get("added"), "value", GONE),
    }


def look(taken: Any) -> None:
    check(taken["loaded"].value)


def load(taken: Any) -> None:
    check(taken["unloaded"].value)


def get(taken: Any) -> None:
    check(taken.connection.get(taken["unknown"]._p_oid).spare)


def set_attribute(taken: Any) -> None:
    taken["thing"].value = MARK


def delete_attribute(taken: Any) -> None:
    del taken["other"].spare


def set_in_mapping(taken: Any) -> None:
    taken["mapping"]["key"] = MARK


def set_in_list(taken: Any) -> None:
    taken["list"][0] = MARK


def set_in_tree(taken: Any) -> None:
    taken["tree"]["key"] = MARK


def remove(taken: Any) -> None:
    del taken["mapping"]["victim"]


def add(taken: Any) -> None:
    taken["tree"]["added"] = Thing(MARK)


Objects.means = {
    a.LOOK: (look, {}),
    a.LOAD: (load, {}),
    a.GET: (get, {}),
    a.SET: (set_attribute, {"thing": MARK}),
    a.DELETE_ATTRIBUTE: (delete_attribute, {"attribute": GONE}),
    a.MAPPING: (set_in_mapping, {"key": MARK}),
    a.LIST: (set_in_list, {"list": MARK}),
    a.TREE: (set_in_tree, {"tree": MARK}),
    a.REMOVE: (remove, {"victim": GONE}),
    a.ADD: (add, {"added": MARK}),
    a.SAVEPOINT: (lambda taken: taken.tm.savepoint(), {}),
    a.COMMIT: (lambda taken: taken.tm.commit(), {}),
    a.ABORT: (lambda taken: taken.tm.abort(), {}),
    a.REGISTER: (register, {}),
    a.OWN: (lambda taken: in_own_transaction(taken, set_attribute), {"thing": MARK}),
    a.CLOSE: (lambda taken: taken.connection.close(), {}),
}
