"""An office in a ZODB: papers with files, which belong to their authors, a queue of jobs, mail after the commit."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from BTrees.IOBTree import IOBTree
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.list import PersistentList
from webob.exc import HTTPBadRequest, HTTPNotFound
from ZODB.blob import Blob

from pipeline import Request, redirect, view
from pipeline.promises import belongs_to, invariant

SEEN: dict[str, str] = {}
LAST: list[Any] = []
LISTENERS: list[Any] = []


class Paper(Persistent):  # type: ignore[misc]
    """A paper of one author."""

    def __init__(self, owner: str, title: str, text: str) -> None:
        self.owner, self.title, self.text = owner, title, text
        self.remarks = PersistentList()
        self.file: Any = None


class Office(Persistent):  # type: ignore[misc]
    """The root: papers by number, and how many there are of each author."""

    __parent__ = None
    __name__ = None

    def __init__(self) -> None:
        self.papers = IOBTree()
        self.counts = OOBTree()
        self.queue = PersistentList()
        self.next = 1

    def __getitem__(self, name: str) -> Paper:
        if not (name.isdigit() and len(name) < 9 and int(name) in self.papers):
            raise KeyError(name)
        found: Paper = self.papers[int(name)]
        return found

    def __iter__(self) -> Iterator[str]:
        return map(str, self.papers)

    def change(self, owner: str, by: int) -> None:
        self.counts[owner] = self.counts.get(owner, 0) + by


def root(mapping: Any) -> Office:
    if "office" not in mapping:
        mapping["office"] = Office()
    found: Office = mapping["office"]
    return found


def page(title: str, body: str) -> str:
    return f"<!doctype html><html lang=en><title>{escape(title)}</title><body>{body}</body></html>"


def own(paper: Paper, request: Request) -> Paper:
    if request.principal != paper.owner:
        raise HTTPNotFound
    return paper


def send(to: str, text: str) -> None:
    """Send a mail: here it is only counted."""


@invariant
def counts_are_right(root: Any) -> bool:
    found: dict[str, int] = {}
    for paper in root.papers.values():
        found[paper.owner] = found.get(paper.owner, 0) + 1
    return found == {owner: count for owner, count in root.counts.items() if count}


@invariant
def jobs_name_papers(root: Any) -> bool:
    return all(number < root.next for number in root.queue)


@view(context=Office)
def index(office: Office, request: Request, start: int = 0) -> str:
    papers = [(number, one) for number, one in office.papers.items() if one.owner == request.principal]
    shown = papers[start : start + 5]
    items = "".join(f"<li><a href=/{number}>{escape(one.title)}</a></li>" for number, one in shown)
    fields = "<input name=title><textarea name=text></textarea><button>add</button>"
    more = f"<a href=/?start={start + 5}>more</a>" if start + 5 < len(papers) else ""
    form = f"<form action=/@@add method=post>{fields}</form>{more}"
    return page("Office", f"<ul>{items}</ul>{form}<a href=/@@count>count</a>")


@view(context=Office, name="add", methods=("POST",))
def add(office: Office, request: Request, title: str, text: str = "") -> Any:
    if request.principal is None or not title.strip():
        raise HTTPBadRequest("log in, and give a title")
    number = office.next
    office.next = number + 1
    paper = office.papers[number] = Paper(request.principal, title[:200], text[:2000])
    office.change(paper.owner, 1)
    office.queue.append(number)
    request.after_commit(send, paper.owner, paper.title)
    return redirect(f"/{number}")


@view(context=Office, name="count")
def count(office: Office, request: Request) -> str:
    return page("Count", f"<p>{office.counts.get(request.principal or '', 0)}</p><a href=/>office</a>")


@view(context=Paper)
@belongs_to(lambda paper: paper.owner)
def show(paper: Paper, request: Request) -> str:
    own(paper, request)
    here = request.path_info.rstrip("/")
    remarks = "".join(f"<li>{escape(one)}</li>" for one in paper.remarks)
    forms = "".join(
        f"<form action={here}/@@{name} method=post><input name=text><button>{name}</button></form>"
        for name in ("remark", "file", "remove")
    )
    return page(paper.title, f"<p>{escape(paper.text)}</p><ul>{remarks}</ul>{forms}<a href=/>office</a>")


@view(context=Paper, name="remark", methods=("POST",))
@belongs_to(lambda paper: paper.owner)
def remark(paper: Paper, request: Request, text: str = "") -> Any:
    own(paper, request).remarks.append(text[:200])
    return redirect(request.path_info.rpartition("/")[0])


@view(context=Paper, name="file", methods=("POST",))
@belongs_to(lambda paper: paper.owner)
def file(paper: Paper, request: Request, text: str = "") -> Any:
    own(paper, request).file = Blob(text.encode())
    return redirect(request.path_info.rpartition("/")[0])


@view(context=Paper, name="remove", methods=("POST",))
@belongs_to(lambda paper: paper.owner)
def remove(paper: Paper, request: Request) -> Any:
    own(paper, request)
    office = request.root
    number = int(request.path_info.strip("/").partition("/")[0])
    del office.papers[number]
    office.change(paper.owner, -1)
    return redirect("/")
