"""Mistakes that people make: what a command says alone leads to the cause and the place.

What ``explain`` says of the cause stands above the word "Elements", and only there is it looked for.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext, suppress
from html import unescape
from importlib.metadata import metadata
from typing import NamedTuple

import pytest
import webob

from pipeline.checking.values import slips_in
from pipeline.http import debug_key
from pipeline.loading import site as loading
from pipeline.loading.asking import answer_of, request_of
from pipeline.loading.command_line import plan_of
from pipeline.loading.site import application_of
from pipeline.paste import load
from pipeline.serving.not_loaded import site_of
from pipeline.telling.errors import EXTRAS
from tools.conftest import CODE, INI, Site
from tools.test_commands import DATABASE, STORED

Around = Callable[[Site], AbstractContextManager[Mapping[str, str]]]


class Mistake(NamedTuple):
    """A site with a mistake, and what is said of it."""

    name: str
    said: tuple[str, ...]
    """What the message has, with MODULE and INI for these files and LINE(text) for the line of a text."""
    ini: str = INI
    code: str = CODE
    request: tuple[str, ...] = ()
    """What ``explain`` is asked; without it, ``check`` is."""
    status: int = 1
    command: tuple[str, ...] = ()
    """Another command, with its arguments."""
    around: Around = lambda site: nullcontext({})
    """What else is the matter while the command runs. It yields words to replace in the ini and the request."""
    files: Mapping[str, str] = {}
    """Further files beside the ini."""
    page: tuple[str, ...] | None = ()
    """What the page of the error has in a browser, if that is not what the message has. None if there is no such
    page: the answer is not an error, or it is not of this site, or nothing asks for a page."""


def ini(*edits: tuple[str, str]) -> str:
    text = INI
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


DEFAULTS = """
from pipeline.interfaces import IDefaultSteps
from pipeline.views import adapter

@adapter(Folder, IDefaultSteps)
class Steps:
    def __init__(self, folder): pass
    def default_steps(self, request): return ["STEP"]
"""
TRAVERSER = """
from pipeline.interfaces import IPublishTraverse
from pipeline.views import adapter

@adapter(Page, IPublishTraverse)
class Raising:
    def __init__(self, page): pass
    def publishTraverse(self, request, name): raise RuntimeError("a hook that raises")
"""
AUTHENTICATED = ini(
    ("errors traverse", "errors authenticate traverse"),
    (
        "[filter:traverse]",
        "[filter:authenticate]\nuse = egg:wsgi-pipeline#authenticate\ncheck = MODULE:check\n\n[filter:traverse]",
    ),
)
CHECK = CODE + "\ndef check(request, login, password):\n    return None\n"
VHOST = ini(
    ("errors traverse", "vhost errors traverse"),
    ("[filter:traverse]", "[filter:vhost]\nuse = egg:wsgi-pipeline#vhost\n\n[filter:traverse]"),
)
FORMS = ini(
    ("errors traverse", "errors forms traverse"),
    ("[filter:traverse]", "[filter:forms]\nuse = egg:wsgi-pipeline#forms\n\n[filter:traverse]"),
)
FIELDS = (
    CODE + '\n@view(context=Folder, name="add")\ndef add(context, request, count: int):\n    return str(count)\n'
)
FOREIGN = ini(
    ("errors traverse", "errors swallow traverse"),
    ("[filter:traverse]", "[filter:swallow]\npaste.filter_app_factory = MODULE:swallow\n\n[filter:traverse]"),
)
SWALLOW = (
    CODE
    + """

def swallow(app, global_conf):
    def swallowing(environ, start_response):
        try:
            return app(environ, start_response)
        except Exception:
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [b"all is well"]

    return swallowing
"""
)
FORGETFUL = """
from pipeline import element


@element
def forgetful(next):
    return lambda request, response: None
"""


def view(text: str) -> str:
    return f"{CODE}\n\n{text}\n"


def in_view(*lines: str, takes: str = "context, request") -> str:
    """A site with the view ``n``, of these lines."""
    return view("\n    ".join([f"@view(context=Folder, name='n')\ndef n({takes}):", *lines]))


@contextmanager
def taken_port(site: Site) -> Iterator[Mapping[str, str]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield {"PORT": str(listener.getsockname()[1])}


HOLD = (
    "import sys, zc.lockfile; lock = zc.lockfile.LockFile(sys.argv[1]); print('ok', flush=True); sys.stdin.read()"
)


@contextmanager
def locked_database(site: Site) -> Iterator[Mapping[str, str]]:
    command = [sys.executable, "-c", HOLD, str(site.directory / "Data.fs.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ok\n"
        yield {}
        process.communicate("")


@contextmanager
def damaged_database(site: Site) -> Iterator[Mapping[str, str]]:
    (site.directory / "Data.fs").write_bytes(b"this is not a database" * 100)
    yield {}


@contextmanager
def old_setuptools(site: Site) -> Iterator[Mapping[str, str]]:
    """In the directory of a package of one's own."""
    (site.directory / "shop.egg-info").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(site.directory)
        patch.setattr("pipeline.checking.servers.version", lambda name: "65.5.0")
        yield {}


@contextmanager
def without_multipart(site: Site) -> Iterator[Mapping[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "pipeline.elements.forms", raising=False)
        patch.setitem(sys.modules, "multipart", None)
        yield {}


@contextmanager
def in_its_directory(site: Site) -> Iterator[Mapping[str, str]]:
    with chdir(site.directory):
        yield {}


@contextmanager
def cleaned(site: Site) -> Iterator[Mapping[str, str]]:
    """A directory that the system cleans."""
    place = site.directory / "cleaned"
    place.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.tools.check.CLEANED", (f"{place}/",))
        yield {"/tmp/a.db": f"{place}/a.db"}


@contextmanager
def logged_in(site: Site) -> Iterator[Mapping[str, str]]:
    """A visitor with a session, as the login page begins it."""
    form = {"login": "ann", "password": "x"}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site.directory))
        answer = webob.Request.blank("/@@login", POST=form).get_response(load(f"config:{site.ini}"))
    assert answer.status_int == 303, answer.text
    yield {"COOKIE": answer.headers["Set-Cookie"].partition(";")[0]}


