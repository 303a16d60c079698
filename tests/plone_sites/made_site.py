"""Make a Plone site in a new instance: ``made_site.py DIRECTORY``. Its inis are plain.ini and ours.ini."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import transaction
import Zope2
from AccessControl.SecurityManagement import newSecurityManager
from OFS.SimpleItem import SimpleItem
from plone import api
from plone.app.textfield.value import RichTextValue
from plone.namedfile.file import NamedBlobFile, NamedBlobImage
from Products.CMFPlone.factory import addPloneSite
from Testing.makerequest import makerequest
from zope.component.hooks import setSite
from Zope2.Startup.run import make_wsgi_app
from ZPublisher import zpublish
from ZPublisher.BeforeTraverse import NameCaller, registerBeforeTraverse

from plone_sites.asked import PIXEL

PROFILES = ("plone.app.contenttypes:default", "plonetheme.barceloneta:default", "plone.restapi:default")
INI = """
[app:main]
use = egg:{}
zope_conf = %(here)s/zope.conf
"""
FILTERED = """
[app:zope]
use = egg:Zope#main
zope_conf = %(here)s/zope.conf
[pipeline:main]
pipeline = egg:Zope#httpexceptions zope
"""


class Rule(SimpleItem):
    """An access rule: leads each path to the page "about"."""

    id = "rule"

    @zpublish
    def __call__(self, client: Any, request: Any) -> None:
        request["TraversalRequestNameStack"][:] = ["about"]


def make(directory: Path) -> None:
    """Make the instance, and the site "Plone" in it."""
    mkwsgiinstance = Path(sys.executable).with_name("mkwsgiinstance")
    subprocess.run([mkwsgiinstance, "-d", directory, "-u", "admin:secret"], check=True)
    conf = directory / "etc" / "zope.conf"
    text = conf.read_text().replace("<filestorage>", "<blobstorage>\n  blob-dir $INSTANCE/var/blobs\n<filestorage>")
    conf.write_text(text.replace("</filestorage>", "</filestorage>\n</blobstorage>"))
    (directory / "etc" / "plain.ini").write_text(FILTERED)
    (directory / "etc" / "ours.ini").write_text(INI.format("wsgi-pipeline#zope"))
    make_wsgi_app({}, str(conf))
    app = makerequest(Zope2.app())
    newSecurityManager(None, app.acl_users.getUser("admin").__of__(app.acl_users))
    site = addPloneSite(app, "Plone", title="A site", extension_ids=PROFILES)
    setSite(site)
    fill(site)
    transaction.commit()
    app._p_jar.close()
    Zope2.DB.close()


def fill(site: Any) -> None:
    """Put users and contents into an empty site."""
    for name, roles in (("reader", ["Member"]), ("editor", ["Member", "Editor", "Contributor"])):
        site.acl_users.userFolderAddUser(name, "secret-word", roles, [])
    site.portal_workflow.setDefaultChain("simple_publication_workflow")

    def add(kind: str, name: str, container: Any = site, published: bool = True, **values: Any) -> Any:
        made = api.content.create(container, kind, name, title=name.capitalize(), **values)
        if published and site.portal_workflow.getChainFor(made):
            api.content.transition(made, "publish")
        return made

    text = RichTextValue("<p>Some text, and ünicode</p>", "text/html", "text/x-html-safe")
    add("Document", "about", text=text)
    folder = add("Folder", "folder")
    add("Document", "page", folder, text=text)
    add("Document", "secret", folder, published=False, text=text)
    add("News Item", "news", folder, text=text)
    add("Image", "picture", folder, image=NamedBlobImage(PIXEL, "image/png", "picture.png"))
    data = bytes(range(256)) * 400
    add("File", "data", folder, file=NamedBlobFile(data, "application/octet-stream", "data.bin"))
    add("Link", "link", folder, remoteUrl="http://elsewhere.example/")
    query = [{"i": "portal_type", "o": "plone.app.querystring.operation.selection.any", "v": ["Document"]}]
    add("Collection", "collection", folder, query=query)
    add("Document", "closed", folder, text=text).manage_permission("View", ["Manager"], acquire=0)
    ruled = add("Folder", "ruled")
    ruled._setOb("rule", Rule())
    registerBeforeTraverse(ruled, NameCaller("rule"), "Rule")


if __name__ == "__main__":
    from plone_sites import made_site  # so that objects are stored by that name

    made_site.make(Path(sys.argv[1]))
