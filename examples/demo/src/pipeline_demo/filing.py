"""Import the files of a directory into folders, as documents or as files.

``find`` yields every file. ``file_into`` imports it, or says in words why it cannot. A file is read to its end and
checked before the site is changed, so no file is ever half imported. Hidden files, whose names begin with a dot,
are skipped.

An item remembers the file that it was imported from. When a directory is imported again, unchanged files are
skipped and changed files are updated. An item that was changed on the site is not overwritten.
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Literal, TypeAlias

from pipeline_demo.content import TooLarge, store
from pipeline_demo.models import Document, File, Folder, Format, Item
from pipeline_demo.names import MAX_TEXT, BadText, clean_name, clean_text, clean_title
from pipeline_demo.text import title_of

MAX_FILE = 100 * 1024 * 1024
"""Bytes of a file, unless the caller says otherwise."""
MAX_DEPTH = 50
"""Upper limit of folders inside one another. The pipeline limits the length of a path, too."""

_FORMATS: dict[str, Format] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".rst": "rst",
    ".html": "html",
    ".htm": "html",
    ".txt": "text",
}

Outcome: TypeAlias = Literal["new", "updated", "unchanged", "hidden"]


class NotImported(Exception):
    """A file that is not imported, with the reason in words."""


@dataclass(frozen=True)
class Found:
    """A file or directory below the imported directory. ``refused`` says why it cannot be imported."""

    path: Path
    parts: tuple[str, ...]
    """The names of the path to it, as the site will have them."""
    refused: str = ""
    hidden: bool = False

    def below(self, *way: str) -> Found:
        """Return the same file for a deeper place in the site."""
        return replace(self, parts=(*way, *self.parts))


def content_type_of(name: str) -> str:
    """Return the type of a file by its name. The type that a client sends is ignored."""
    kind, encoding = mimetypes.guess_type(name)
    if encoding is not None:
        return {"gzip": "application/gzip"}.get(encoding, "application/octet-stream")
    return kind or "application/octet-stream"


def format_of(name: str) -> Format | None:
    """Return the format of a document by its name; None if it is not a document."""
    return _FORMATS.get(os.path.splitext(name)[1].lower())


def printable(path: str) -> str:
    """Return a path without characters that could control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in path)


def find(top: Path) -> Iterator[Found]:
    """Yield every file below ``top`` in a stable order, and every directory that cannot be read."""
    top = top.resolve()
    ahead: list[tuple[Path, tuple[str, ...]]] = [(top, ())]
    while ahead:
        directory, parts = ahead.pop()
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError as error:
            yield Found(directory, parts, refused=_reason(error))
            continue
        names: set[str] = set()
        deeper = []
        for entry in entries:
            path = Path(entry.path)
            if entry.name.startswith("."):
                yield Found(path, parts, hidden=True)
                continue
            try:
                name = clean_name(entry.name)
            except BadText as error:
                yield Found(path, parts, refused=str(error))
                continue
            if name in names:
                yield Found(path, parts, refused=f"Another file here has the name {name!r} too.")
                continue
            names.add(name)
            here = (*parts, name)
            if entry.is_dir(follow_symlinks=False):
                if len(here) >= MAX_DEPTH:
                    yield Found(path, here, refused=f"It is more than {MAX_DEPTH} folders deep.")
                else:
                    deeper.append((path, here))
            elif entry.is_symlink() and entry.is_dir():
                yield Found(path, here, refused="It is a link to a directory, and is not followed.")
            elif entry.is_symlink() and not path.resolve().is_relative_to(top):
                yield Found(path, here, refused="It is a link that leads out of the directory.")
            else:
                yield Found(path, here)
        ahead.extend(reversed(deeper))


