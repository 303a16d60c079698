"""The base of the copies of SQL databases. Each engine has a class of its own, which derives from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

TIME = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+")
"""A time of day in a text. It differs from run to run."""
Faults = Mapping[str, Callable[[str], BaseException]]


class SqlCopy(Protocol):
    """The copy of one database. It is made with ``(directory, dialect, arguments, options)``, the latter two
    those with which the driver would connect to the original."""

    name: str
    """The name of the database in findings."""

    def redirect(self, arguments: list[Any], options: dict[str, Any]) -> None:
        """Have the driver connect to the copy."""

    def check(self, statement: str) -> None:
        """Raise ConfigurationError if a statement reaches the original."""

    def freeze(self) -> None:
        """Let what is stored now be the state before each run."""

    def reset(self) -> None:
        """Return to the state before each run. No connection of a pool is open."""

    def changed(self) -> tuple[Any, ...]:
        """Return what differs from the state before the run, or () if nothing does."""

    def faults(self, target: Any, has_ended: bool) -> Faults:
        """Return what the driver raises, by the kind of the fault.

        target     cursor, or connection, of the driver
        has_ended  whether the transaction has ended, so that it can have no conflict
        """

    def drop(self) -> None:
        """Remove what is not in the directory of the copies."""
