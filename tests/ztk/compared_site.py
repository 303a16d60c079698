"""A site with a view for each thing that a publication may meet, served by Zope and by us on two databases."""

from __future__ import annotations

from typing import Any, ClassVar

import grok
import grokcore.rest
import grokcore.xmlrpc
import transaction
import zope.publisher.interfaces
from webob.exc import HTTPFound
from ZODB.DB import DB
from ZODB.interfaces import IDatabase
from ZODB.MappingStorage import MappingStorage
from ZODB.POSException import ConflictError
from zope.component import getGlobalSiteManager, provideUtility
from zope.component.hooks import setHooks
from zope.configuration import xmlconfig
from zope.event import notify
from zope.interface import Interface, implementer
from zope.processlifetime import DatabaseOpened
from zope.publisher.browser import BrowserPage
from zope.publisher.interfaces import NotFound, Retry
from zope.publisher.interfaces.browser import IBrowserRequest, IDefaultBrowserLayer
from zope.security.interfaces import Unauthorized
from zope.security.proxy import removeSecurityProxy

ZCML = """
<configure xmlns="http://namespaces.zope.org/zope" xmlns:browser="http://namespaces.zope.org/browser"
           xmlns:grok="http://namespaces.zope.org/grok" xmlns:xmlrpc="http://namespaces.zope.org/xmlrpc"
           i18n_domain="test">
  <include package="zope.security" file="meta.zcml"/>
  <include package="zope.component" file="meta.zcml"/>
  <include package="zope.browserpage" file="meta.zcml"/>
  <include package="zope.publisher" file="meta.zcml"/>
  <include package="grok"/>
  <include package="grokcore.rest" file="meta.zcml"/>
  <include package="grokcore.rest"/>
  <include package="grokcore.xmlrpc" file="meta.zcml"/>
  <include package="grokcore.xmlrpc"/>
  %s
  <utility provides="zope.error.interfaces.IErrorReportingUtility"
           component="zope.error.error.globalErrorReportingUtility"/>
  <permission id="test.View" title="View"/>
  <permission id="test.Edit" title="Edit"/>
  <grok:grok package="ztk.compared_site"/>
  <browser:page name="plain" for="ztk.compared_site.INote" class="ztk.compared_site.Plain" permission="test.View"/>
  <browser:page name="write" for="ztk.compared_site.INote" class="ztk.compared_site.Write" permission="test.View"/>
  <browser:page name="secret" for="ztk.compared_site.INote" class="ztk.compared_site.Plain" permission="test.Edit"/>
  <unauthenticatedPrincipal id="zope.anybody" title="Unauthenticated User"/>
  <principal id="test.editor" title="Editor" login="editor" password="secret"/>
  <role id="test.Editor" title="Editor"/>
  <grant permission="test.View" principal="zope.anybody"/>
  <grant permission="test.View" role="test.Editor"/>
  <grant permission="test.Edit" role="test.Editor"/>
  <grant role="test.Editor" principal="test.editor"/>
  %s
</configure>
"""
NO_POLICY = '<securityPolicy component="zope.security.simplepolicies.PermissiveSecurityPolicy"/>'
PAGE = "<!DOCTYPE html>\n<html><head><title>Note</title></head><body>%s</body></html>\n"


class INote(Interface):
    """A note."""


class Folder(grok.Container):
    """A folder."""


@implementer(INote)
class Note(grok.Model):
    """A note with a text, a counter and a log of attempts."""

    text = "A note with an ü"
    count = 0
    entries: tuple[str, ...] = ()


class Site(grok.Application, grok.Container):
    """A Grok application."""


class Traversed(grok.Model):
    """Made by a traverser."""


class Lost(Exception):
    """An error with a view of its own."""


class LostView(grok.View):
    """Shows where the error view stands."""

    grok.context(Lost)
    grok.name("index")
    grok.require("zope.Public")

    def render(self) -> str:
        return f"lost at {type(removeSecurityProxy(self.context.__parent__)).__name__}"


class Dynamic(grok.Model):
    """Makes what it leads to."""

    def traverse(self, name: str) -> Any:
        if name == "lost":
            raise Lost
        return Traversed() if name.startswith("made") else None


