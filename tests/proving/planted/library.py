"""A library in a ZODB: books that are lent, reviewed and tagged, and the cards of its readers."""

from __future__ import annotations

import time
from html import escape
from typing import Any

from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.list import PersistentList
from persistent.mapping import PersistentMapping
from webob.exc import HTTPBadRequest, HTTPForbidden, HTTPNotFound

from pipeline import Request, redirect, view
from pipeline.promises import belongs_to, invariant

LAST: dict[str, Any] = {}
VISITS = {"all": 0}


class Book(Persistent):  # type: ignore[misc]
    """A book, who has it, and what readers say of it."""

    def __init__(self, title: str, copies: int) -> None:
        self.title, self.copies = title, copies
        self.loans = PersistentList()
        self.reviews = PersistentList()
        self.tags = PersistentMapping()


class Review(Persistent):  # type: ignore[misc]
    """What a reader says of a book."""

    def __init__(self, who: str, text: str, stars: int) -> None:
        self.who, self.text, self.stars = who, text, stars


class Card(Persistent):  # type: ignore[misc]
    """The card of a reader: the books, an address, and what is due."""

    def __init__(self, owner: str) -> None:
        self.owner, self.fines, self.address = owner, 0, ""
        self.borrowed = PersistentList()


class Library(Persistent):  # type: ignore[misc]
    """The root: books by name, and cards by reader."""

    __parent__ = None
    __name__ = None

    def __init__(self) -> None:
        self.books = OOBTree()
        self.cards = OOBTree()
        self.total_lent = 0
        for name, title, copies in (("emma", "Emma", 2), ("ulysses", "Ulysses", 1), ("faust", "Faust", 3)):
            self._add(name, Book(title, copies))
        for owner in ("ann", "bob"):
            card = Card(owner)
            card.__parent__, card.__name__ = self, f"card-{owner}"
            self.cards[owner] = card

    def _add(self, name: str, book: Book) -> None:
        book.__parent__, book.__name__ = self, name
        self.books[name] = book

    def __getitem__(self, name: str) -> Any:
        if name.startswith("card-"):
            return self.cards[name[5:]]
        return self.books[name]

    def __iter__(self) -> Any:
        yield from self.books
        yield from (f"card-{owner}" for owner in self.cards)


def root(top: Any) -> Library:
    if "library" not in top:
        top["library"] = Library()
    found: Library = top["library"]
    return found


@invariant
def lent_is_borrowed(root: Library) -> bool:
    lent = sum(len(book.loans) for book in root.books.values())
    borrowed = sum(len(card.borrowed) for card in root.cards.values())
    return lent == borrowed == root.total_lent


@invariant
def not_more_than_copies(root: Library) -> bool:
    return all(len(book.loans) <= book.copies for book in root.books.values())


@invariant
def fines_are_not_negative(root: Library) -> bool:
    return all(card.fines >= 0 for card in root.cards.values())


def page(title: str, body: str) -> str:
    return f"<!doctype html><html lang=en><title>{escape(title)}</title><body>{body}</body></html>"


def user_of(request: Request) -> str:
    if request.principal not in ("ann", "bob"):
        raise HTTPForbidden("log in first")
    return request.principal


@view(context=Library)
def index(library: Library, request: Request) -> str:
    items = "".join(f"<li><a href='/{name}'>{escape(book.title)}</a></li>" for name, book in library.books.items())
    mine = f"<a href='/card-{request.principal}'>my card</a>" if request.principal in library.cards else ""
    return page(
        "Library",
        f"<ul>{items}</ul>{mine}<form action=/@@search><input name=q value=mm><button>search</button></form>"
        f"<form action=/@@add method=post><input name=name value=new><input name=title value=New>"
        f"<input name=copies type=number value=1><button>add</button></form>",
    )


@view(context=Library, name="search")
def search(library: Library, request: Request, q: str = "") -> str:
    found = [(name, book) for name, book in library.books.items() if q.lower() in book.title.lower()]
    items = "".join(f"<li><a href='/{name}'>{escape(book.title)}</a></li>" for name, book in found)
    return page("Found", f"<p>{escape(q)}</p><ul>{items}</ul><a href=/>home</a>")


