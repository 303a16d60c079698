"""The ``switch`` composite of Paste Deploy: one ini, several pipelines, picked by the request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias

import webob
from webob.exc import HTTPException, HTTPNotFound

from pipeline.composition import Pipeline, element
from pipeline.http.encodings import vary
from pipeline.ini import Source
from pipeline.interfaces import Handler, OptionError, WSGIApp
from pipeline.options import Signature
from pipeline.request import Request
from pipeline.response import Response
from pipeline.strings import from_strings

Test: TypeAlias = Callable[[dict[str, Any], list[str]], bool]
"""A function ``(environ, asked)`` that judges a request, and adds the header that it reads to ``asked``."""


class Branch(NamedTuple):
    """One line of ``branches``: the app, and the conditions for a request to be given to it."""

    app: WSGIApp
    tests: tuple[Test, ...]


def _switch(*, branches: str = "", default: str | None = None) -> None:
    """Check the options of ``switch``."""


def switch(loader: Any, global_conf: Mapping[str, str], **strings: str) -> WSGIApp:
    """Pick an app by the request: ``[composite:main] use = egg:wsgi-pipeline#switch``.

    branches  one line for each branch: the name of an app and the conditions for the request. All conditions of a
              line must hold. The first line that holds wins. Conditions::

                method=PUT,DELETE          one of these methods
                type=text/xml,*/json       content type of the body, "*" for any run of characters
                scheme=https               scheme of the URL
                path=/admin                the path is this or below it; it is not taken off. This is not access
                                           control: an object may have other addresses as well
                header.Accept=*json*       a request header, "*" for any run of characters
                view=yes                   the app, a pipeline of views, has one for the path and the method. It is
                                           asked by OPTIONS, if all other conditions of the line hold

    default   name of the app for all other requests; without it they are answered 404
    """
    source = Source(global_conf, switch)
    options = from_strings(Signature.of(_switch), "switch", strings, source)
    where = source.option("branches")

    def get(name: str) -> WSGIApp:
        app: WSGIApp = loader.get_app(name, global_conf=global_conf)
        return app

    lines = branch_lines(strings)
    table = tuple(_branch(line, get, where) for line in lines)
    default = options.get("default")
    if not lines and not default:
        raise OptionError(f"{source.section_of(strings)}: a switch without branches and default answers only 404")
    remedy = f"No line of the switch is for it: {'; '.join(lines)}. Add one ({where}), or the option default = NAME"
    otherwise = get(default) if default else Pipeline(no_branch(remedy=remedy))
    return Switch(table, otherwise)


class NoBranch(HTTPNotFound):
    """A request that no line of a switch is for."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.remedy = remedy


@element
def no_branch(*, remedy: str) -> Handler:
    """Answer 404 to requests that no branch fits.

    remedy  what a developer reads
    """

    def no_branch(request: Request, response: Response) -> None:
        raise NoBranch("There is nothing at this address.", remedy)

    return no_branch


def methods_of(line: str) -> frozenset[str] | None:
    """Return the methods that a line of ``branches`` names, or None if it accepts any."""
    named = [frozenset(word[7:].upper().split(",")) for word in line.split()[1:] if word.startswith("method=")]
    return frozenset.intersection(*named) if named else None


def branch_lines(strings: Mapping[str, str]) -> list[str]:
    """Return the lines of the option ``branches``. The first word of each is the name of an app."""
    return list(filter(None, map(str.strip, strings.get("branches", "").splitlines())))


class Switch:
    """A WSGI app that hands each request to the app of the first branch that fits."""

    def __init__(self, branches: tuple[Branch, ...], default: WSGIApp) -> None:
        self.branches = branches
        self.default = default
        for app in (default, *(branch.app for branch in branches)):
            if isinstance(app, Pipeline):
                app.published = None  # one view for several branches: ``pipeline.paste.load`` checks them together

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        asked: list[str] = []
        fitting = (app for app, tests in self.branches if all(test(environ, asked) for test in tests))
        app = next(fitting, self.default)
        return app(environ, varying(start_response, asked) if asked else start_response)


def varying(start_response: Any, names: list[str]) -> Callable[..., Any]:
    """Return a ``start_response`` by which the answer says that it depends on headers of the request: a cache would
    give the page of one branch to a client of another."""

    def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
        headers = headers.copy()
        for name in names:
            vary(headers, name)
        return start_response(status, headers, *exc_info)

    return start


