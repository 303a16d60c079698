"""What the site consists of: folders, documents, files and a counter, all persistent.

An item knows its place: ``__parent__`` and ``__name__`` are set by the folder that takes it and
taken away by the folder that loses it. Two requests that change the same thing at once are told
apart by the database, which lets one of them fail with a conflict; the element ``retry`` then runs
it again on what the other left. So nothing here locks.
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

from pipeline.demo.content import Content
from pipeline.demo.names import clean_name, clean_text, clean_title

Format: TypeAlias = Literal["markdown", "rst", "html", "text"]
FORMATS: dict[Format, str] = {
    "markdown": "Markdown",
    "rst": "reStructuredText",
    "html": "HTML",
    "text": "Plain text",
}
SAFE_IMAGES = frozenset(f"image/{kind}" for kind in ("avif", "gif", "jpeg", "png", "webp"))
"""Types that a browser shows and that can run nothing; SVG can."""

INTRODUCTIONS = ("index.md", "index.rst", "index.html", "README.md", "README.rst", "README.txt")
"""Names of documents that introduce the folder they are in; the first that is there does."""


def now() -> datetime:
    """This second, in UTC: HTTP dates have no fractions."""
    return datetime.now(UTC).replace(microsecond=0)


class Item(Persistent):  # type: ignore[misc, unused-ignore]
    """Anything in a folder."""

    kind = "item"
    __parent__: Folder | None = None
    __name__: str | None = None

    imported: tuple[str, int] | None = None
    """SHA-256 of the file this was imported from, and ``revision`` after that import."""
    revision = 1
    """Grows by one with every change that a person made."""

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
        """Note that a person changed this."""
        self.revision += 1
        self.modified = now()

    def hold(self) -> None:
        """Let this transaction fail with a conflict if another one moves or deletes this item, or
        a folder it is in, at the same time: a change would be lost with it."""
        item: Item | None = self
        while item is not None:
            if item._p_jar is not None:
                item._p_activate()  # a ghost has no serial to compare, and would be passed over
                item._p_jar.readCurrent(item)
            item = item.__parent__


class Folder(Item):
    """A mapping of names to items, ordered by title.

    It has no length on purpose: an empty folder would be false.
    """

    kind = "folder"
    users: Any = None
    """Password hashes by login, where a folder has users of its own (``pipeline.demo.users``)."""
    realm = ""
    """What tells the principals of those users from others of the same login."""
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
        """The names, in the order of their titles."""
        return (name for _, name in self._order)

    def __setitem__(self, name: str, item: Item) -> None:
        """Take ``item`` in. BadText if the name is none, ValueError if it is taken."""
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
        # Written, so that whoever changes the item at this moment has a conflict (see `hold`).
        item.__parent__ = item.__name__ = None

    def get(self, name: str) -> Item | None:
        return self._items.get(name)  # type: ignore[no-any-return]

    def count(self) -> int:
        """How many items there are here."""
        return self._count()  # type: ignore[no-any-return]

    def items(self, start: int = 0, stop: int | None = None) -> list[Item]:
        """The items from place ``start`` to ``stop`` in the order of their titles."""
        return [self._items[name] for _, name in islice(self._order, start, stop)]

    def introduction(self) -> Document | None:
        """The document that is shown on the page of this folder."""
        found = (self.get(name) for name in INTRODUCTIONS)
        return next((item for item in found if isinstance(item, Document)), None)

    def walk(self) -> Iterator[Item]:
        """All items below this folder, parents first, without recursion."""
        open_folders: list[Folder] = [self]
        while open_folders:
            for item in open_folders.pop().items():
                yield item
                if isinstance(item, Folder):
                    open_folders.append(item)

    def rename(self, old: str, new: str) -> None:
        """Give an item another name; as for ``__setitem__``."""
        if clean_name(new) in self._items:
            raise ValueError(f"there is a {new!r} already")
        item = self._items[old]
        del self[old]
        self[new] = item

    def _keep_order(self, item: Item) -> None:
        self._order.add((item.title.casefold(), item.__name__))

    def _forget_order(self, item: Item) -> None:
        self._order.remove((item.title.casefold(), item.__name__))


class Document(Item):
    """A text in one of the ``FORMATS``."""

    kind = "document"

    def __init__(self, title: str, text: str = "", format: Format = "markdown") -> None:
        super().__init__(title)
        self._text = clean_text(text)
        self._format = format

    @property
    def text(self) -> str:
        return self._text

    @property
    def format(self) -> Format:
        return self._format

    def edit(self, title: str, text: str, format: Format) -> None:
        """Change all of it at once. BadText if title or text is none."""
        text = clean_text(text)
        self.hold()
        self.title = title
        self._text = text
        self._format = format
        self.touch()

    def same(self, title: str, text: str, format: Format) -> bool:
        """Whether ``edit`` with these would change nothing."""
        return (self.title, self.text, self.format) == (clean_title(title), clean_text(text), format)


class File(Item):
    """Bytes of any kind under the name they came with; an image if a browser may show it as it is."""

    content: Content

    def __init__(self, title: str, content: Content, content_type: str) -> None:
        super().__init__(title)
        self.content = content
        self.content_type = content_type

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "image" if self.content_type in SAFE_IMAGES else "file"

    def replace(self, content: Content, content_type: str) -> None:
        """Put other bytes in the place of these."""
        self.hold()
        self.content = content
        self.content_type = content_type
        self.touch()


class Counter(Item):
    """Hands out 1, 2, 3 and so on, each number once."""

    kind = "counter"
    value = 0

    def next(self) -> int:
        self.value += 1
        return self.value


class Site(Folder):
    """The root: a folder with its users and its secret, which no URL reaches."""

    kind = "folder"
    __grants__: Mapping[str, Set[str]] = MappingProxyType({"admin": frozenset({"edit"})})

    def __init__(self, title: str, secret: bytes) -> None:
        super().__init__(title)
        self.secret = secret
        self.users: Any = OOBTree()
        """Password hashes by login."""
