"""The annotation of ``request`` is a contract: a class that no element adds is refused at load."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline import Pipeline, Request, Response, element
from pipeline.composition import Offers
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.traverse import traverse
from pipeline.forms.arguments import arguments_of
from pipeline.interfaces import ConfigurationError
from pipeline.paste import load
from pipeline.publisher import publisher
from pipeline.publishing.xmlrpc import IXMLRPCRequest
from pipeline.tools import check, show, views
from pipeline.typed import Way, refuse_unadded_views
from pipeline.views import Views

if TYPE_CHECKING:
    from pipeline.auth.authentication import AuthRequest as OnlyForTypes

EGG = "egg:wsgi-pipeline#"


class ShelfRequest(Request):
    """What the element ``shelf`` adds."""

    shelf: tuple[str, ...] = ("book",)


class LampRequest(Request):
    """What no element adds."""

    lamp: bool = True


class BothRequest(ShelfRequest, LampRequest):
    """Two classes, and nothing more."""


@element(adds=ShelfRequest)
def shelf(next: Any) -> Any:
    """Add a shelf."""
    return Offers(next)


@element
def reading(next: Any) -> Any:
    """Say by its handler that it needs a shelf."""

    def reading(request: ShelfRequest, response: Response) -> None:
        next(request, response)

    return reading


@element
def hooking(next: Any) -> Any:
    """Offer a traversal hook that needs a shelf."""

    def hook(request: ShelfRequest, obj: object) -> None:
        pass

    return Offers(next, traversal_hooks=(hook,))


def middleware(app: Any) -> Any:
    return lambda environ, start_response: app(environ, start_response)


def middleware_factory(global_conf: Any) -> Any:
    return middleware


VIEWS = """
from pipeline import view
from pipeline.interfaces import IRequest
import {here} as here
class IRobot(IRequest):
    pass
@view(context={context}{more})
def page(context, request: here.{wanted}):
    return "".join(getattr(request, "shelf", ()))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """``module(wanted)`` is the name of a module with a view that names a class of this file."""
    monkeypatch.setitem(sys.modules, "typed_here", sys.modules[__name__])
    monkeypatch.syspath_prepend(tmp_path)
    made = iter(range(9))

    def module(wanted: str, more: str = "", context: str = "dict") -> str:
        name = f"typed_{tmp_path.name.replace('-', '_')}_{next(made)}"
        text = VIEWS.format(here="typed_here", wanted=wanted, more=more, context=context)
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return module


class OwnRootRequest(ShelfRequest):
    """Says more of attributes that there are: it adds none."""

    root: dict[str, Any]
    shelf: tuple[str, ...]


MISSING = [
    ("ShelfRequest", "ShelfRequest", "Add the element shelf"),
    ("LampRequest", "LampRequest", "Add an element for it"),
    ("BothRequest", "ShelfRequest", "Add the element shelf"),
]


@pytest.mark.parametrize("context", ["dict", "ValueError"], ids=["a view", "an error view"])
@pytest.mark.parametrize(("wanted", "lacking", "remedy"), MISSING)
def test_a_view_whose_class_no_element_adds_is_refused(
    module: Any, wanted: str, lacking: str, remedy: str, context: str
) -> None:
    scan = module(wanted, context=context)
    with pytest.raises(ConfigurationError) as refused:
        Pipeline(errors(), traverse(root=dict), publisher(scan=(scan,)))
    said = str(refused.value)
    assert f"{scan}.page (" in said and f"{scan}.py, line" in said
    assert f"{__name__}.{lacking}" in said and remedy in said and "errors traverse publisher" in said


def test_a_view_whose_class_an_element_adds_is_called(module: Any, call: Any) -> None:
    app = Pipeline(errors(), shelf(), traverse(root=dict), publisher(scan=(module("ShelfRequest"),)))
    assert call(app, "/").text == "book"


def test_a_class_may_say_more_of_attributes_that_there_are(module: Any, call: Any) -> None:
    end = publisher(scan=(module("OwnRootRequest"),))
    assert call(Pipeline(errors(), shelf(), traverse(root=dict), end), "/").text == "book"
    with pytest.raises(ConfigurationError, match="ShelfRequest"):
        Pipeline(errors(), traverse(root=dict), end)


@pytest.mark.parametrize("part", [reading, hooking], ids=["a handler", "a traversal hook"])
def test_a_handler_or_hook_whose_class_no_element_adds_is_refused(part: Any, module: Any) -> None:
    end = publisher(scan=(module("Request"),))
    with pytest.raises(ConfigurationError, match=r"test_typed.py, line \d+\) takes .*ShelfRequest.* Add .* shelf"):
        Pipeline(part(), traverse(root=dict), end)
    Pipeline(shelf(), part(), traverse(root=dict), end)