def file_into(folder: Folder, found: Found, max_file: int = MAX_FILE, force: bool = False) -> Outcome:
    """Import one file below ``folder``. Raise NotImported with the reason if it cannot; then nothing is changed.

    ``force`` also overwrites an item that was changed on the site since it was last imported.
    """
    if found.hidden:
        return "hidden"
    if found.refused:
        raise NotImported(found.refused)
    try:
        with _open(found.path) as stream:
            return _file(folder, found, stream, max_file, force)
    except (BadText, TooLarge) as error:
        raise NotImported(str(error)) from error
    except OSError as error:
        raise NotImported(_reason(error)) from error


def _open(path: Path) -> BufferedReader:
    """Open a regular file. Opening a pipe would wait for a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotImported("It is not a regular file.")
    return os.fdopen(descriptor, "rb")


def _file(folder: Folder, found: Found, stream: BufferedReader, max_file: int, force: bool) -> Outcome:
    there = _look(folder, found.parts)
    new = there is None
    name = found.parts[-1]
    format = format_of(name)
    limit = max_file if format is None else MAX_TEXT
    if os.fstat(stream.fileno()).st_size > limit:
        raise TooLarge(f"It has more than {limit:,} bytes.")
    if format is None:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if _nothing_to_do(there, File, digest, force):
            return "unchanged"
        stream.seek(0)
        content = store(stream, folder._p_jar, limit)
        digest = content.sha256  # that of the stored bytes: the file may have changed by now
        if isinstance(there, File):
            there.replace(content, content_type_of(name))
        else:
            there = _add(folder, found.parts, File(name, content, content_type_of(name)))
    else:
        data = stream.read(limit + 1)
        digest = hashlib.sha256(data).hexdigest()
        if _nothing_to_do(there, Document, digest, force):
            return "unchanged"
        text = clean_text(_decode(data))
        title = title_in(text, format, name)
        if isinstance(there, Document):
            there.edit(title, text, format)
        else:
            there = _add(folder, found.parts, Document(title, text, format))
    there.imported = (digest, there.revision)
    return "new" if new else "updated"


def _nothing_to_do(there: Item | None, kind: type[Item], digest: str, force: bool) -> bool:
    """Return whether the item of this name already has the content of the file. Raise NotImported if it was made or
    changed on the site."""
    if there is None:
        return False
    if not isinstance(there, kind):
        raise NotImported(f"There is a {there.kind} of this name on the site.")
    if there.imported is not None and there.imported[0] == digest:
        return True
    if isinstance(there, File) and there.content.sha256 == digest:
        return True
    if not force and there.imported is None:
        raise NotImported("An item of this name on the site was not imported (see --force).")
    if not force and there.imported is not None and there.imported[1] != there.revision:
        raise NotImported("It was changed on the site since it was last imported (see --force).")
    return False


def _look(folder: Folder, parts: tuple[str, ...]) -> Item | None:
    """Return the item at the end of the path, or None. Raise NotImported if the path leads through an item that is
    not a folder."""
    item: Item = folder
    for name in parts:
        if not isinstance(item, Folder):
            raise NotImported(f"{item.__name__!r} on the path to it is not a folder on the site.")
        if (deeper := item.get(name)) is None:
            return None
        item = deeper
    return item


def _add(folder: Folder, parts: tuple[str, ...], item: Item) -> Item:
    """Put a new item at the end of the path, with the folders that are missing on the path."""
    *way, name = parts
    for step in way:
        if step not in folder:
            folder[step] = Folder(step)
        deeper = folder[step]
        if not isinstance(deeper, Folder):
            raise NotImported(f"{step!r} on the path to it is not a folder on the site.")
        folder = deeper
    folder[name] = item
    if item is folder.introduction() and folder.title == folder.__name__:
        folder.title = item.title
    return item


def title_in(text: str, format: Format, name: str) -> str:
    """Return the first heading, or the name if there is no heading that is a valid title."""
    try:
        return clean_title(title_of(text, format) or name)
    except BadText:
        return clean_title(name)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotImported(f"It is not UTF-8: byte 0x{data[error.start]:02x} at {error.start:,}.") from None


def _reason(error: OSError) -> str:
    return f"{error.strerror or error}."
