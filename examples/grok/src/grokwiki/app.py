"""The wiki: a container of pages, each with a text that links to others by [[name]]."""

from __future__ import annotations

import re
from contextlib import suppress
from html import escape

import grok
import grokcore.rest
import transaction
from grok import index
from grokcore.site.util import create_application
from zope import schema
from zope.catalog.interfaces import ICatalog
from zope.component import getUtility
from zope.component.hooks import site
from zope.index.text.parsetree import ParseError
from zope.interface import Interface
from zope.processlifetime import IDatabaseOpenedWithRoot

NAME = re.compile(r"[A-Za-z0-9-]+")
LINK = re.compile(r"\[\[([A-Za-z0-9-]+)\]\]")


class ViewPages(grok.Permission):
    grok.name("grokwiki.View")


class EditPages(grok.Permission):
    grok.name("grokwiki.Edit")


class Editor(grok.Role):
    grok.name("grokwiki.Editor")
    grok.permissions("grokwiki.View", "grokwiki.Edit")


class IPage(Interface):
    """What a page has."""

    title = schema.TextLine(title="Title", required=False)
    text = schema.Text(title="Text", required=False)


class Wiki(grok.Application, grok.Container):
    """Pages by their names."""


@grok.implementer(IPage)
class Page(grok.Model):
    """A page with a title and a text."""

    def __init__(self, title: str = "", text: str = "") -> None:
        self.title = title
        self.text = text


class PageIndexes(grok.Indexes):
    grok.site(Wiki)
    grok.context(IPage)

    title = index.Field()
    text = index.Text()


class WikiIndex(grok.View):
    grok.context(Wiki)
    grok.name("index")
    grok.require("grokwiki.View")
    grok.template("wiki")

    def pages(self) -> list[Page]:
        return [self.context[name] for name in sorted(self.context)]


class PageIndex(grok.View):
    grok.context(Page)
    grok.name("index")
    grok.require("grokwiki.View")
    grok.template("page")

    def text(self) -> str:
        wiki = self.url(self.context.__parent__)
        return LINK.sub(rf'<a href="{wiki}/\1">\1</a>', escape(self.context.text))


class Search(grok.View):
    grok.context(Wiki)
    grok.require("grokwiki.View")

    def update(self, words: str = "") -> None:
        self.words, self.found = words, []
        if words:
            with suppress(ParseError):  # such as "and" alone
                self.found = sorted(getUtility(ICatalog).searchResults(text=words), key=lambda page: page.title)


class Add(grok.AddForm):
    grok.context(Wiki)
    grok.require("grokwiki.Edit")

    form_fields = grok.Fields(
        name=schema.TextLine(title="Name", constraint=lambda value: NAME.fullmatch(value) is not None)
    ) + grok.AutoFields(IPage)

    @grok.action("Add")
    def add(self, name: str, **data: str) -> None:
        if name in self.context:
            self.status = f"There is a page {name}."
            return
        page = self.context[name] = Page(data["title"] or name, data["text"] or "")
        self.redirect(self.url(page))


class Edit(grok.EditForm):
    grok.context(Page)
    grok.require("grokwiki.Edit")

    form_fields = grok.AutoFields(IPage)

    @grok.action("Save")
    def save(self, **data: str) -> None:
        self.applyData(self.context, **data)
        self.redirect(self.url(self.context))


class Delete(grok.View):
    grok.context(Page)
    grok.require("grokwiki.Edit")

    def render(self) -> None:
        wiki = self.context.__parent__
        if self.request.method == "POST":
            del wiki[self.context.__name__]
        self.redirect(self.url(wiki))


class RESTLayer(grokcore.rest.IRESTLayer):
    grokcore.rest.restskin("rest")


class PageREST(grokcore.rest.REST):
    grok.context(Page)
    grok.layer(RESTLayer)
    grok.require("grokwiki.View")

    def GET(self) -> str:
        self.response.setHeader("Content-Type", "text/plain;charset=utf-8")
        return self.context.text


class WikiREST(grokcore.rest.REST):
    grok.context(Wiki)
    grok.layer(RESTLayer)
    grok.require("grokwiki.View")

    def GET(self) -> str:
        self.response.setHeader("Content-Type", "text/plain;charset=utf-8")
        return "\n".join(sorted(self.context))


@grok.subscribe(IDatabaseOpenedWithRoot)
def make_wiki(event: IDatabaseOpenedWithRoot) -> None:
    """Make the wiki in a new database."""
    connection = event.database.open()
    try:
        root = connection.root()["Application"]
        if "wiki" not in root:
            wiki = create_application(Wiki, root, "wiki")
            with site(wiki):  # whose catalog hears of the page
                wiki["start"] = Page("Start", "Welcome. See [[help]].")
            transaction.commit()
    finally:
        transaction.abort()
        connection.close()
