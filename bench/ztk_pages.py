"""``python -m bench.ztk_pages``: instructions of pages that Toolkit sites have, here and on zope.app.wsgi.

valgrind counts the instructions of a process that has configured the site, and of its forks. Two forks ask one
application for one page until nothing is made for the first time any more; one of them asks 100 times more, and the
difference is counted. It takes some minutes. It needs valgrind, and the environment of ``make test-ztk``.

``python -m bench.ztk_pages ROW...`` measures these rows only.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import grok
import transaction
import zope.app.wsgi
import zope.contentprovider.interfaces
from zope.component import getMultiAdapter
from zope.component.hooks import site
from zope.publisher.browser import BrowserPage
from zope.traversing.browser import absoluteURL

from bench import ztk_site
from bench.ztk import EDITOR, environ_of
from pipeline.ztk import WSGIPublisherApplication
from ztk.asked import XML, call
from ztk.compared_site import PAGE, INote

sys.path.insert(0, str(Path(__file__).parent.parent / "examples/grok/src"))

from grokwiki.app import Page

ZCML = """
  <include package="grokwiki"/>
  <grok:grok package="bench.ztk_pages"/>
  <role id="zope.Anonymous" title="Anonymous"/>
  <grant permission="grokwiki.View" role="zope.Anonymous"/>
  <grant role="grokwiki.Editor" principal="test.editor"/>
  <browser:page name="viewlets" for="ztk.compared_site.INote" class="bench.ztk_pages.Viewlets"
                permission="test.View"/>
  <browser:page name="large" for="ztk.compared_site.INote" class="bench.ztk_pages.Large" permission="test.View"/>
"""


class Column(grok.ViewletManager):
    grok.context(INote)
    grok.name("bench.column")


class Link(grok.Viewlet):
    """Shows a link to its note."""

    grok.baseclass()
    grok.context(INote)
    grok.viewletmanager(Column)
    grok.require("test.View")

    def render(self) -> str:
        return f'<a href="{absoluteURL(self.context, self.request)}/{self.__name__}">{self.__name__}</a>'


class First(Link):
    """The first of five."""


class Second(Link):
    """Another."""


class Third(Link):
    """Another."""


class Fourth(Link):
    """Another."""


class Fifth(Link):
    """The last."""


class Viewlets(BrowserPage):
    """A page with a column of viewlets."""

    def __call__(self) -> str:
        kind = zope.contentprovider.interfaces.IContentProvider
        column = getMultiAdapter((self.context, self.request, self), kind, "bench.column")
        column.update()
        return PAGE % column.render()


class Large(BrowserPage):
    def __call__(self) -> str:
        return PAGE % LINES


LINES = "A line of a page that has 100 KB.\n" * 3_000
NEW = {"form.title": "Page 3", "form.text": "A text with the number 000000.", "form.actions.save": "Save"}


class Kind(NamedTuple):
    """A page, and what its answer is known by."""

    path: str
    shown: bytes
    status: str = "200"
    headers: Mapping[str, str] = {}
    body: bytes = b""


POSTED = {"CONTENT_TYPE": "application/x-www-form-urlencoded", **EDITOR}
KINDS: dict[str, Kind] = {
    "Grok page": Kind(ztk_site.PATH, b"A note"),
    "plain page": Kind(f"{ztk_site.PATH}/plain", b"A note"),
    "5 viewlets": Kind(f"{ztk_site.PATH}/viewlets", b"note/fifth"),
    "formlib page": Kind("/wiki/page-3/edit", b'name="form.title"', headers=EDITOR),
    "its POST": Kind("/wiki/page-3/edit", b"", "303", POSTED, urlencode(NEW).encode()),
    "template, 20 links": Kind("/wiki", b"page-19"),
    "catalog, 20 found": Kind("/wiki/search?words=links", b"page-19"),
    "XML-RPC": Kind(ztk_site.PATH, b"<int>3</int>", headers=XML, body=call("add", 1, 2)),
    "100 KB": Kind(f"{ztk_site.PATH}/large", b"100 KB"),
}
WARM, MANY = 60, 100


def make(application: Callable[[Any], Any]) -> Any:
    """Return an application of the site, on a database of its own."""
    db = ztk_site.make(more=ZCML)
    connection = db.open()
    wiki = connection.root()["Application"]["wiki"]
    with site(wiki):
        for number in range(20):
            wiki[f"page-{number}"] = Page(f"Page {number}", "A text that links to [[page-1]].")
    transaction.commit()
    connection.close()
    return application(db)


def asker(app: Any, kind: Kind) -> Callable[[], None]:
    """Return a function that asks for a page and checks the answer."""
    path, _, query = kind.path.partition("?")
    environ = environ_of(path, kind.headers) | {
        "REQUEST_METHOD": "POST" if kind.body else "GET",
        "QUERY_STRING": query,
        "CONTENT_LENGTH": str(len(kind.body)),
    }
    found: list[str] = []
    numbers = count(1)

    def start_response(status: str, headers: Any, exc_info: Any = None) -> None:
        found[:] = [status]

    def ask() -> None:
        sent = kind.body and kind.body.replace(b"000000", b"%06d" % next(numbers))  # each POST stores something
        blocks = app({**environ, "wsgi.input": io.BytesIO(sent)}, start_response)
        body = b"".join(blocks)
        if hasattr(blocks, "close"):
            blocks.close()
        if not found[0].startswith(kind.status) or kind.shown not in body:
            raise SystemExit(f"{kind.path}: {found[0]} {body!r}")

    return ask


def counted(rows: list[str]) -> None:
    """Configure the site, then fork for each measurement. valgrind runs this."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    make(lambda db: None)
    for row in rows:
        for application in (zope.app.wsgi.WSGIPublisherApplication, WSGIPublisherApplication):
            for times in (0, MANY):
                child = os.fork()
                if not child:
                    ask = asker(make(application), KINDS[row])
                    for _ in range(WARM):
                        ask()
                    gc.collect()
                    gc.disable()
                    for _ in range(times):
                        ask()
                    os._exit(0)
                os.waitpid(child, 0)
                print(child, flush=True)


def instructions(rows: list[str]) -> list[int]:
    """Return the instructions of a request: for each row that of Zope, then that of this pipeline."""
    with tempfile.TemporaryDirectory() as logs:
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        command += [f"--log-file={logs}/%p", sys.executable, "-m", "bench.ztk_pages", "--counted", *rows]
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        whole = []
        for child in ran.stdout.split():
            found = re.search(r"I +refs: +([0-9,]+)", (Path(logs) / child).read_text())
            if found is None:
                raise SystemExit(f"valgrind does not tell of process {child}")
            whole.append(int(found[1].replace(",", "")))
    return [(many - none) // MANY for none, many in zip(whole[::2], whole[1::2], strict=True)]


def main(rows: list[str]) -> None:
    found = instructions(rows)
    print(f"{'thousand instructions':<24}{'Zope':>10}{'here':>10}{'ratio':>8}")
    for row, theirs, ours in zip(rows, found[::2], found[1::2], strict=True):
        print(f"{row:<24}{theirs / 1000:>10,.0f}{ours / 1000:>10,.0f}{ours / theirs:>8.3f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--counted"]:
        counted(sys.argv[2:])
    else:
        main(sys.argv[1:] or list(KINDS))
