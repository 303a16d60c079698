"""A file that came with a form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO


@dataclass(slots=True, eq=False, repr=False)
class Upload:
    """A file that came with a form.

    It is in memory, or a part of the temporary file of the request, and it is closed with the request. A view
    copies what is to stay. The client chooses its name and its type: serve it as an attachment (S7).
    """

    filename: str
    """Its name, without the folders that some browsers send with it; may be empty."""
    type: str
    """Its media type in lower case, with its parameters as they were sent: ``text/plain; charset=utf-8``."""
    file: IO[bytes]
    """Open for reading, at the start."""
    length: int
    """In bytes."""

    def __repr__(self) -> str:
        return f"<file {self.filename!r}, {self.type}, {self.length} bytes>"
