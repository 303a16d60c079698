"""A file that came with a form."""

from __future__ import annotations

from typing import IO


class Upload:
    """A file that came with a form.

    It is in memory, or a part of the temporary file of the request, and it is closed with the request. A view
    copies what is to stay. The client chooses its name and its type: serve it as an attachment (S7).
    """

    __slots__ = ("file", "filename", "length", "type")

    def __init__(self, filename: str, type: str, file: IO[bytes], length: int) -> None:
        self.filename = filename
        """Its name, without folders, control characters and line breaks; never that of a folder. May be empty."""
        self.type = type
        """Its media type in lower case, with its parameters as they were sent: ``text/plain; charset=utf-8``."""
        self.file = file
        """Open for reading, at the start."""
        self.length = length
        """In bytes."""

    def __repr__(self) -> str:
        return f"<file {self.filename!r}, {self.type}, {self.length} bytes>"
