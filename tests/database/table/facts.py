"""What happened in one row, as the judge needs it."""

from __future__ import annotations

from typing import NamedTuple

from database.table.kits import State


class Facts(NamedTuple):
    """What happened in one row."""

    reached: bool
    hung: bool
    raised: str
    status: int
    """The status of the request in which the one acts, or which has lent its objects."""
    stored: State
    """Read from the database itself."""
    seen: State
    """Seen by the next visitor, who then writes something else."""
    visit: int
    """The status of that visit."""
    stored_later: State
    """Read from the database itself after that visit."""
    logged: bool
    """Whether the pipeline has logged an error or a warning."""
    attempts: int
    """The number of attempts at the request."""
    called_later: int
    """How often later requests have called the synchronizer."""
    in_use: int
    """Connections that are in use although no request is."""