FIELDS = """
from pipeline import view
from pipeline.publishing.xmlrpc import IXMLRPCRequest
@view(context=dict, name="add", methods=("POST",){more})
def add(context, request, title: str):
    return title
"""


@pytest.mark.parametrize("between", [(), (middleware,)], ids=["", "behind a middleware"])
@pytest.mark.parametrize("more", ["", ", request_type=IXMLRPCRequest"], ids=["", "by XML-RPC"])
@pytest.mark.parametrize("type_", [None, IXMLRPCRequest])
def test_a_view_that_takes_fields_is_refused_where_nothing_reads_them(
    between: Any, more: str, type_: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    """Each request for it was a 500, and a reload put this in the place of a site that worked."""
    name = f"fields_{abs(hash(more))}"
    (tmp_path / f"{name}.py").write_text(FIELDS.format(more=more))
    monkeypatch.syspath_prepend(tmp_path)
    inner = (*between, traverse(root=dict, request_type=type_), publisher(scan=(name,)))
    if more or type_:
        Pipeline(errors(), *inner)
    else:
        said = rf"{name}\.py, line \d+\) takes the fields title, .* errors traverse publisher reads them: add forms"
        with pytest.raises(ConfigurationError, match=said):
            Pipeline(errors(), *inner)
        app = Pipeline(errors(), forms(), *inner)
        sent = {"CONTENT_TYPE": "application/x-www-form-urlencoded", "CONTENT_LENGTH": "9"}
        assert call(app, "/add", "POST", **sent, **{"wsgi.input": BytesIO(b"title=tea")}).text == "tea"


@pytest.mark.parametrize("order", [1, -1])
def test_fields_that_one_of_several_ways_fills_are_not_refused(
    order: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fields_shared.py").write_text(FIELDS.format(more=""))
    monkeypatch.syspath_prepend(tmp_path)
    found = Views(("fields_shared",), arguments_of)
    plain, xmlrpc = (Way((traverse(root=dict, request_type=one).contract,)) for one in (None, IXMLRPCRequest))
    refuse_unadded_views([(found, plain), (found, xmlrpc)][::order])
    with pytest.raises(ConfigurationError, match="takes the fields title"):
        refuse_unadded_views([(found, plain)])


def test_an_element_outside_a_foreign_middleware_adds_the_class(module: Any, call: Any) -> None:
    inner = (middleware, errors(), traverse(root=dict), publisher(scan=(module("ShelfRequest"),)))
    assert call(Pipeline(shelf(), *inner), "/").text == "book"
    with pytest.raises(ConfigurationError, match="no element of the pipeline errors traverse publisher adds"):
        Pipeline(*inner)


def test_a_pipeline_around_a_middleware_is_refused_by_the_first_request(module: Any, call: Any) -> None:
    """Paste Deploy does not say what stands behind the middleware."""
    inner = traverse(root=dict)(publisher(scan=(module("ShelfRequest"),)))
    assert call(shelf()(errors()(middleware(inner))), "/").text == "book"
    answer = call(errors()(middleware(inner)), "/")
    assert answer.status == 500


class Called:
    def __call__(self, request: ShelfRequest, response: Response) -> None:
        pass


def wrapping(function: Any) -> Any:
    return functools.wraps(function)(lambda *arguments: function(*arguments))


@wrapping
def wrapped(context: object, request: ShelfRequest) -> str:
    return ""


class Page:
    def __init__(self, context: object, request: ShelfRequest) -> None:
        pass

    def method(self, context: object, request: ShelfRequest) -> str:
        return ""

    def __call__(self) -> str:
        return ""


def only_for_types(context: object, request: OnlyForTypes) -> str:
    return ""


def a_union(context: object, request: ShelfRequest | LampRequest) -> str:
    return ""


TOLD: list[tuple[Any, int, type | None]] = [
    (Called(), 0, ShelfRequest),
    (Called().__call__, 0, ShelfRequest),
    (wrapped, 1, ShelfRequest),
    (Page, 1, ShelfRequest),
    (Page(None, None).method, 1, ShelfRequest),  # type: ignore[arg-type]
    (only_for_types, 1, None),
    (a_union, 1, None),
    (functools.partial(wrapped), 1, None),
    (len, 0, None),
    (dict, 1, None),
    (lambda context, request: "", 1, None),
    (lambda context: "", 1, None),
]


@pytest.mark.parametrize(("function", "place", "wanted"), TOLD, ids=lambda value: getattr(value, "__name__", ""))
def test_what_cannot_be_told_is_let_through(function: Any, place: int, wanted: type | None) -> None:
    from pipeline.typed import wanted_by

    assert wanted_by(function, place) is wanted


INI = """
[composite:main]
use = {EGG}switch
branches = {lines}
default = plain

[pipeline:plain]
pipeline = {EGG}errors traverse plain_site

[pipeline:shelves]
pipeline = shelf {EGG}errors robots shelves_site

[filter:shelf]
paste.filter_factory = {here}:shelf

[filter:traverse]
use = {EGG}traverse
root = builtins:dict

[filter:robots]
use = {EGG}traverse
root = builtins:dict
{robots}

[app:plain_site]
use = {EGG}publisher
scan = {scan}

[app:shelves_site]
use = {EGG}publisher
scan = {shelves_scan}
"""

BRANCHES: list[tuple[str, str, bool, bool, bool]] = [
    # condition of the branch with the shelf, the note of the view, whether robots go there, whether it loads if
    # both branches publish the view, and if only the other does
    ("path=/x", "", False, True, False),
    ("method=GET", "", False, True, False),
    ("method=POST", "", False, False, False),
    ("method=POST", ", methods=('POST',)", False, True, True),
    ("method=POST path=/x", ", methods=('POST',)", False, True, False),
    ("method=POST,PUT header.Accept=x", ", methods=('GET', 'PUT')", False, True, False),
    ("path=/x", ", request_type=IRobot", True, True, True),
    ("path=/x", ", request_type=IRobot", False, True, True),  # something else may make it a robot's request
]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("condition", "note", "robots", "loads", "loads_alone"), BRANCHES)
def test_a_view_of_several_branches_needs_one_that_a_request_can_take(
    module: Any, tmp_path: Path, condition: str, note: str, robots: bool, loads: bool, loads_alone: bool,
    shared: bool, capsys: pytest.CaptureFixture[str],
) -> None:
    scan = module("ShelfRequest", note)
    ini = tmp_path / "site.ini"
    ini.write_text(
        INI.format(
            EGG=EGG, lines=f"shelves {condition}", here=__name__, scan=scan,
            shelves_scan=scan if shared else module("Request"),
            robots=f"request_type = {scan}:IRobot" if robots else "",
        )
    )
    if loads if shared else loads_alone:
        load(f"config:{ini}")
        assert check.main([str(ini)]) == 0, capsys.readouterr().out
    else:
        with pytest.raises(ConfigurationError, match=r"\.page \(.*ShelfRequest.*no element of .* adds that class"):
            load(f"config:{ini}")
        assert check.main([str(ini)]) == 1
        assert "ShelfRequest" in capsys.readouterr().out


def test_an_ini_with_a_foreign_middleware_is_refused_when_it_is_loaded(module: Any, tmp_path: Path) -> None:
    scan = module("ShelfRequest")
    ini = tmp_path / "site.ini"
    text = (
        "[pipeline:main]\npipeline = OUTER foreign traverse site\n\n"
        f"[filter:errors]\nuse = {EGG}errors\n\n[filter:shelf]\npaste.filter_factory = {__name__}:shelf\n\n"
        f"[filter:foreign]\npaste.filter_factory = {__name__}:middleware_factory\n\n"
        f"[filter:traverse]\nuse = {EGG}traverse\nroot = builtins:dict\n\n"
        f"[app:site]\nuse = {EGG}publisher\nscan = {scan}\n"
    )
    ini.write_text(text.replace("OUTER", "errors shelf"))
    load(f"config:{ini}")
    ini.write_text(text.replace("OUTER", "errors"))
    with pytest.raises(ConfigurationError, match=r"ShelfRequest.* no element of .* errors traverse publisher"):
        load(f"config:{ini}")


def test_views_and_show_print_the_classes(
    module: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = tmp_path / "site.ini"
    scan = module("ShelfRequest")
    given = {"EGG": EGG, "here": __name__, "scan": scan, "shelves_scan": scan, "robots": ""}
    ini.write_text(INI.format(lines="shelves path=/x", **given))
    assert views.main([str(ini)]) == 0
    assert "ShelfRequest" in capsys.readouterr().out
    assert show.main(["--long", str(ini)]) == 0
    assert f"request class: {__name__}:ShelfRequest" in " ".join(capsys.readouterr().out.split())
