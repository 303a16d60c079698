"""A Zope site with something for each hook of ZPublisher, on a database for Zope and on a copy of it for us."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import transaction
import Zope2
from AccessControl.class_init import InitializeClass
from AccessControl.SecurityInfo import ClassSecurityInfo
from App.ZApplication import ZApplicationWrapper
from OFS.Folder import Folder
from OFS.SimpleItem import SimpleItem
from Products.Five.browser import BrowserView
from Products.PageTemplates.ZopePageTemplate import ZopePageTemplate
from Products.SiteAccess.VirtualHostMonster import VirtualHostMonster
from webob.exc import HTTPTooManyRequests
from zExceptions import BadRequest, Forbidden, Redirect, Unauthorized
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage
from ZODB.POSException import ConflictError
from zope.configuration import xmlconfig
from zope.interface import implementer
from ZPublisher import WSGIPublisher, zpublish
from ZPublisher.httpexceptions import HTTPExceptionHandler
from ZPublisher.Iterators import IUnboundStreamIterator

from pipeline.composition import Pipeline
from pipeline.zope.application import site
from pipeline.zope.site import load

ZOPE_CONF = """
instancehome {home}
{more}
<zodb_db main>
  <filestorage>
    path {home}/Data.fs
  </filestorage>
  mount-point /
</zodb_db>
"""
ZCML = """
<configure xmlns="http://namespaces.zope.org/zope" xmlns:browser="http://namespaces.zope.org/browser"
           i18n_domain="test">
  <include package="Products.Five"/>
  %s
  <browser:page name="private" for="*" class="zope_sites.compared_site.Plain"
                permission="zope2.ViewManagementScreens"/>
  <browser:page name="index.html" for="zope_sites.compared_site.Lost"
                class="zope_sites.compared_site.LostView" permission="zope2.Public"/>
  <browser:resource name="logo.png" file="{here}/logo.png"/>
  <browser:resource name="style.css" file="{here}/style.css"/>
