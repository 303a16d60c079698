"""A Grok site with a plain page of the Zope Toolkit, three containers deep, for ``bench.ztk``."""

from __future__ import annotations

import grok
import transaction
from ZODB.DB import DB
from ZODB.interfaces import IDatabase
from ZODB.MappingStorage import MappingStorage
from zope.component import provideUtility
from zope.configuration import xmlconfig
from zope.event import notify
from zope.interface import Interface, implementer
from zope.processlifetime import DatabaseOpened
from zope.publisher.browser import BrowserPage

ZCML = """
<configure xmlns="http://namespaces.zope.org/zope" xmlns:browser="http://namespaces.zope.org/browser"
           xmlns:grok="http://namespaces.zope.org/grok" i18n_domain="bench">
  <include package="zope.security" file="meta.zcml"/>
  <include package="grok"/>
  %s
  <utility provides="zope.error.interfaces.IErrorReportingUtility"
           component="zope.error.error.globalErrorReportingUtility"/>
  <permission id="bench.View" title="View"/>
  <grok:grok package="bench.ztk_site"/>
  <browser:page name="plain" for="bench.ztk_site.INote" class="bench.ztk_site.Plain" permission="bench.View"/>
  <browser:page name="write" for="bench.ztk_site.INote" class="bench.ztk_site.Write" permission="bench.View"/>
  <unauthenticatedPrincipal id="zope.anybody" title="Unauthenticated User"/>
  <principal id="bench.editor" title="Editor" login="editor" password="secret"/>
  <role id="bench.Editor" title="Editor"/>
  <grant permission="bench.View" principal="zope.anybody"/>
  <grant permission="bench.View" role="bench.Editor"/>
  <grant role="bench.Editor" principal="bench.editor"/>
</configure>
"""
NO_POLICY = '<securityPolicy component="zope.security.simplepolicies.PermissiveSecurityPolicy"/>'


class INote(Interface):
    """A note of the site."""


class Folder(grok.Container):
    """A folder of the site."""


@implementer(INote)
class Note(grok.Model):
    """A note with a text and a counter."""

    text = "A note, which is shown on a page. " * 20
    count = 0


class View(grok.Permission):
    """The permission to read, as a Grok view names it."""

    grok.name("bench.Read")


class Index(grok.View):
    """The page of a note."""

    grok.context(Note)
    grok.require("bench.View")

    def render(self) -> str:
        return PAGE % self.context.text


class Plain(BrowserPage):
    """The same page, as a site without Grok has it."""

    def __call__(self) -> str:
        return PAGE % self.context.text


class Write(BrowserPage):
    """Adds to the counter."""

    def __call__(self) -> str:
        from zope.security.proxy import removeSecurityProxy

        note = removeSecurityProxy(self.context)
        note.count += 1
        return f"{note.count}"


PAGE = "<!DOCTYPE html>\n<html><head><title>A note</title></head><body><p>%s</p></body></html>\n"
PATH = "/one/two/three/note"


def make(policy: bool = True) -> DB:
    """Configure the process and return the database of the site."""
    xmlconfig.string(ZCML % ("" if policy else NO_POLICY))
    db = DB(MappingStorage())
    provideUtility(db, IDatabase)
    notify(DatabaseOpened(db))
    connection = db.open()
    folder = connection.root()["Application"]
    for name in ("one", "two", "three"):
        folder[name] = Folder()
        folder = folder[name]
    folder["note"] = Note()
    transaction.commit()
    connection.close()
    return db
