"""``Ledger``: tells whether a write was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from uuid import uuid4


class Ledger:
    """The outcome of every write, as its client saw it, to compare with the database.

    Every write carries an id of its own, which is stored with it. The client enters the write as sent before it
    sends it, and later as acknowledged, failed or unknown. A write that stays sent counts as unknown.
    """

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        """The state by id: sent, acknowledged, failed or unknown."""

    def send(self) -> str:
        """Enter a new write as sent, and return its id."""
        id = uuid4().hex
        self.sent(id)
        return id

    def sent(self, id: str) -> None:
        if id in self.states:
            raise ValueError(f"{id} was sent before: a write that is sent again needs a new id")
        self.states[id] = "sent"

    def acknowledged(self, id: str) -> None:
        """Enter that the client was told that the write is stored."""
        self._enter(id, "acknowledged")

    def failed(self, id: str) -> None:
        """Enter that the client was told that the write is not stored."""
        self._enter(id, "failed")

    def unknown(self, id: str) -> None:
        """Enter that the client got no answer, or one that says that the outcome is unknown."""
        self._enter(id, "unknown")

    def answered(self, id: str, status: int, outcome: str = "") -> None:
        """Enter the outcome that an answer tells by its status and its header ``X-Outcome``.

        A status of 0 is a connection that was cut, or that ended before the answer did.
        """
        if outcome == "unknown" or not status:
            self.unknown(id)
        elif outcome == "committed" or status < 400:
            self.acknowledged(id)
        else:
            self.failed(id)

    def _enter(self, id: str, state: str) -> None:
        before = self.states.get(id, "never sent")
        if before != "sent":
            raise ValueError(f"{id} is {state}, but it was {before}")
        self.states[id] = state

    def counts(self) -> Counter[str]:
        """Return the number of writes in each state."""
        return Counter(self.states.values())

    def judge(self, stored: Mapping[str, int] | Iterable[str]) -> list[str]:
        """Return a line for each write whose state does not match the database. Empty if nothing was lost.

        stored  the ids in the database: a list in which an id is repeated if it is stored repeatedly, or the counts
                by id
        """
        times = Counter(stored) if not isinstance(stored, Mapping) else stored
        problems = []
        for id, state in self.states.items():
            found = times.get(id, 0)
            if state == "acknowledged" and not found:
                problems.append(f"{id} was acknowledged and is not stored")
            if state == "failed" and found:
                problems.append(f"{id} failed and is stored")
            if found > 1:
                problems.append(f"{id}, {state}, is stored {found} times")
        strange = (id for id in times if times[id] and id not in self.states)
        problems += [f"{id} was never sent and is stored" for id in strange]
        return problems
