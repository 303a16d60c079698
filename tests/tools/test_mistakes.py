"""Mistakes that people make: what ``check`` or ``explain`` says alone leads to the cause and the place."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tools.conftest import CODE, INI, Site


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
    ("errors traverse", "swallow errors_not_there traverse"),
    ("errors_not_there ", ""),
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
        ("authenticate must be outside traverse", "An order that works"),
        AUTHENTICATED.replace("authenticate traverse", "traverse authenticate"),
        CHECK,
    ),
    Mistake(
        "no traverse", ("publisher requires 'context'", "such as traverse"), ini(("errors traverse", "errors"))
    ),
    Mistake("duplicate", ("errors stands twice",), ini(("errors traverse", "errors errors traverse"))),
    Mistake("no root", ("traverse requires 'root'", "zodb"), ini(("root = MODULE:root\n", ""))),
    Mistake(
        "dotted name that leads nowhere",
        ("there is no module 'nowhere'", "LINE:nowhere"),
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
    Mistake("section that is not there", ("No section 'traverze'",), ini(("errors traverse", "errors traverze"))),
    Mistake("section of the wrong type", ("'errors'", "filter"), ini(("[filter:errors]", "[app:errors]"))),
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
    Mistake("fields without forms", ("add takes fields of a form (count)", "Put forms"), code=FIELDS),
    Mistake(
        "unused section",
        ("no pipeline uses [filter:log]", "LINE:[filter:log]"),
        INI + "\n[filter:log]\nuse = egg:wsgi-pipeline#log\n",
        status=0,
    ),
    Mistake(
        "debug in production",
        ("errors is in debug mode", "LINE:debug"),
        ini(("#errors", "#errors\ndebug = true")),
        status=0,
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
    ),
    Mistake(
        "factory returns None",
        ("returned None", "must return a handler"),
        ini(("use = egg:wsgi-pipeline#errors", "paste.filter_factory = MODULE:nothing")),
        CODE + ("\nfrom pipeline import element\n@element\ndef nothing(next):\n    pass\n"),
    ),
    # Seen by explain.
    Mistake("view mistyped in the URL", ("no item 'edti'", "did you mean 'edit'?"), request=("POST", "/edti")),
    Mistake("item mistyped", ("did you mean the item 'docs'?",), request=("GET", "/dosc/")),
    Mistake(
        "path that leads nowhere", ("no item 'nothing'", "The default view".lower()), request=("GET", "/nothing")
    ),
    Mistake(
        "view that was not scanned", ("no scan names its module", "other.py, line 4"), request=("GET", "/lost")
    ),
    Mistake("no default view", ("there is not a default view for a Page",), request=("GET", "/page")),
    Mistake(
        "view for another class", ("it is for Folder", 'MODULE, line LINE("edit")'), request=("POST", "/page/edit")
    ),
    Mistake(
        "wrong method", ("accepts GET; it accepts POST", "MODULE", "methods=(..., 'GET')"), request=("GET", "/edit")
    ),
    Mistake("private name", ("must not start with '_' (S3)",), request=("GET", "/_private")),
    Mistake("dots", ("the path", "'..' in place of a name"), request=("GET", "/docs/../x")),
    Mistake("missing slash", ("the address of its page ends in a slash",), request=("GET", "/docs"), status=0),
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
    ),
    Mistake(
        "no branch",
        ("no line of the switch is for it",),
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
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_the_message_leads_to_the_cause_and_the_place(mistake: Mistake, site: Site) -> None:
    site.write(mistake.ini, mistake.code)
    other = site.directory / "other.py"
    if mistake.name == "view that was not scanned":
        other.write_text(
            "from pipeline import view\n\n@view(name='lost')\ndef lost(context, request):\n    return ''\n"
        )
    status, said = site.run("explain", *mistake.request) if mistake.request else site.run("check")
    assert status == mistake.status, said
    for expected in mistake.said:
        expected = expected.replace("MODULE", str(site.code)).replace("HERE", str(site.directory))
        if expected.startswith("LINE:"):
            text = expected.removeprefix("LINE:").replace("= M", f"= {site.module}")
            expected = f"line {site.line(text, site.ini)}"
        head, found, tail = expected.partition("LINE(")
        if found:
            expected = f"{head}{site.line(tail[:-1])}"
        assert expected in said
    assert "Traceback" not in said