</configure>
"""
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000000000500010d0a2db40000000049454e44ae426082"
)


class Note(SimpleItem):
    """A note with a counter."""

    meta_type = "Note"
    security = ClassSecurityInfo()
    security.declareObjectPublic()
    count = 0
    text = "A note"

    def __init__(self, id: str) -> None:
        self.id = id

    @security.public
    @zpublish
    def index_html(self, REQUEST: Any) -> str:
        """The default page."""
        return f"<html><head><title>n</title></head><body>{self.text} {self.count}</body></html>"

    @security.public
    @zpublish
    def add(self, number: int = 1) -> str:
        """Add a number, for XML-RPC and for forms."""
        self.count += int(number)
        return str(self.count)

    @security.protected("Change Images and Files")
    @zpublish
    def edit(self, text: str) -> str:
        """Change the text."""
        self.text = text
        return text

    @security.public
    def hidden(self) -> str:
        return "not published"

    def private(self) -> str:
        """Not declared."""
        return "private"


InitializeClass(Note)


class Made(SimpleItem):
    """Made by a traverser."""

    def __init__(self, id: str) -> None:
        self.id = id

    @zpublish
    def index_html(self) -> str:
        """The default page."""
        return f"made {self.id}"


class Dynamic(Folder):
    """Leads to objects that it makes."""

    def __bobo_traverse__(self, request: Any, name: str) -> Any:
        if name.startswith("made"):
            return Made(name).__of__(self)
        if name == "lost":
            raise Lost(name)
        return getattr(self, name)


class Hooked(Folder):
    """Looks at each request that passes."""

    def __before_publishing_traverse__(self, ob: Any, request: Any) -> None:
        request.response.setHeader("X-Hooked", self.getId())
        if request.form.get("away"):
            raise Redirect("http://elsewhere.example/")


class Lost(Exception):
    """An error with an exception view."""


class Tries:
    """How often each key was tried."""

    made: dict[str, int] = {}  # noqa: RUF012


class View(BrowserView):
    """A view that shows what ``answer`` returns."""

    def __call__(self) -> Any:
        return self.answer()


class LostView(BrowserView):
    def __call__(self) -> str:
        self.request.response.setHeader("X-Lost", "1")
        return f"lost at {type(self.__parent__).__name__}"


class Plain(View):
    def answer(self) -> str:
        return "<html><head><title>plain</title></head><body>plain</body></html>"


class Text(View):
    def answer(self) -> str:
        self.request.response.setHeader("Content-Type", "text/plain; charset=utf-8")
        return "a text with an ü"


class Form(View):
    def answer(self) -> str:
        return repr(sorted(self.request.form.items()))


class Cookies(View):
    def answer(self) -> str:
        self.request.response.setCookie("a", "1", path="/")
        self.request.response.setCookie("b", "ü 2", http_only=True)
        self.request.response.expireCookie("c")
        return repr(sorted(self.request.cookies.items()))


class Write(View):
    def answer(self) -> str:
        self.context.title = self.request.form["title"]
        return "written"


class WriteAndFail(Write):
    def answer(self) -> str:
        super().answer()
        raise ValueError("It failed.")


class WriteAndRefuse(Write):
    def answer(self) -> str:
        super().answer()
        raise BadRequest("refused")


class WriteAndSetStatus(Write):
    def answer(self) -> str:
        super().answer()
        self.request.response.setStatus(404)
        return "a 404 that is committed, as Zope does"


class Doom(Write):
    def answer(self) -> str:
        super().answer()
        transaction.doom()
        return "doomed"


class CommitItself(Write):
    def answer(self) -> str:
        super().answer()
        transaction.get().note("by hand")
        transaction.commit()
        return "committed"


class Again(Write):
    def answer(self) -> str:
        key, times = self.request.form["key"], int(self.request.form["times"])
        Tries.made[key] = Tries.made.get(key, 0) + 1
        self.context.title = f"{key}{Tries.made[key]}"
        if Tries.made[key] <= times:
            raise ConflictError(f"attempt {Tries.made[key]}")
        return f"at attempt {Tries.made[key]} {self.request.retry_count}"


class Refuse(View):
    def answer(self) -> str:
        raise Unauthorized("not you")


class Forbid(View):
    def answer(self) -> str:
        raise Forbidden("no")


class GoOn(View):
    def answer(self) -> None:
        self.request.response.redirect(self.context.absolute_url() + "/@@plain", status=303)


class GoAway(View):
    def answer(self) -> str:
        raise Redirect("http://elsewhere.example/x")


class Fail(View):
    def answer(self) -> str:
        raise Lost("gone")


class Nothing(View):
    def answer(self) -> None:
        return None


class Bytes(View):
    def answer(self) -> bytes:
        return b"\x00\x01bytes"


class Written(View):
    def answer(self) -> str:
        self.request.response.setHeader("Content-Type", "text/plain")
        self.request.response.write(b"first ")
        self.request.response.write(b"second ")
        return "last"


class Opened(View):
    def answer(self) -> Any:
        return BytesIO(b"a file")


@implementer(IUnboundStreamIterator)
class Blocks:
    def __init__(self) -> None:
        self.left = 3

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> bytes:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return b"block "


class PartBlocks(Blocks):
    """A part of a file, as plone.namedfile sends ranges: ``read`` goes on behind the part."""

    def read(self, size: int = -1) -> bytes:
        self.left -= 1
        return b"longer than a block " if self.left > -9 else b""


class Part(View):
    def answer(self) -> Any:
        self.request.response.setHeader("Content-Type", "text/plain")
        self.request.response.setHeader("Content-Length", "18")
        return PartBlocks()


class Streamed(View):
    def answer(self) -> Any:
        self.request.response.setHeader("Content-Type", "text/plain")
        return Blocks()


class Who(View):
    def answer(self) -> str:
        from AccessControl import getSecurityManager

        user = getSecurityManager().getUser()
        return f"{user.getUserName()} {sorted(user.getRoles())} {self.request.get('AUTHENTICATION_PATH')}"


class Where(View):
    def answer(self) -> str:
        request = self.request
        names = ("URL", "ACTUAL_URL", "URL0", "URL1", "BASE0", "BASE1", "VIRTUAL_URL", "PATH_INFO", "SERVER_URL")
        return "\n".join(f"{name} {request.get(name)}" for name in names) + f"\n{self.context.absolute_url()}"


class Clone(View):
    def answer(self) -> str:
        clone = self.request.clone()
        found = clone.traverse("/f1/f2/note/index_html")
        return f"{found(clone)} {sorted(key for key in self.request.environ if key.startswith('pipeline'))}"


class Error(View):
    def answer(self) -> str:
        return str(self.context.no_such_name)


class TooMany(HTTPTooManyRequests):
    """An HTTP exception of webob that Zope does not know."""


class WriteAndLimit(Write):
    def answer(self) -> str:
        super().answer()
        raise TooMany("too many")


class Hooks(View):
    """Has the hooks of its transaction noted."""

    called: list[str] = []  # noqa: RUF012

    def answer(self) -> str:
        txn = transaction.get()
        txn.addBeforeCommitHook(self.called.append, ("before the commit",))
        return self.with_hooks_of_abort()

    def with_hooks_of_abort(self) -> str:
        transaction.get().addBeforeAbortHook(self.called.append, ("before the abort",))
        transaction.get().addAfterAbortHook(self.called.append, ("after the abort",))
        if self.request.form.get("fail"):
            raise BadRequest("refused")
        return "done"


class HooksOfAbort(Hooks):
    def answer(self) -> str:
        return self.with_hooks_of_abort()


class DebugInfo(View):
    """Shows how much the connection has been told of its requests."""

    def answer(self) -> str:
        return str(len(self.context._p_jar.getDebugInfo()))


PUBLIC = {
    "plain": Plain, "text": Text, "form": Form, "cookies": Cookies, "write": Write, "write_and_fail": WriteAndFail,
    "write_and_refuse": WriteAndRefuse, "write_404": WriteAndSetStatus, "doom": Doom, "commit": CommitItself,
    "again": Again, "refuse": Refuse, "forbid": Forbid, "go_on": GoOn, "go_away": GoAway, "fail": Fail,
    "nothing": Nothing, "bytes": Bytes, "written": Written, "opened": Opened, "streamed": Streamed, "who": Who,
    "where": Where, "clone": Clone, "error": Error, "part": Part, "write_and_limit": WriteAndLimit, "hooks": Hooks,
    "hooks_of_abort": HooksOfAbort, "debug_info": DebugInfo,
}  # fmt: skip


def pages() -> str:
    """Return the ZCML of the views that everybody may see."""
    line = '<browser:page name="{}" for="*" class="zope_sites.compared_site.{}" permission="zope2.Public"/>'
    return "\n".join(line.format(name, cls.__name__) for name, cls in PUBLIC.items())


def fill(app: Any) -> None:
    """Put the contents into an empty site."""
    app.acl_users._doAddUser("admin", "secret", ["Manager"], [])
    folder = app
    for name in ("f1", "f2", "f3"):
        folder.manage_addFolder(name, f"Folder {name}")
        folder = folder[name]
    app.f1.manage_addUserFolder()
    app.f1.acl_users._doAddUser("editor", "secret", ["Editor", "Owner"], [])
    app.f1.f2._setObject("note", Note("note"))
    app.f1.f2.manage_addFile("file.bin", bytes(range(256)) * 40, "A file", content_type="application/octet-stream")
    app.f1.f2.manage_addImage("image.png", PIXEL, "An image")
    app.f1.f2._setObject("page", ZopePageTemplate("page", "<p tal:content='here/title'>t</p>"))
    app.f1.f2.manage_addDTMLMethod("dtml", "", "<dtml-var title> <dtml-var REQUEST_METHOD>")
    app.f1.f2.manage_addFolder("münchen", "München")
    app.f1.f2.manage_permission("View", ["Manager", "Anonymous"], acquire=0)
    app._setObject("dynamic", Dynamic("dynamic"))
    app._setObject("hooked", Hooked("hooked"))
    if "virtual_hosting" not in app.objectIds():
        app._setObject("virtual_hosting", VirtualHostMonster())
    transaction.commit()


class Sites:
    """Zope and us, each with a database of its own."""

    def __init__(self, more: str = "") -> None:
        self.home = Path(tempfile.mkdtemp(prefix="zope_sites"))
        conf = self.home / "zope.conf"
        conf.write_text(ZOPE_CONF.format(home=self.home, more=more))
        for name in ("etc", "var", "import"):
            (self.home / name).mkdir()
        self.db = load(str(conf))
        xmlconfig.string(ZCML.replace("{here}", str(Path(__file__).parent)) % pages())
        app = Zope2.app()
        fill(app)
        app._p_jar.close()
        shutil.copy(self.home / "Data.fs", self.home / "Plain.fs")
        self.plain_db = DB(FileStorage(str(self.home / "Plain.fs")), class_factory=self.db.classFactory)
        application = ZApplicationWrapper(self.plain_db, "Application")
        WSGIPublisher._MODULES["plain_site"] = (application, WSGIPublisher._DEFAULT_REALM, False)
        self.theirs: Any = HTTPExceptionHandler(partial(WSGIPublisher.publish_module, _module_name="plain_site"))
        self.ours: Pipeline = site(self.db)

    def close(self) -> None:
        self.db.close()
        self.plain_db.close()
        shutil.rmtree(self.home)
