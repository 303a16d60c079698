"""The objects of the site: folders, documents, files and a counter, all persistent.

An item knows its place: a folder sets ``__parent__`` and ``__name__`` when it takes the item, and removes them when
it loses the item. If two requests change the same object at once, the database lets one of them fail with a
conflict. The element ``retry`` then runs it again on the new state. So no locks are needed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from BTrees.Length import Length
from BTrees.OOBTree import OOBTree, OOTreeSet
from persistent import Persistent

from pipeline_demo.content import Content
from pipeline_demo.names import clean_name, clean_text, clean_title

Format: TypeAlias = Literal["markdown", "rst", "html", "text"]
FORMATS: dict[Format, str] = {
    "markdown": "Markdown",
    "rst": "reStructuredText",
    "html": "HTML",
    "text": "Plain text",
}
SAFE_IMAGES = frozenset(f"image/{kind}" for kind in ("avif", "gif", "jpeg", "png", "webp"))
"""Types that a browser shows and that cannot run scripts. SVG can, so it is not among them."""

INTRODUCTIONS = ("index.md", "index.rst", "index.html", "README.md", "README.rst", "README.txt")
"""Names of documents that introduce their folder. The first that exists is used."""


MAX_VERSIONS = 20
"""Upper limit of the older versions that are kept of a document."""


def now() -> datetime:
    """Return the current second in UTC, since HTTP dates have no fractions."""
    return datetime.now(UTC).replace(microsecond=0)


class Item(Persistent):  # type: ignore[misc, unused-ignore]
    """Anything in a folder."""

    kind = "item"
    __parent__: Folder | None = None
    __name__: str | None = None

    imported: tuple[str, int] | None = None
    """SHA-256 of the file this was imported from, and ``revision`` after that import."""
    revision = 1
    """Number of the revision. It grows by one with every change on the site."""

    def __init__(self, title: str) -> None:
        self._title = clean_title(title)
        self.created = self.modified = now()

    @property
    def title(self) -> str:
        return self._title

    @title.setter
    def title(self, title: str) -> None:
        title = clean_title(title)
        folder = self.__parent__
        if folder is not None:
            folder._forget_order(self)
        self._title = title
        if folder is not None:
            folder._keep_order(self)

    def touch(self) -> None:
        """Note a change on the site: set the time, and count the revision."""
        self.revision += 1
        self.modified = now()

    def hold(self) -> None:
        """Make this transaction fail with a conflict if another one moves or deletes this item, or a folder that
        contains it, at the same time. Otherwise the change would be lost."""
        item: Item | None = self
        while item is not None:
            if item._p_jar is not None:
                item._p_activate()  # a ghost has no serial to compare, and would be skipped
                item._p_jar.readCurrent(item)
            item = item.__parent__


class Folder(Item):
    """A mapping of names to items, ordered by title.

    It has no length on purpose: an empty folder would be false.
    """

    kind = "folder"
    users: Any = None
    """Password hashes by login, if the folder has users of its own (``pipeline_demo.users``)."""
    realm = ""
    """Suffix of the principals of these users, which distinguishes them from others of the same login."""
    __grants__: Mapping[str, Set[str]] = MappingProxyType({})

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._items: Any = OOBTree()
        self._order: Any = OOTreeSet()
        self._count: Any = Length()

    def __getitem__(self, name: str) -> Item:
        return self._items[name]  # type: ignore[no-any-return]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        """Yield the names, in the order of their titles."""
        return (name for _, name in self._order)

    def __setitem__(self, name: str, item: Item) -> None:
        """Add ``item``. Raise BadText if the name is not valid, ValueError if it is taken."""
        name = clean_name(name)
        if name in self._items:
            raise ValueError(f"there is a {name!r} already")
        if item.__parent__ is not None:
            raise ValueError(f"{item.__name__!r} is in a folder already")
        self.hold()
        item.__parent__, item.__name__ = self, name
        self._items[name] = item
        self._count.change(1)
        self._keep_order(item)

    def __delitem__(self, name: str) -> None:
        item = self._items.pop(name)
        self._count.change(-1)
        self._forget_order(item)
        # Written, so that a request that changes the item at the same time has a conflict (see `hold`).
        item.__parent__ = item.__name__ = None

    def get(self, name: str) -> Item | None:
        return self._items.get(name)  # type: ignore[no-any-return]

    def count(self) -> int:
        """Return the number of items."""
        return self._count()  # type: ignore[no-any-return]

    def items(self, start: int = 0, stop: int | None = None) -> list[Item]:
        """Return the items from place ``start`` to ``stop`` in the order of their titles."""
        return [self._items[name] for _, name in islice(self._order, start, stop)]

    def introduction(self) -> Document | None:
        """Return the document that is shown on the page of this folder, or None."""
        found = (self.get(name) for name in INTRODUCTIONS)
        return next((item for item in found if isinstance(item, Document)), None)

    def walk(self) -> Iterator[Item]:
        """Yield all items below this folder, parents first, without recursion."""
        open_folders: list[Folder] = [self]
        while open_folders:
            for item in open_folders.pop().items():
                yield item
                if isinstance(item, Folder):
                    open_folders.append(item)

    def rename(self, old: str, new: str) -> None:
        """Give an item another name. Raises the errors of ``__setitem__``."""
        if clean_name(new) in self._items:
            raise ValueError(f"there is a {new!r} already")
        item = self._items[old]
        del self[old]
        self[new] = item

    def _keep_order(self, item: Item) -> None:
        self._order.add((item.title.casefold(), item.__name__))

    def _forget_order(self, item: Item) -> None:
        self._order.remove((item.title.casefold(), item.__name__))


class Version(Persistent):  # type: ignore[misc, unused-ignore]
    """A document as it was before a change. It is stored apart, so that showing the document does not load it."""

    def __init__(self, document: Document) -> None:
        self.title, self.text, self.format = document.title, document.text, document.format
        self.revision, self.modified, self.author = document.revision, document.modified, document.author


class Document(Item):
    """A text in one of the ``FORMATS``, with its older versions."""

    kind = "document"
    author: str | None = None
    """The principal that made the current version, if it is known."""
    versions: tuple[Version, ...] = ()
    """The older versions, the newest first."""

    def __init__(self, title: str, text: str = "", format: Format = "markdown", author: str | None = None) -> None:
        super().__init__(title)
        self._text = clean_text(text)
        self._format = format
        self.author = author

    @property
    def text(self) -> str:
        return self._text

    @property
    def format(self) -> Format:
        return self._format

    def edit(self, title: str, text: str, format: Format, author: str | None = None) -> None:
        """Change title, text and format at once, and keep the old version. Raise BadText if title or text is not
        valid."""
        text = clean_text(text)
        self.hold()
        old = Version(self)
        self.title = title
        self.versions = (old, *self.versions)[:MAX_VERSIONS]
        self.author = author
        self._text = text
        self._format = format
        self.touch()

    def same(self, title: str, text: str, format: Format) -> bool:
        """Return whether ``edit`` with these values would change nothing."""
        return (self.title, self.text, self.format) == (clean_title(title), clean_text(text), format)


class File(Item):
    """Bytes of any kind. Its kind is "image" if a browser may show it."""

    content: Content

    def __init__(self, title: str, content: Content, content_type: str) -> None:
        super().__init__(title)
        self.content = content
        self.content_type = content_type

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "image" if self.content_type in SAFE_IMAGES else "file"

    def replace(self, content: Content, content_type: str) -> None:
        """Replace the bytes by others."""
        self.hold()
        self.content = content
        self.content_type = content_type
        self.touch()


class Counter(Item):
    """A counter that returns 1, 2, 3 and so on, each number once."""

    kind = "counter"
    value = 0

    def next(self) -> int:
        self.value += 1
        return self.value


class Site(Folder):
    """The root: a folder with users and a secret, which no URL leads to."""

    kind = "folder"
    __grants__: Mapping[str, Set[str]] = MappingProxyType({"admin": frozenset({"edit"})})
    ended: Any = None
    """The sessions that have ended before their time, by login (``pipeline.auth.ended``); None until one has."""

    def __init__(self, title: str, secret: bytes) -> None:
        super().__init__(title)
        self.secret = secret
        self.users: Any = OOBTree()
        """Password hashes by login."""