def _branch(line: str, get: Callable[[str], WSGIApp], where: str) -> Branch:
    name, *conditions = line.split()
    if not conditions:
        raise OptionError(f"{where}: branch {name!r} has no condition; use 'default = {name}' instead")
    app = get(name)
    conditions.sort(key=lambda one: (one == "view=yes", one.startswith("header.")))  # that is asked if it must be
    tests = (_has_view(app, name, where) if one == "view=yes" else _test(one, name, where) for one in conditions)
    return Branch(app, tuple(tests))


_CONDITION = re.compile(
    r"method=[\w-]+(,[\w-]+)*|scheme=https?"
    r"|path=((?<!,)/(?!\.\.(/|$))[^/?#*%]*)+"  # decoded, without a query; neither a pattern nor a list
    r"|type=[^;,*/]*[*/][^;,]*(,[^;,*/]*[*/][^;,]*)*"  # without a parameter, which is not compared
    r"|header\.[\w-]+=.+",
    re.ASCII,
)
"""The conditions that a request can meet."""


def _test(condition: str, branch: str, where: str) -> Test:
    if not _CONDITION.fullmatch(condition):
        raise OptionError(
            f"{where}: branch {branch!r} has the condition {condition!r}; a condition must be method=, type=, "
            f"scheme=, path=/ or header.NAME= with a value that a request can have, or view=yes"
        )
    kind, _, value = condition.partition("=")
    if kind == "method":
        methods = methods_of(f"{branch} {condition}") or frozenset()
        return lambda environ, asked: environ["REQUEST_METHOD"] in methods
    if kind == "scheme":
        return lambda environ, asked: bool(environ["wsgi.url_scheme"] == value)
    if kind == "path":
        prefix = segments_of(value.encode().decode("latin-1"))  # as PEP 3333 has it
        return lambda environ, asked: segments_of(environ.get("PATH_INFO", ""))[: len(prefix)] == prefix
    fits = _pattern(value)
    if kind == "type":
        return lambda environ, asked: fits(environ.get("CONTENT_TYPE", "").partition(";")[0].strip())
    header = kind.removeprefix("header.")
    key = header.upper().replace("-", "_")
    if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        key = f"HTTP_{key}"

    def has_header(environ: dict[str, Any], asked: list[str]) -> bool:
        asked.append(header)
        return key in environ and fits(environ[key])

    return has_header


_NOT_ASKED = (
    *("CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_TRANSFER_ENCODING"),  # the body stays for the app that answers
    "HTTP_AUTHORIZATION",  # a wrong password counts once
    "HTTP_ACCESS_CONTROL_REQUEST_METHOD",  # cors would answer it, before a view is looked for
)
"""Variables of the environ that the question by OPTIONS leaves out."""


def _has_view(app: WSGIApp, branch: str, where: str) -> Test:
    """Return the test whether a pipeline accepts the method of a request at its path: its publisher answers OPTIONS
    with Allow, without a permission and without a body."""
    if not isinstance(app, Pipeline) or app.published is None:
        wanted = "has the condition view=yes, but it is not a pipeline with a publisher"
        raise OptionError(f"{where}: branch {branch!r} {wanted}")

    def has_view(environ: dict[str, Any], asked_before: list[str]) -> bool:
        asked = {name: value for name, value in environ.items() if name not in _NOT_ASKED}
        asked.update({"REQUEST_METHOD": "OPTIONS", "wsgi.input": BytesIO()})
        try:
            status, headers, body = webob.Request(asked).call_application(app)
        except HTTPException:  # a 404, which the elements outside of the switch would answer
            return False
        getattr(body, "close", bool)()
        allowed = dict(headers).get("Allow", "") if status.startswith("2") else ""
        return environ["REQUEST_METHOD"] in allowed.replace(" ", "").split(",")

    return has_view


def segments_of(path: str) -> list[str]:
    """Return the segments of a path that traversal walks. So a doubled slash does not avoid a branch."""
    return [segment for segment in path.split("/") if segment and segment != "."]


def _pattern(value: str) -> Callable[[str], bool]:
    """Return the test of a pattern. Python's takes time in proportion to the length of the header (S12)."""
    words = value.replace("[", "[[]").replace("?", "[?]").split(",")
    match = re.compile("|".join(map(translate, words)), re.IGNORECASE).match
    return lambda text: match(text) is not None