@view(context=Library, name="add", methods=("POST",))
def add(library: Library, request: Request, name: str, title: str, copies: int) -> Any:
    user_of(request)
    if not name.isidentifier() or not name.isascii() or name in library.books or len(name) > 40:
        raise HTTPBadRequest("that name cannot be taken")
    if not title.strip() or not 1 <= copies <= 20:
        raise HTTPBadRequest("a title, and from 1 to 20 copies")
    library._add(name, Book(title[:200], copies))
    return redirect(f"/{name}")


@view(context=Book)
def book(book: Book, request: Request) -> str:
    url = f"/{book.__name__}"
    reviews = "".join(f"<li>{one.stars}: {escape(one.text)} by {escape(one.who)}</li>" for one in book.reviews)
    tags = ", ".join(escape(tag) for tag in sorted(book.tags))
    mine = request.principal in book.loans
    action = "bring" if mine else "borrow"
    return page(
        book.title,
        f"<h1>{escape(book.title)}</h1><p>{book.copies - len(book.loans)} left; {tags}</p><ul>{reviews}</ul>"
        f"<form action='{url}/@@{action}' method=post><button>{action}</button></form>"
        f"<form action='{url}/@@review' method=post><input name=text value=good>"
        f"<input name=stars type=number value=3><button>review</button></form>"
        f"<form action='{url}/@@tag' method=post><input name=tag value=old><button>tag</button></form>"
        f"<a href=/>home</a>",
    )


@view(context=Book, name="borrow", methods=("POST",))
def borrow(book: Book, request: Request) -> Any:
    user = user_of(request)
    library = book.__parent__
    if user in book.loans or len(book.loans) >= book.copies:
        raise HTTPBadRequest("it is not there")
    book.loans.append(user)
    library.cards[user].borrowed.append(book.__name__)
    library.total_lent += 1
    return redirect(f"/{book.__name__}")


@view(context=Book, name="bring", methods=("POST",))
def bring(book: Book, request: Request) -> Any:
    user = user_of(request)
    library = book.__parent__
    if user not in book.loans:
        raise HTTPBadRequest("you have not borrowed it")
    book.loans.remove(user)
    library.cards[user].borrowed.remove(book.__name__)
    library.total_lent -= 1
    return redirect("/")


@view(context=Book, name="review", methods=("POST",))
def review(book: Book, request: Request, text: str, stars: int) -> Any:
    user = user_of(request)
    if not 1 <= stars <= 5:
        raise HTTPBadRequest("from 1 to 5 stars")
    book.reviews.append(Review(user, text[:1000], stars))
    return redirect(f"/{book.__name__}")


@view(context=Book, name="tag", methods=("POST",))
def tag(book: Book, request: Request, tag: str) -> Any:
    user_of(request)
    if not tag.strip() or len(tag) > 30:
        raise HTTPBadRequest("a tag of 30 characters at most")
    time.sleep(0.01)
    book.tags[tag] = True
    return redirect(f"/{book.__name__}")


@view(context=Card)
@belongs_to(lambda card: card.owner)
def card(card: Card, request: Request) -> str:
    if request.principal != card.owner:
        raise HTTPNotFound
    items = "".join(f"<li><a href='/{name}'>{name}</a></li>" for name in card.borrowed)
    url = f"/{card.__name__}"
    return page(
        "My card",
        f"<ul>{items}</ul><p>{escape(card.address)}</p><p>{card.fines}</p>"
        f"<form action='{url}/@@address' method=post><input name=address value='{escape(card.address)}'>"
        f"<button>save</button></form><form action='{url}/@@pay' method=post><input name=amount value=1>"
        f"<button>pay</button></form><a href=/>home</a>",
    )


@view(context=Card, name="address", methods=("POST",))
@belongs_to(lambda card: card.owner)
def address(card: Card, request: Request, address: str) -> Any:
    if request.principal != card.owner:
        raise HTTPNotFound
    card.address = address[:300]
    return redirect(f"/{card.__name__}")


@view(context=Card, name="pay", methods=("POST",))
@belongs_to(lambda card: card.owner)
def pay(card: Card, request: Request, amount: int) -> Any:
    if request.principal != card.owner:
        raise HTTPNotFound
    if not 0 < amount <= card.fines:
        raise HTTPBadRequest("not so much is due")
    card.fines -= amount
    return redirect(f"/{card.__name__}")