class Base(grok.View):
    """A view that shows what ``answer`` returns."""

    grok.baseclass()
    grok.context(Interface)
    grok.require("zope.Public")

    def render(self) -> Any:
        return self.answer()


class Index(Base):
    grok.require("test.View")

    def answer(self) -> str:
        return PAGE % getattr(self.context, "text", "none")


class Url(Base):
    def answer(self) -> str:
        return f"{self.url()} {self.request.URL} {self.request.getApplicationURL()} {self.application_url_()}"

    def application_url_(self) -> str:
        return str(self.request.getVirtualHostRoot() is not None)


class Form(Base):
    def answer(self) -> str:
        return repr(
            sorted((key, value) for key, value in self.request.form.items() if isinstance(value, (str, list)))
        )


class Upload(Base):
    def answer(self) -> str:
        upload = self.request.form["file"]
        return f"{upload.filename} {len(upload.read())} {upload.headers['content-type']}"


class Cookies(Base):
    def answer(self) -> str:
        self.request.response.setCookie("seen", "ü; yes", path="/", max_age=3)
        self.request.response.expireCookie("gone")
        return repr(sorted(self.request.cookies.items()))


class Headers(Base):
    def answer(self) -> bytes:
        response = self.request.response
        response.setStatus(202, "Taken")
        response.setHeader("X-Twice", "1")
        response.addHeader("X-Twice", "2")
        response.setHeader("Content-Type", "text/plain;charset=iso-8859-1")
        return "ü".encode("latin-1")


class Charset(Base):
    def answer(self) -> str:
        self.request.response.setHeader("Content-Type", "text/plain;charset=iso-8859-15")
        return "10 €"


class Json(Base):
    def answer(self) -> str:
        self.request.response.setHeader("Content-Type", "application/json")
        return '{"a": "ü"}'


class Nothing(Base):
    def answer(self) -> None:
        self.request.response.setStatus(204)


class Unmodified(Base):
    def answer(self) -> str:
        self.request.response.setStatus(304)
        return ""


class Stream(Base):
    def answer(self) -> Any:
        from zope.publisher.http import DirectResult

        self.request.response.setHeader("Content-Type", "text/plain")
        return DirectResult(block for block in (b"one", b"two"))


class Bad(Base):
    def answer(self) -> int:
        return 1


class Here(Base):
    def answer(self) -> str:
        self.redirect(self.url(name="index"))
        return ""


class Away(Base):
    def answer(self) -> str:
        self.request.response.redirect("http://other.example/", trusted=True)
        return ""


class Astray(Base):
    def answer(self) -> str:
        self.request.response.redirect("http://other.example/")
        return ""


class RaisedRedirect(Base):
    grok.name("raised")

    def answer(self) -> str:
        raise zope.publisher.interfaces.Redirect("http://other.example/", trusted=True)


class Fails(Base):
    def answer(self) -> str:
        self.context.count += 1
        raise RuntimeError("It failed.")


class OfWebOb(Base):
    """Raises a redirect that is an error to Zope."""

    grok.name("webob")

    def answer(self) -> str:
        self.context.count += 1
        raise HTTPFound(location="/")


class Loses(Base):
    def answer(self) -> str:
        raise Lost


class Missing(Base):
    def answer(self) -> str:
        raise NotFound(self.context, "missing", self.request)


class Refused(Base):
    def answer(self) -> str:
        raise Unauthorized("test")


class Count(Base):
    def answer(self) -> str:
        self.context.count += 1
        return str(self.context.count)


class Shown(Base):
    def answer(self) -> str:
        return str(self.context.count)


class Append(Base):
    """Enters an id, on the one object that all write."""

    def answer(self) -> str:
        self.context.entries = (*self.context.entries, self.request.form["id"])
        return "stored"


class Entries(Base):
    def answer(self) -> str:
        return " ".join(self.context.entries)


class CountedNotFound(Base):
    grok.name("counted404")

    def answer(self) -> str:
        self.context.count += 1
        self.request.response.setStatus(404)
        return "counted"


class Doomed(Base):
    def answer(self) -> str:
        self.context.count += 1
        transaction.doom()
        return "doomed"