SESSIONS = AUTHENTICATED.replace(
    "check = MODULE:check", "check = MODULE:check\nby = session\nkeys = HERE/keys"
).replace("scan = MODULE", "scan = MODULE pipeline.auth.login")
ANN = CHECK.replace("return None\n", "return login\n") + (
    "\n@view(context=Folder, name='change', methods=('POST',), permission='change')\n"
    "def change(context, request):\n    return ''\n"
)
CHANGE = ("POST", "/change", "-H", "Cookie: COOKIE", "-d", "a=b")
GRANTS = AUTHENTICATED.replace("MODULE:check", "MODULE:check\npolicy = pipeline.auth.policy:LocalGrants")
GRANTED = CHECK.replace("return None\n", "return login\n").replace("return Folder(", "return Site(").replace(
    "class Page:", "class Site(Folder):\n    __grants__ = {'ann': {'edit'}}\n\n\nclass Page:"
) + (
    "\n@view(context=Page, permission='edit')\ndef page(context, request):\n    return ''\n"
    "\n@view(context=Folder, name='sell', permission='sell')\ndef sell(context, request):\n    return ''\n"
)
WRITES = (
    STORED
    + """
from transaction import TransactionManager

@view(context=Root, name="conflict", methods=("POST",))
def conflict(context, request):
    context["count"] += 1
    other = request.zodb.db().open(TransactionManager())
    app(other.root())["count"] = request.attempt * 7
    other.transaction_manager.commit()
    other.close()
    return ""

@view(context=Root, name="function", methods=("POST",))
def function(context, request):
    context["count"] = lambda: 1
    return ""

@view(context=Root, name="lock")
def lock(context, request):
    import threading
    context.lock = threading.Lock()
    return ""

@view(context=Root, name="blob", methods=("POST",))
def blob(context, request):
    from ZODB.blob import Blob
    context["blob"] = Blob(b"data")
    return ""

@view(context=Root, name="begins", methods=("POST",))
def begins(context, request):
    import transaction
    context["count"] += 1
    transaction.begin()
    return ""

@view(context=Root, name="hook", methods=("POST",))
def hook(context, request):
    request.tm.get().addBeforeCommitHook(lambda: 1 / 0)
    context["count"] += 1
    return ""

@view(context=Root, name="asks")
def asks(context, request):
    from webob import Request
    return Request.blank("/", headers=request.headers).get_response(request.pipeline)
"""
)
READS = STORED.replace("context['count'] += 1".replace("'", '"'), "request.zodb.root()['new'] = 1", 1).replace(
    "app(root):", "app(root):\n    return Root(count=0)"
)
THREE = DATABASE.replace("#retry\n", "#retry\nattempts = 3\n")
POOL = DATABASE.replace("MODULE:app\n", "MODULE:app\nmax_connections = 1\nconnection_wait = 0.1\n")
THING = '''
from pipeline import Request, element


class ThingRequest(Request):
    thing: str = "x"
    """A thing of this shop."""


@element(adds=ThingRequest, outside={"traverse": "the root of the shop depends on the thing"})
def thing(next, *, size: int = 3):
    """Put a thing on the request."""

    def thing(request, response):
        WORK
        next(request, response)

    return thing
'''


def hooked(work: str) -> str:
    """A site with an element of its own that does some work for each request."""
    return CODE + THING.replace("WORK", work)


def with_thing(order: str = "errors thing traverse") -> str:
    return ini(
        ("errors traverse", order),
        ("[filter:traverse]", "[filter:thing]\npaste.filter_factory = MODULE:thing\n\n[filter:traverse]"),
    )


def in_swallow(*lines: str) -> str:
    """The foreign middleware, with these lines before it calls its app."""
    return SWALLOW.replace("        try:", "\n".join([*(f"        {line}" for line in lines), "        try:"]))


USE = "use = egg:wsgi-pipeline#"
LOGGING = """
[loggers]
keys = root

[handlers]
keys = a

[formatters]
keys =

[logger_root]
handlers = a

[handler_a]
class = StreamHandler
args = ()
"""
BRANCHES = (
    "[composite:main]\nuse = egg:wsgi-pipeline#switch\n"
    "branches =\n    site header.Accept=*json*\n\n" + INI.replace("pipeline:main", "pipeline:site")
)
BODY_TAKEN = (
    FORMS.replace("errors forms", "errors thing forms") + "\n[filter:thing]\npaste.filter_factory = MODULE:thing\n"
)
THING_READS = THING.replace("WORK", "request.environ['wsgi.input'].read()")
SETS_COOKIE = "response)\n        response.set_cookie('basket', '2')\n\n    return"
PAGE = view(
    "from pipeline import render\n\n\n"
    "@view(context=Folder, name='n')\ndef n(context, request):\n    return render('n.html')"
)


