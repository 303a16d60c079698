"""Explains requests to a Zope site, or shows the pages of its developer, in a process of its own: prints a list in
JSON for the list that it reads. The arguments are the name of a function and the directory."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import redirect_stdout
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import transaction
import Zope2
from OFS.Folder import Folder
from OFS.SimpleItem import SimpleItem
from paste.deploy import loadapp
from zope.configuration import xmlconfig
from ZPublisher import zpublish
from ZPublisher.BaseRequest import DefaultPublishTraverse
from ZPublisher.BeforeTraverse import NameCaller, registerBeforeTraverse

from pipeline.http import debug_key
from pipeline.loading.asking import answer_of, request_of
from pipeline.tools import views
from pipeline.tools.explain import as_dict, explain
from pipeline.zope.site import load
from zope_sites.compared_site import ZCML, Plain, fill, pages

MORE = """
<browser:page name="for_notes" for="zope_sites.compared_site.Note" class="zope_sites.explained_site.ForNotes"
              permission="zope2.Public"/>
<browser:page name="templated" for="*" template="{directory}/templated.pt" permission="zope2.Public"/>
<browser:page name="managed" for="*" template="{directory}/templated.pt" permission="zope2.ViewManagementScreens"/>
<adapter for="zope_sites.explained_site.Adapted zope.publisher.interfaces.browser.IBrowserRequest"
         provides="zope.publisher.interfaces.IPublishTraverse" factory="zope_sites.explained_site.Adapter"/>
"""


class ForNotes(Plain):
    """A view that folders have not."""


class Adapted(Folder):
    """A folder with an adapter for its traversal, as the contents of Plone have."""


class Adapter(DefaultPublishTraverse):
    """Finds what Zope's own finds."""


class Rule(SimpleItem):
    """An access rule: leads each path to the page "f1"."""

    id = "rule"

    @zpublish
    def __call__(self, client: Any, request: Any) -> None:
        request["TraversalRequestNameStack"][:] = ["@@plain"]


class Login(SimpleItem):
    """Leads visitors who are refused to a form."""

    id = "login"

    @zpublish
    def __call__(self, client: Any, request: Any) -> None:
        response = request.response
        response._unauthorized = lambda: response.redirect("http://localhost/login_form", lock=1)


def prepare(directory: Path) -> None:
    """Load the zope.conf of a directory, and fill its site."""
    load(str(directory / "zope.conf"))
    (directory / "templated.pt").write_text("<p>text</p>")
    more = MORE.replace("{directory}", str(directory))
    xmlconfig.string(ZCML.replace("{here}", str(Path(__file__).parent)) % (pages() + more))
    app = Zope2.app()
    fill(app)
    for name, rule in (("ruled", Rule()), ("doc", Login())):
        app.manage_addFolder(name)
        app[name]._setObject(rule.id, rule)
        registerBeforeTraverse(app[name], NameCaller(rule.id), type(rule).__name__)
    app._setObject("adapted", Adapted("adapted"))
    transaction.commit()
    app._p_jar.close()


def explained(directory: Path, asked: list[list[str]]) -> list[Any]:
    """Explain each request."""
    ini = str(directory / "site.ini")
    return [as_dict(explain(ini, request_of(method, path, headers, ()), [])) for method, path, *headers in asked]


def listed(directory: Path, kinds: list[str]) -> list[Any]:
    """Return what ``pipeline views`` lists for objects of each kind."""
    found = []
    for kind in kinds:
        with redirect_stdout(StringIO()) as printed:
            views.main([str(directory / "site.ini"), "--for", kind, "--json"])
        found.append(json.loads(printed.getvalue()))
    return found


def asked(directory: Path, requests: list[list[str]]) -> list[str]:
    """Return the status of each request, whether caches may not share the answer, and what it says: its body, or
    where it leads."""
    app = loadapp(f"config:{directory / 'site.ini'}")
    found = []
    for method, path, *headers in requests:
        environ = request_of(method, path, [*headers, "Sec-Fetch-Site: same-origin"], ())
        environ["REMOTE_USER"] = "visitor"  # of a server that copies a header
        line, told, body, _ = answer_of(app, environ)
        leads = {name: value for name, value in told if name in ("WWW-Authenticate", "Location")}
        private = "private " if ("Cache-Control", "private") in told else ""
        found.append(f"{line[:3]} {private}{next(iter(leads.values()), body.decode())}")
    return found


def shown(directory: Path, asked: list[list[str]]) -> list[Any]:
    """Ask each request as a visitor with the key of debug mode: the text of the answer, the page of the inspector,
    and the page of the inspector's list."""
    app = loadapp(f"config:{directory / 'site.ini'}")
    cookie = f"Cookie: {debug_key.COOKIE}={os.environ[debug_key.VARIABLE]}"

    def text(method: str, path: str, *headers: str) -> str:
        _, _, body, _ = answer_of(app, request_of(method, path, [*headers, cookie, "Accept: text/html"], ()))
        return re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", "", body.decode())))

    found = []
    for number, one in enumerate(asked, 1):
        found.append((text(*one), text("GET", f"/++inspect++/{number}"), text("GET", "/++inspect++/?error=1")))
    return found


if __name__ == "__main__":
    from zope_sites import explained_site  # so that objects are stored by that name

    explained_site.prepare(Path(sys.argv[2]))
    print("\n" + json.dumps(getattr(explained_site, sys.argv[1])(Path(sys.argv[2]), json.load(sys.stdin))))