class Midway(Base):
    def answer(self) -> str:
        self.context.count += 1
        transaction.commit()
        self.context.count += 10
        transaction.abort()
        return str(self.context.count)


class Begun(Base):
    def answer(self) -> str:
        self.context.count += 1
        transaction.begin()
        return str(self.context.count)


class Savepoint(Base):
    def answer(self) -> str:
        self.context.count += 1
        point = transaction.savepoint()
        self.context.count += 5
        point.rollback()
        return str(self.context.count)


class Other(Base):
    """Opens another connection."""

    def answer(self) -> str:
        connection = self.request.publication.db.open()
        try:
            return repr(sorted(connection.root()["Application"].keys()))
        finally:
            connection.close()


class Again(Base):
    """Fails as often as the query says, in a way that is tried again."""

    tries: ClassVar[dict[str, int]] = {}
    error: Any = ConflictError

    def answer(self) -> str:
        key = self.request.form["key"]
        self.tries[key] = self.tries.get(key, 0) + 1
        self.context.count += 1
        if self.tries[key] <= int(self.request.form["times"]):
            raise self.error("again") if self.error is ConflictError else self.error(None)
        return f"{self.tries[key]} {self.context.count}"


class AgainByRetry(Again):
    grok.name("retry")
    error = Retry


class Annotated(Base):
    """Shows what the last transaction says of itself."""

    def answer(self) -> str:
        storage = self.request.publication.db.storage
        last = [*storage.iterator()][-1]
        extension = dict(last.extension)
        return f"{last.user!r} {last.description!r} {sorted(extension.items())}"


class Who(Base):
    def answer(self) -> str:
        return f"{self.request.principal.id} {[p.principal.id for p in self.request.interaction.participations]}"


class Edit(grok.View):
    grok.context(Note)
    grok.require("test.Edit")

    def render(self) -> str:
        return "edited"


class Plain(BrowserPage):
    def __call__(self) -> str:
        return PAGE % removeSecurityProxy(self.context).text


class Write(BrowserPage):
    def __call__(self) -> str:
        note = removeSecurityProxy(self.context)
        note.count += 1
        return f"{note.count}"


class Skin(IDefaultBrowserLayer, IBrowserRequest):
    grok.skin("other")


class Skinned(grok.View):
    grok.context(Interface)
    grok.layer(Skin)
    grok.name("shown")
    grok.require("zope.Public")

    def render(self) -> str:
        return "in another skin"


class Layer(grokcore.rest.IRESTLayer):
    grokcore.rest.restskin("rest")


class NoteREST(grokcore.rest.REST):
    grok.layer(Layer)
    grok.context(Note)
    grok.require("zope.Public")

    def GET(self) -> str:
        return "GET " + self.context.text

    def POST(self) -> str:
        return "POST " + repr(self.body)

    def PUT(self) -> str:
        self.context.count += 1
        return "PUT " + repr(self.body)

    def DELETE(self) -> str:
        return "DELETE"


class NoteRPC(grokcore.xmlrpc.XMLRPC):
    grok.context(Note)
    grok.require("zope.Public")

    def add(self, one: int, two: int) -> int:
        return one + two

    def fail(self) -> int:
        raise RuntimeError("It failed.")


_configured: list[bool] = []


def make_db(storage: Any = None, policy: bool = True, more: str = "") -> DB:
    """Return a database with the site in it; the first call configures the process, with more ZCML."""
    if not _configured:
        xmlconfig.string(ZCML % ("" if policy else NO_POLICY, more))
        setHooks()  # local sites, as zope.app.wsgi.config does
        _configured.append(True)
    db = DB(MappingStorage() if storage is None else storage)
    manager = getGlobalSiteManager()
    before = manager.queryUtility(IDatabase)
    provideUtility(db, IDatabase)
    notify(DatabaseOpened(db))
    connection = db.open()
    root = connection.root()["Application"]
    if "folder" in root:
        connection.close()
        return db
    root["folder"] = Folder()
    root["folder"]["note"] = Note()
    root["dynamic"] = Dynamic()
    root["ünicode"] = Note()
    root["site"] = Site()
    root["site"]["note"] = Note()
    transaction.commit()
    connection.close()
    if before is not None:
        provideUtility(before, IDatabase)
    return db