MISTAKES = [
    # Seen by check.
    Mistake("option mistyped", ("LINE:rot", "did you mean 'root'"), ini(("root =", "rot ="))),
    Mistake(
        "option that is needed",
        ("authenticate needs the option 'check'", "LINE:[filter:authenticate]"),
        AUTHENTICATED.replace("check = MODULE:check\n", ""),
    ),
    Mistake("bad value", ("debug", "perhaps", "LINE:debug"), ini(("#errors", "#errors\ndebug = perhaps"))),
    Mistake(
        "wrong order",
        ("authenticate must be outside traverse", "An order that works", "LINE:pipeline = "),
        AUTHENTICATED.replace("authenticate traverse", "traverse authenticate"),
        CHECK,
        page=("authenticate must be outside traverse", "An order that works errors errors", "LINE:pipeline = "),
    ),
    Mistake(
        "no traverse",
        ("publisher requires 'context'", "such as traverse", "INI, section [pipeline:main], line 2"),
        ini(("errors traverse", "errors")),
    ),
    Mistake(
        "duplicate", ("errors stands twice", "LINE:pipeline = "), ini(("errors traverse", "errors errors traverse"))
    ),
    Mistake(
        "no root",
        ("traverse requires 'root'", "such as zodb, or give traverse the option 'root'"),
        ini(("root = MODULE:root\n", "")),
    ),
    Mistake(
        "function in the place of a policy",
        ("option 'policy'", "cannot be called with 0 arguments", "LINE:[filter:authenticate]"),
        AUTHENTICATED.replace("MODULE:check", "MODULE:check\npolicy = MODULE:check"),
        CHECK,
    ),
    Mistake(
        "converter in the name of a field",
        ("Field 'x:int', value '1,5': it is not a whole number", "LINE:[filter:forms]", "name the field 'x'"),
        FORMS,
        request=("GET", "/?x:int=1,5"),
    ),
    Mistake(
        "debug in production, by a variable",
        ("errors is in debug mode", "section [DEFAULT]", "LINE:debug = true"),
        "[DEFAULT]\ndebug = true\n\n" + ini(("#errors", "#errors\nget debug = debug")),
        status=0,
        page=None,
    ),
    Mistake(
        "dotted name that leads nowhere",
        ("there is no module 'nowhere'", "install it, or set PYTHONPATH", "LINE:nowhere"),
        ini(("MODULE:root", "nowhere:root")),
    ),
    Mistake(
        "module of scan that is not there",
        ("there is no module 'nowhere'", "[app:publisher]"),
        ini(("scan = MODULE", "scan = nowhere")),
    ),
    Mistake("syntax error", ("MODULE, line", "SyntaxError"), code=CODE + "\ndef broken(:\n"),
    Mistake("exception in a module", ("MODULE, line", "ZeroDivisionError"), code=CODE + "\n1 / 0\n"),
    Mistake("publisher without scan", ("the publisher has no views", "scan = "), ini(("scan = MODULE\n", ""))),
    Mistake(
        "two views for one name",
        ("two views are both for", "GET", "MODULE"),
        code=view("@view(context=Folder)\ndef other(context, request):\n    return ''"),
    ),
    Mistake(
        "section that is not there",
        ("[filter:traverze] is missing", "did you mean [filter:traverse]?", "LINE:pipeline = errors"),
        ini(("errors traverse", "errors traverze")),
    ),
    Mistake(
        "section of the wrong type",
        ("[filter:errors] is missing", "[app:errors] is a section of another kind", "LINE:pipeline = errors"),
        ini(("[filter:errors]", "[app:errors]")),
    ),
    Mistake(
        "DEFAULT swallows root",
        ("[DEFAULT]", "option 'root' of traverse", "LINE:root = M"),
        "[DEFAULT]\nroot = x\n\n" + INI,
    ),
    Mistake(
        "mistyped element", ("did you mean 'errors'?", "[filter:errors]", "LINE:#erors"), ini(("#errors", "#erors"))
    ),
    Mistake(
        "mistyped package",
        ("'wsgi-pipline' is not installed", "LINE:wsgi-pipline"),
        ini(("egg:wsgi-pipeline#errors", "egg:wsgi-pipline#errors")),
    ),
    Mistake("an app as a filter", ("it is for a section [app:...]",), ini(("#errors", "#health"))),
    Mistake(
        "annotation that nothing converts",
        ("'x'", "complex", "MODULE"),
        code=view("@view(context=Folder, name='z')\ndef z(context, request, x: complex):\n    return ''"),
    ),
    Mistake(
        "view without request",
        ("MODULE", "a view must take (context, request)"),
        code=view("@view(context=Folder, name='z')\ndef z(context):\n    return ''"),
    ),
    Mistake(
        "methods as a text",
        ("methods must be a tuple", "MODULE"),
        code=view("@view(context=Folder, name='z', methods='POST')\ndef z(context, request):\n    return ''"),
    ),
    Mistake(
        "option of view mistyped",
        ("nam", "MODULE"),
        code=view("@view(context=Folder, nam='z')\ndef z(context, request):\n    return ''"),
    ),
    Mistake(
        "context that is an instance",
        ("neither a class nor an interface",),
        code=view("@view(context=Folder(), name='z')\ndef z(context, request):\n    return ''"),
    ),
    Mistake(
        "bare view",
        ("@view stands bare on", "MODULE", "write @view()"),
        code=view("@view\ndef bare(context, request):\n    return ''"),
    ),
    Mistake("fields without forms", ("takes the fields count", "add forms"), code=FIELDS),
    Mistake(
        "several packages that are missing",
        ("'nopackage' is not installed", "'no-other' is not installed", "pip install no-other"),
        ini(
            ("errors traverse", "a errors b traverse"),
            (
                "[filter:traverse]",
                "[filter:a]\nuse = egg:nopackage\n\n[filter:b]\nuse = egg:no-other#x\n\n[filter:traverse]",
            ),
        ),
        page=("'nopackage' is not installed",),
    ),
    Mistake(
        "file of a query",
        ("put is called by GET, and takes the file attached", 'Say methods=("POST",)'),
        FORMS,
        code=view(
            "from pipeline.forms.upload import Upload\n@view(context=Folder, name='put')\n"
            "def put(context, request, attached: Upload):\n    return ''"
        ),
        page=None,
    ),
    Mistake(
        "unused section",
        ("no pipeline uses [filter:log]", "LINE:[filter:log]"),
        INI + "\n[filter:log]\nuse = egg:wsgi-pipeline#log\n",
        status=0,
        page=None,
    ),
    Mistake(
        "debug in production",
        ("errors is in debug mode", "LINE:debug"),
        ini(("#errors", "#errors\ndebug = true")),
        status=0,
        page=None,
    ),
    Mistake(
        "missing directory of a database",
        ("HERE/no is missing", "mkdir -p"),
        ini(
            ("errors traverse", "zodb errors traverse"),
            ("root = MODULE:root\n", ""),
            (
                "[filter:errors]",
                "[filter:zodb]\nuse = egg:wsgi-pipeline#zodb\nuri = file://HERE/no/Data.fs\n\n[filter:errors]",
            ),
        ),
        page=("HERE/no", "No such file or directory", "LINE:[filter:zodb]", "Make that directory"),
    ),
    Mistake(
        "factory returns None",
        ("returned None", "must return a handler"),
        ini(("use = egg:wsgi-pipeline#errors", "paste.filter_factory = MODULE:nothing")),
        CODE + ("\nfrom pipeline import element\n@element\ndef nothing(next):\n    pass\n"),
    ),
    # Seen by explain.
    Mistake("view mistyped in the URL", ("no item 'edti'", "did you mean 'edit'?"), request=("POST", "/edti")),
    Mistake(
        "view that returns nothing",
        ("answered 200 with an empty page", "MODULE, line LINE(name='n')", "return that"),
        code=in_view("'<p>the word return is missing</p>'"),
        request=("GET", "/n"),
        status=0,
        page=None,
    ),
    Mistake(
        "view that is not there, by its mark",
        ("there is no view 'nothing' for a Folder",),
        request=("GET", "/@@nothing"),
    ),
    Mistake("item mistyped", ("did you mean the item 'docs'?",), request=("GET", "/dosc/")),
    Mistake(
        "path that leads nowhere", ("no item 'nothing'", "The default view".lower()), request=("GET", "/nothing")
    ),
    Mistake(
        "view that was not scanned",
        ("no scan names its module", "HERE/other.py, line 4"),
        request=("GET", "/lost"),
        files={
            "other.py": "from pipeline import view\n\n"
            "@view(name='lost')\ndef lost(context, request):\n    return ''\n"
        },
    ),
    Mistake("no default view", ("there is no default view for a Page",), request=("GET", "/page")),
    Mistake(
        "view for another class", ("it is for Folder", 'MODULE, line LINE("edit")'), request=("POST", "/page/edit")
    ),
    Mistake(
        "wrong method", ("accepts GET; it accepts POST", "MODULE", "methods=(..., 'GET')"), request=("GET", "/edit")
    ),
    Mistake("private name", ("must not start with '_' (S3)",), request=("GET", "/_private")),
    Mistake("dots", ("the path", "'..' in place of a name"), request=("GET", "/docs/../x")),
    Mistake(
        "missing slash",
        ("the address of its page ends in a slash",),
        request=("GET", "/docs"),
        status=0,
        page=None,
    ),
    Mistake(
        "namespace that is not registered",
        ("the namespace skin: it is not registered",),
        request=("GET", "/++skin++x"),
    ),
    Mistake(
        "default step that leads nowhere",
        ("the default step 'lost' leads nowhere", "Steps (MODULE"),
        code=CODE + DEFAULTS.replace("STEP", "lost"),
        request=("GET", "/"),
    ),
    Mistake(
        "default steps in a circle",
        ("default steps are taken once", "Steps (MODULE"),
        code=CODE.replace("@view(context=Folder)\n", "@view(context=Page)\n") + DEFAULTS.replace("STEP", "docs"),
        request=("GET", "/"),
    ),
    Mistake(
        "traverser that raises",
        ("a hook that raises", "MODULE, line"),
        code=CODE + TRAVERSER,
        request=("GET", "/page/x"),
    ),
    Mistake(
        "item hides a view",
        ("the item 'docs' of", "hides the view", "@@docs"),
        code=view("@view(context=Folder, name='docs')\ndef docs(context, request):\n    return ''"),
        request=("GET", "/docs/"),
        status=0,
        page=None,
    ),
    Mistake(
        "view returns 42",
        ("returned 42", "MODULE"),
        code=view("@view(context=Folder, name='n')\ndef n(context, request):\n    return 42"),
        request=("GET", "/n"),
    ),
    Mistake(
        "view returns a dict",
        ("pipeline.publishing.json",),
        code=view("@view(context=Folder, name='n')\ndef n(context, request):\n    return {}"),
        request=("GET", "/n"),
    ),
    Mistake(
        "view that fails",
        ("ZeroDivisionError", "MODULE, line LINE(1 / 0)"),
        code=view("@view(context=Folder, name='n')\ndef n(context, request):\n    return 1 / 0"),
        request=("GET", "/n"),
    ),
    Mistake(
        "redirect to another site",
        ("UnsafeRedirect", "other.example"),
        code=view(
            "@view(context=Folder, name='n')\ndef n(context, request):\n    return redirect('http://other.example/')"
        ),
        request=("GET", "/n"),
    ),
    Mistake(
        "POST without a permission",
        ("declares no permission, so undeclared = read", 'MODULE, line LINE("edit")'),
        AUTHENTICATED,
        CHECK,
        ("POST", "/edit"),
    ),
    Mistake(
        "POST without a permission, through an element of the site",
        ("declares no permission, so undeclared = read", 'where MODULE, line LINE("edit")'),
        AUTHENTICATED.replace("errors authenticate", "errors thing authenticate")
        + "\n[filter:thing]\npaste.filter_factory = MODULE:thing\n",
        CHECK + THING.replace("WORK", "pass"),
        ("POST", "/edit"),
    ),
    Mistake(
        "permission without authenticate",
        ("needs the permission 'edit'", "Put authenticate"),
        code=view("@view(context=Folder, name='n', permission='edit')\ndef n(context, request):\n    return ''"),
        request=("GET", "/n"),
    ),
    Mistake(
        "proxy that is not trusted",
        ("vhost dropped X-Forwarded-Host", "trusted = 127.0.0.1"),
        VHOST,
        request=("GET", "/", "-H", "X-Forwarded-Host: www.example.com"),
        status=0,
        page=None,
    ),
    Mistake(
        "host that is not served",
        ("allowed_hosts", "vhost refused"),
        VHOST.replace("#vhost", "#vhost\nallowed_hosts = www.example.com"),
        request=("GET", "/"),
    ),
    Mistake(
        "hosts line without its object",
        ("virtual root", "no item 'gone'", "option hosts"),
        VHOST.replace("#vhost", "#vhost\nhosts = localhost = /gone"),
        request=("GET", "/"),
    ),
    Mistake(
        "field that is sent twice",
        ("Field 'count', value ['1', '2']: it is not a whole number", "MODULE, line ", "list takes several"),
        FORMS,
        FIELDS,
        ("GET", "/add?count=1&count=2"),
    ),
    Mistake(
        "comment behind a value",
        ("no comment behind a value", "LINE:uri = file", "a comment on a line of its own"),
        DATABASE.replace("HERE/Data.fs", "HERE/Data.fs  # the objects"),
        STORED,
        status=0,
        page=None,
    ),
    Mistake(
        "field with a bad value",
        ("count", "whole number", 'MODULE, line LINE("add")'),
        FORMS,
        FIELDS,
        ("GET", "/add?count=many"),
    ),
    Mistake(
        "body that is too long",
        ("forms refused", "max_body = 10"),
        FORMS.replace("#forms", "#forms\nmax_body = 10"),
        request=("POST", "/edit", "-d", "text=12345678901234567890"),
    ),
    Mistake(
        "foreign middleware swallows an error",
        ("foreign middleware swallow met ZeroDivisionError",),
        FOREIGN,
        SWALLOW + "\n@view(context=Folder, name='n')\ndef n(context, request):\n    1 / 0\n",
        ("GET", "/n"),
        0,
        page=None,
    ),
    Mistake(
        "no branch",
        ("line of the switch is for it",),
        "[composite:main]\nuse = egg:wsgi-pipeline#switch\n"
        "branches =\n    site method=PUT\n\n" + INI.replace("pipeline:main", "pipeline:site"),
        request=("GET", "/"),
    ),
    Mistake(
        "element forgets to call next",
        ("forgetful answered 200 itself", "[filter:errors]"),
        ini(("use = egg:wsgi-pipeline#errors", "paste.filter_factory = MODULE:forgetful")),
        CODE + FORGETFUL,
        ("GET", "/"),
        0,
        page=None,
    ),
    Mistake(
        "plain function in the place of an element",
        ("the function plain (MODULE, line LINE(def plain)", "write @element above it"),
        ini(("use = egg:wsgi-pipeline#errors", "paste.filter_factory = MODULE:plain")),
        CODE + "\ndef plain(next):\n    return lambda request, response: next(request, response)\n",
    ),
    Mistake(
        "positional option",
        ("thing has no option 'size'", "the parameters behind '*' of its factory", "LINE:size"),
        with_thing().replace(":thing\n", ":thing\nsize = 4\n"),
        hooked("pass").replace("*, size: int = 3", "size: int = 3"),
    ),
    Mistake(
        "address of an object without a place",
        ("has a __parent__ and the __name__ '_x', so it has no URL", "MODULE, line LINE(redirect(request)"),
        code=in_view(
            "page = Page()",
            "page.__parent__ = context",
            "page.__name__ = '_x'",
            "redirect(request.absolute_url(page))",
        ),
        request=("GET", "/n"),
    ),
    Mistake(
        "view that commits by itself",
        ("own raised DoomedTransaction", "MODULE, line LINE(request.tm.commit())", "add --commit"),
        DATABASE,
        STORED,
        ("POST", "/own"),
        page=None,
    ),
    # Ports, processes, servers.
    Mistake(
        "port that is taken",
        ("127.0.0.1:PORT: Address already in use", "choose another with --host or --port"),
        INI + "\n[server:main]\nuse = egg:waitress#main\nport = PORT\n",
        command=("serve", "--no-reload"),
        around=taken_port,
        page=None,
    ),
    Mistake(
        "port that is taken, before paster serve",
        ("127.0.0.1:PORT is in use", "LINE:port =", "choose another port"),
        INI + "\n[server:main]\nuse = egg:waitress#main\nport = PORT\n",
        status=0,
        around=taken_port,
        page=None,
    ),
    Mistake(
        "paster serve in the directory of one's own package",
        ("HERE/shop.egg-info", "paster serve fails in this directory", "pip install 'setuptools>=77,<82'"),
        status=0,
        around=old_setuptools,
        page=None,
    ),
    Mistake(
        "server mistyped",
        ("'waitres' is not installed", "LINE:waitres", "did you mean waitress?"),
        INI + "\n[server:main]\nuse = egg:waitres#main\n",
        page=None,
    ),
    Mistake(
        "handler of the logging that is not there",
        ("[handler_file] is not there", "LINE:keys = a, file"),
        INI + LOGGING.replace("keys = a\n", "keys = a, file\n").replace("handlers = a", "handlers = file"),
        page=None,
    ),
    Mistake(
        "handler of the logging that is not listed",
        ("the logger has the handler 'b', which [handlers] does not list", "LINE:handlers = b"),
        INI + LOGGING.replace("handlers = a", "handlers = b"),
        page=None,
    ),
    Mistake(
        "section twice", ("the section [filter:errors] stands twice", "INI, line 16"), INI + "\n[filter:errors]\n"
    ),
    Mistake(
        "option twice",
        ("INI, section [filter:traverse], line", "LINE:root = ROOT", "the option 'root' stands twice"),
        ini(("root = MODULE:root\n", "root = MODULE:root\nroot = ROOT\n")),
    ),
    Mistake(
        "a line of an ini that is cut in two",
        ("INI, line", "LINE:anywhere", "this line is not of the form name = value"),
        ini(("root = MODULE:root", "root =\nanywhere")),
    ),
    Mistake(
        "a variable that is not there",
        ("section [filter:traverse]", "LINE:rooot", "an interpolation key 'rooot'"),
        ini(("root = MODULE:root", "root = %(rooot)s")),
    ),
    # Databases.
    Mistake(
        "database that another process has open",
        ("cannot be opened", "Couldn't lock 'HERE/Data.fs.lock'", "LINE:[filter:zodb]", "Stop the other process"),
        DATABASE,
        STORED,
        ("GET", "/"),
        around=locked_database,
    ),
    Mistake(
        "database that is damaged",
        ("zodb: Damaged", "is not a Data.fs", "LINE:[filter:zodb]", "restore it from a backup"),
        DATABASE,
        STORED,
        ("GET", "/"),
        around=damaged_database,
    ),
    Mistake(
        "database server that is down",
        ("zeo://127.0.0.1:1 cannot be reached", "LINE:[filter:zodb]", "Start that server"),
        DATABASE.replace("file://HERE/Data.fs", "zeo://127.0.0.1:1?wait_timeout=1"),
        STORED,
        ("GET", "/"),
    ),
    Mistake(
        "pool used up",
        ("all 1 connections (max_connections) were in use for 0.1 seconds", "LINE:max_connections"),
        POOL,
        WRITES,
        ("GET", "/asks"),
    ),
    Mistake(
        "commit conflict",
        ("transaction raised ConflictError", 'MODULE, line LINE(name="conflict")', "_p_resolveConflict"),
        THREE,
        WRITES,
        ("POST", "/conflict", "--commit"),
    ),
    Mistake(
        "object that cannot be stored",
        ("cannot pickle 'function' object", "Root was to be stored", 'MODULE, line LINE(name="function")'),
        DATABASE,
        WRITES,
        ("POST", "/function", "--commit"),
    ),
    Mistake(
        "lock in an object of the way, which cannot be read again",
        ("cannot pickle '_thread.lock' object", "was to be stored", "Keep numbers, texts"),
        DATABASE,
        WRITES,
        ("GET", "/lock", "--commit"),
    ),
    Mistake(
        "blob without a place",
        ("Storing Blobs in", 'MODULE, line LINE(name="blob")', "end the URI of a Data.fs with ?blobstorage_dir="),
        DATABASE,
        WRITES,
        ("POST", "/blob", "--commit"),
    ),
    Mistake(
        "transaction begun by a view",
        ("AlreadyInTransaction", "MODULE, line LINE(transaction.begin())", "Leave out transaction.begin()"),
        DATABASE,
        WRITES,
        ("POST", "/begins"),
    ),
    Mistake(
        "write without transaction",
        ("ReadOnlyTransaction", "MODULE, line LINE(['new'] = 1)", "Put transaction into the pipeline"),
        DATABASE.replace("errors transaction", "errors"),
        READS,
        ("POST", "/add"),
    ),
    # Code of the site that fails early or late.
    Mistake(
        "before-commit hook that raises",
        ("transaction raised ZeroDivisionError", "MODULE, line LINE(1 / 0)"),
        DATABASE,
        WRITES,
        ("POST", "/hook", "--commit"),
    ),
    Mistake(
        "traversal hook that raises",
        ("traverse raised ZeroDivisionError", "MODULE, line LINE(1 / 0)"),
        with_thing(),
        hooked("request.add_traversal_hook(lambda request, obj: 1 / 0)"),
        ("GET", "/docs/"),
    ),
    Mistake(
        "output filter that raises",
        ("the body or an output filter failed: ZeroDivisionError", "MODULE, line LINE(1 / 0)"),
        with_thing(),
        hooked("response.add_filter(lambda blocks: 1 / 0)"),
        ("GET", "/docs/"),
    ),
    Mistake(
        "function of on_close that raises",
        ("a function of request.on_close failed", "ZeroDivisionError", "MODULE, line LINE(1 / 0)"),
        with_thing(),
        hooked("request.on_close(lambda: 1 / 0)"),
        ("GET", "/docs/"),
        0,
        page=None,
    ),
    Mistake(
        "stream that fails at once",
        ("the body or an output filter failed: ZeroDivisionError", "MODULE, line LINE(1 / 0)"),
        code=in_view("1 / 0", "yield b'one'"),
        request=("GET", "/n"),
    ),
    Mistake(
        "stream that fails later",
        ("200 OK, 3 bytes, then broken off", "failed in mid-stream", "MODULE, line LINE(1 / 0)"),
        code=in_view("yield b'one'", "1 / 0"),
        request=("GET", "/n"),
        page=None,
    ),
    Mistake(
        "stream of text",
        ("a streamed body yielded 'one', which is not bytes", "MODULE, line LINE(name='n')"),
        code=in_view("yield 'one'"),
        request=("GET", "/n"),
    ),
    Mistake(
        "error view that fails",
        ("the error view failed: AttributeError", "MODULE, line LINE(error.nothing)"),
        code=in_view("1 / 0") + "\n@view(context=Exception)\ndef sorry(error, request):\n    error.nothing\n",
        request=("GET", "/n"),
    ),
    Mistake(
        "header with a control character",
        ("UnsafeHeader", "header 'X'", "MODULE, line LINE(response.headers)"),
        code=in_view("response.headers['X'] = 'a\\nb'", takes="context, request, response"),
        request=("GET", "/n"),
    ),
    Mistake(
        "template that fails",
        ("UndefinedError", "'titel' is undefined", "HERE/n.html, line 2", "correct the name in the template"),
        code=PAGE,
        request=("GET", "/n"),
        files={"n.html": "<p>\n{{ titel.text }}"},
    ),
    Mistake(
        "template with a wrong line",
        ("TemplateSyntaxError", "HERE/n.html, line 2"),
        code=PAGE,
        request=("GET", "/n"),
        files={"n.html": "<p>\n{{ title }"},
    ),
    Mistake(
        "template that is missing",
        ("TemplateNotFound", "n.html", "MODULE", "beside the module"),
        code=PAGE,
        request=("GET", "/n"),
    ),
    # Permissions and forms.
    Mistake(
        "permission that was not granted",
        (
            "'sell'",
            "LocalGrants refuses to 'ann'",
            "a Site grants {'ann': {'edit'}}",
            "MODULE, line LINE(name='sell')",
        ),
        GRANTS,
        GRANTED,
        ("GET", "/sell", "--user", "ann"),
    ),
    Mistake(
        "permission of a parent folder, on an object without a parent",
        ("permission 'edit'", "a Page has no __parent__, so no grant above it counts", "LINE(context=Page, p)"),
        GRANTS,
        GRANTED,
        ("GET", "/page", "--user", "ann"),
    ),
    Mistake(
        "form without its token",
        ("has lost its token", "Put request.csrf_token into the form", "LINE:[filter:authenticate]"),
        SESSIONS,
        ANN,
        CHANGE,
        around=logged_in,
    ),
    Mistake(
        "proxy that changes the Host",
        ("comes from http://www.example.com, and the Host is localhost", "let it pass on the Host"),
        SESSIONS,
        ANN,
        (*CHANGE, "-H", "Origin: http://www.example.com"),
        around=logged_in,
    ),
    Mistake(
        "form of another site, asked as a user (S23)",
        (
            "comes from http://evil.example, and the Host is localhost",
            "If other sites may send such requests: @view(cross_site=True)",
            "MODULE, line LINE(name='change')",
        ),
        SESSIONS,
        ANN,
        (*CHANGE, "-H", "Origin: http://evil.example", "--user", "ann"),
    ),
    Mistake(
        "form of another site, for an application that is not ours (S23)",
        ("comes from cross-site", "If other sites may send such requests: cross_site = true of vhost"),
        ini(
            ("publisher\n", "foreign\n"),
            ("traverse ", ""),
            ("[filter:traverse]", "[app:foreign]\npaste.app_factory = MODULE:application\n\n[filter:traverse]"),
        ),
        "def application(global_conf):\n    return lambda environ, start_response: []\n",
        ("POST", "/", "-H", "Sec-Fetch-Site: cross-site"),
    ),
    Mistake(
        "field that is missing",
        ("Field 'count'", "it is missing", 'MODULE, line LINE("add")'),
        FORMS,
        FIELDS,
        ("GET", "/add"),
    ),
    Mistake(
        "form that says another type, as fetch() does of a text",
        ("A form is not sent as text/plain", "x-www-form-urlencoded", "HTTPUnsupportedMediaType", 'LINE("add")'),
        FORMS,
        FIELDS.replace('name="add"', 'name="add", methods=("POST",)'),
        ("POST", "/add", "-d", "count=1", "-H", "Content-Type: text/plain"),
    ),
    # Virtual hosts and switches.
    Mistake(
        "path of a proxy that is not trusted",
        ("vhost does not read it from 127.0.0.1", "accept = VirtualHostBase", "LINE:[filter:vhost]"),
        VHOST,
        request=("GET", "/VirtualHostBase/http/www.example.com:80/docs/VirtualHostRoot/"),
    ),
    Mistake(
        "path of a proxy without vhost",
        ("which a proxy writes for vhost", "Put vhost into the pipeline", "accept = ++vh++"),
        request=("GET", "/docs/++vh++http:www.example.com:80/++/"),
    ),
    Mistake(
        "Accept without a match",
        ("line of the switch is for it", "header.Accept=*json*", "LINE:branches"),
        BRANCHES,
        request=("GET", "/", "-H", "Accept: text/html"),
    ),
    # Elements and middleware of other packages.
    Mistake(
        "foreign middleware that raises",
        ("the foreign middleware swallow raised RuntimeError", "MODULE, line LINE(I am foreign)"),
        FOREIGN,
        in_swallow("raise RuntimeError('I am foreign')"),
        ("GET", "/"),
    ),
    Mistake(
        "foreign middleware that refuses",
        ("the foreign middleware swallow answered 403 itself", "LINE:[filter:swallow]", "LINE(def swallow)"),
        FOREIGN,
        in_swallow("start_response('403 Forbidden', [])", "return []"),
        ("GET", "/"),
        page=None,
    ),
    Mistake(
        "foreign middleware that drops a header",
        ("swallow dropped X-Shop", "LINE:[filter:swallow]"),
        FOREIGN,
        in_swallow("environ.pop('HTTP_X_SHOP')"),
        ("GET", "/", "-H", "X-Shop: yes"),
        0,
        page=None,
    ),
    Mistake(
        "element of another package in a wrong order",
        (
            "thing must be outside traverse: the root of the shop",
            "An order that works: errors thing traverse",
            "LINE:pipeline = ",
        ),
        with_thing("errors traverse thing"),
        hooked("pass"),
        page=("thing must be outside traverse: the root of the shop", "An order that works errors errors"),
    ),
    Mistake(
        "element of another package that raises",
        ("thing raised ZeroDivisionError", "MODULE, line LINE(1 / 0)"),
        with_thing(),
        hooked("1 / 0"),
        ("GET", "/"),
    ),
    Mistake(
        "option of an element of another package",
        ("thing has no option 'siz'; did you mean 'size'?", "LINE:siz"),
        with_thing().replace(":thing\n", ":thing\nsiz = 4\n"),
        hooked("pass"),
    ),
    Mistake(
        "element of another package, shown",
        ("Put a thing on the request.", "request.thing: str = x. A thing of this shop.", "stands outside traverse"),
        with_thing(),
        hooked("pass"),
        command=("show", "--long"),
        status=0,
        page=None,
    ),
    Mistake(
        "view that asks for the request of an element that is not there",
        ("SessionRequest", "asks (MODULE, line", "Add the element"),
        code="from pipeline.elements.session import SessionRequest\n"
        + view("@view(context=Folder, name='a')\ndef asks(context, request: SessionRequest):\n    return ''"),
    ),
    Mistake(
        "extra that is not installed",
        ("the module multipart is missing", "pip install 'wsgi-pipeline[forms]'", "LINE:#forms"),
        FORMS,
        around=without_multipart,
        page=("the module multipart is missing", "pip install 'wsgi-pipeline[forms]'"),
    ),
    # Seen by comparing what the parts have changed.
    Mistake(
        "element that reads the body before forms",
        ("thing read the body of the request (7 bytes read), and forms found only the rest", "LINE:[filter:thing]"),
        BODY_TAKEN,
        FIELDS.replace('name="add"', 'name="add", methods=("POST",)') + THING_READS,
        ("POST", "/add", "-d", "count=1"),
        page=("The body of the request broke off", "outside of forms has read wsgi.input", "LINE:[filter:forms]"),
    ),
    Mistake(
        "header behind the first block",
        ("X-Late was set when the body had begun to be sent", "MODULE, line LINE(name='n')"),
        code=in_view(
            "yield b'one'", "response.headers['X-Late'] = 'a'", "yield b'two'", takes="context, request, response"
        ),
        request=("GET", "/n"),
        status=0,
        page=None,
    ),
    Mistake(
        "cookie that two parts set",
        ("publisher set the cookie basket, and thing (INI, section [filter:thing]", "again", "LINE(name='n')"),
        with_thing(),
        in_view("response.set_cookie('basket', '1')", takes="context, request, response")
        + THING.replace("WORK", "pass").replace("response)\n\n    return", SETS_COOKIE),
        ("GET", "/n"),
        0,
        page=None,
    ),
    Mistake(
        "header that two parts set",
        ("publisher set X-Shop, and thing (INI, section [filter:thing]", "set it again", "LINE(name='n')"),
        with_thing(),
        in_view("response.headers['X-Shop'] = 'one'", takes="context, request, response")
        + THING.replace("WORK", "response.headers['X-Shop'] = 'two'"),
        ("GET", "/n"),
        0,
        page=None,
    ),
    Mistake(
        "branch of a switch that no request reaches",
        ("no request reaches the line 'site method=POST path=/shop/cart'", "'site path=/shop' takes", "line 5"),
        BRANCHES.replace("site header.Accept=*json*", "site path=/shop\n    site method=POST path=/shop/cart"),
        status=0,
        page=("No line of the switch is for it", "LINE:branches"),
    ),
    *(
        Mistake(
            name,
            (shown, "HERE/n.html, line 2"),
            code=PAGE,
            files={"n.html": f"<p>\n{wrong}"},
            status=0,
            page=None,
        )
        for name, wrong, shown in [
            ("value without quotes", "<input value={{ 1 }}>", "a value without quotes ends at its first blank"),
            ("blanks in a text area", "<textarea> {{ 1 }}</textarea>", "the blanks before the value are sent"),
            ("one brace", "<b>{ note.title }</b>", "{ note.title }: one brace is text, and no value"),
        ]
    ),
    *(
        Mistake(
            f"value of {element}: {lines}",
            (said, f"LINE:{lines.splitlines()[-1]}"),
            ini(
                ("errors traverse", order),
                ("[filter:traverse]", f"[filter:{element}]\n{USE}{element}\n{lines}\n\n[filter:traverse]"),
            ),
            status=0,
            around=in_its_directory,
            page=None,
        )
        for element, lines, said in [
            ("shield", "sources = img-src = self https://a.example", "'self' is taken for the name of a host"),
            ("shield", "referrer = no-referer", "'no-referer' is no Referrer-Policy"),
            ("shield", "referrer = no-referrer", "'no-referrer' has browsers hide the origin"),
            ("shield", "opener = same-orign", "'same-orign' is no Cross-Origin-Opener-Policy"),
            ("sql", "url = sqlite://", "'sqlite://' is in the memory of one process"),
            ("session", "keys = %(here)s/keys\nkeep = basket, language", "'basket,' has a comma, which belongs to"),
            ("session", "keys = %(here)s/keys  # secret", "'#' begins no comment here, and belongs to the value"),
            (
                "vhost",
                "allowed_hosts = *\naccept = Forwarded\ntrusted = ::1 0.0.0.0/0",
                "'0.0.0.0/0' are all addresses",
            ),
        ]
        for outer in [element in ("shield", "sql", "vhost")]
        for order in [f"{element} errors traverse" if outer else f"errors {element} traverse"]
    ),
    Mistake(
        "variable of a command that no ini reads",
        ("no ini reads the variable 'databse'; did you mean 'database'?",),
        "[DEFAULT]\ndatabase = MODULE:root\n\n" + ini(("root = MODULE:root", "get root = database")),
        command=("show", "databse=MODULE:root"),
        page=None,
    ),
    Mistake(
        "variable that no ini reads",
        ("no ini reads the variable 'databse'", "Did you mean 'database'?", "LINE:databse"),
        "[DEFAULT]\ndatabse = MODULE:root\ndatabase = MODULE:root\n\n"
        + ini(("root = MODULE:root", "get root = database")),
        status=0,
        page=None,
    ),
    Mistake(
        "variable that no ini reads, with the name of an option above it",
        ("no ini reads the variable 'databse'", "LINE:databse = text"),
        "[notes]\ndatabse = 1\n\n[DEFAULT]\ndatabse = text\ndatabase = MODULE:root\n\n"
        + ini(("root = MODULE:root", "get root = database")),
        status=0,
        page=None,
    ),
    Mistake(
        "relative path",
        ("the path a.log begins in the working directory", "LINE:file = a.log", "Write %(here)s/a.log"),
        ini(
            ("errors traverse", "log errors traverse"),
            ("[filter:traverse]", "[filter:log]\nuse = egg:wsgi-pipeline#log\nfile = a.log\n\n[filter:traverse]"),
        ),
        status=0,
        around=in_its_directory,
        page=None,
    ),
    Mistake(
        "relative path of a database",
        ("the path a.db begins in the working directory", "LINE:url = sqlite:///a.db", "Write %(here)s/a.db"),
        ini(
            ("errors traverse", "sql errors traverse"),
            ("[filter:traverse]", "[filter:sql]\nuse = egg:wsgi-pipeline#sql\nurl = sqlite:///a.db\n\n[filter:traverse]"),
        ),
        status=0,
        around=in_its_directory,
        page=None,
    ),
    Mistake(
        "a database where the system cleans",
        ("the file /tmp/a.db is lost when the system cleans", "LINE:url = sqlite:////tmp/a.db", "%(here)s/var"),
        ini(
            ("errors traverse", "sql errors traverse"),
            ("[filter:traverse]", "[filter:sql]\nuse = egg:wsgi-pipeline#sql\nurl = sqlite:////tmp/a.db\n\n[filter:traverse]"),
        ),
        status=0,
        around=cleaned,
        page=None,
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_the_message_leads_to_the_cause_and_the_place(
    mistake: Mistake, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = "#errors\n" if "debug" in mistake.ini else "#errors\ndebug = true\n"
    site.write(mistake.ini.replace("#errors\n", errors), mistake.code)
    for name, text in mistake.files.items():
        (site.directory / name).write_text(text)
    with mistake.around(site) as words:
        status, said = ask(mistake, site, words)
        monkeypatch.setattr(debug_key, "_key", KEY)
        monkeypatch.setattr(loading, "set_up_logging", lambda ini, variables: None)  # the log is that of pytest
        page = "" if mistake.command else page_of(mistake, site, words)
    assert status == mistake.status, said
    cause = said.partition(" Elements, outermost first")[0]
    for expected in mistake.said:
        assert in_words(with_words(expected, words), site) in cause
    assert "Traceback" not in said
    if not mistake.command:
        assert all(", line " in told for told in (cause, page) if told), "it names the place"
    assert bool(page) == (mistake.page is not None)
    for expected in mistake.page or (mistake.said if page else ()):
        assert in_words(with_words(expected, words), site) in page


KEY = "k" * 40


def page_of(mistake: Mistake, site: Site, words: Mapping[str, str]) -> str:
    """Return the text of the page of an error that a browser with the debug key gets, or "" if it gets none."""
    asked = [with_words(word, words) for word in mistake.request] or ["GET", "/"]
    try:
        for chain in plan_of(str(site.ini), []):
            chain.check_order()
        app = application_of(str(site.ini))
    except Exception as error:
        app = site_of(error)
        asked = ["GET", "/"]
    parser = argparse.ArgumentParser()
    parser.add_argument("method")
    parser.add_argument("path")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="data", action="append", default=[])
    parser.add_argument("--user")
    parser.add_argument("--commit", action="store_true")
    options = parser.parse_args(asked)
    environ = request_of(options.method, options.path, options.headers, options.data)
    cookie = f"{debug_key.COOKIE}={KEY}"
    environ["HTTP_COOKIE"] = f"{environ['HTTP_COOKIE']}; {cookie}" if "HTTP_COOKIE" in environ else cookie
    environ.setdefault("HTTP_ACCEPT", "text/html")
    if options.user:
        environ["HTTP_AUTHORIZATION"] = f"Basic {b64encode(f'{options.user}:x'.encode()).decode()}"
    line, _, body, _ = answer_of(app, environ)
    cause = re.search('<div class="cause">.*?</div>', body.decode(), re.DOTALL)
    html = (cause[0] if cause else body.decode()).replace("<code>", "where ")
    page = " ".join(unescape(re.sub("<[^>]+>", "", html)).split())
    return page if line >= "400" else ""


IN_THE_SITE = [mistake for mistake in MISTAKES if (mistake.ini, mistake.code) != (INI, CODE)]


@pytest.mark.parametrize("mistake", IN_THE_SITE, ids=[mistake.name for mistake in IN_THE_SITE])
def test_control_a_sound_site_is_not_told_so(mistake: Mistake, site: Site) -> None:
    """The table would find out if a command said the same of every site."""
    said = ask(mistake, site, {}, control=True)[1]
    with suppress(StopIteration):  # the line of the mistake is not there
        told = [in_words(expected, site) in said for expected in mistake.said]
        assert not all(told)


@pytest.mark.parametrize(
    ("option", "value", "is_told"),
    [
        ("zodb.uri", "memory://a", True),
        ("zodb.uri", "file:///srv/memory://", False),
        ("zodb.uri", "sqlite://?data_dir=/srv/data", False),
        ("sql.url", "sqlite:///:memory:", True),
        ("sql.url", "sqlite+pysqlite:///?timeout=5", True),
        ("sql.url", "sqlite:////srv/a.db", False),
        ("sql.url", "sqlite:///a.db?timeout=5", False),
        ("vhost.trusted", "::/0", True),
        ("vhost.trusted", "10.0.0.0/8 unix ::1", False),
        ("vhost.trusted", "10.0.0.0/0", False),
        ("authenticate.trusted", "127.0.0.1 0.0.0.0/0", True),
        ("log.file", "/srv/log ; of visitors", True),
        ("log.file", "/srv/a#b;c", False),
    ],
)
def test_values_that_do_not_do_what_they_seem_to(option: str, value: str, is_told: bool) -> None:
    names = {option, "tuple" if option.endswith(".trusted") else "str"}
    assert len([*slips_in(names, value)]) == is_told


def ask(mistake: Mistake, site: Site, words: Mapping[str, str], *, control: bool = False) -> tuple[int, str]:
    """Run the command of a mistake."""
    site.ini.write_text(with_words(site.ini.read_text(), words))
    asked = [with_words(word, words) for word in mistake.request]
    if mistake.command[:1] == ("serve",) and control:
        return site.run("check")
    return site.run(*(mistake.command or (("explain", *asked) if asked else ("check",))))


def with_words(text: str, words: Mapping[str, str]) -> str:
    for word, meant in words.items():
        text = text.replace(word, meant)
    return text


def in_words(expected: str, site: Site) -> str:
    """What a message must have, with the files and the lines of the site."""
    files = {"MODULE": str(site.code), "INI": str(site.ini), "HERE": str(site.directory)}
    expected = with_words(expected, files)
    if expected.startswith("LINE:"):
        text = expected.removeprefix("LINE:").replace("= M", f"= {site.module}")
        return f"line {site.line(text, site.ini)}"
    head, found, tail = expected.partition("LINE(")
    return f"{head}{site.line(tail[:-1])}" if found else expected


def test_the_extras_that_messages_name_are_there() -> None:
    there = metadata("wsgi-pipeline").get_all("Provides-Extra")
    assert {*EXTRAS.values()} <= {*there}
