"""A site, requests and responses for tests; the order of two elements; the fixtures of the plug-in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from persistent.mapping import PersistentMapping
from sqlalchemy import text
from webtest import AppError
from zope.interface import implementer

from pipeline import Pipeline, Request, Response, element, redirect, view
from pipeline.auth.authentication import AuthRequest
from pipeline.elements.authenticate import authenticate
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.sql import SqlRequest, sql
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.elements.zodb import zodb
from pipeline.interfaces import ISecurityPolicy, OrderError
from pipeline.publisher import publisher
from pipeline.request import on_first_use
from pipeline.testing import assert_order, log_in, make_request, make_response, site


@view(context=dict)
def index(context: object, request: Request) -> str:
    return f"<p>hello {request.principal or 'visitor'}</p><a href='more'>more</a>"


@view(context=dict, name="more")
def more(context: object, request: Request) -> str:
    return "<p>more</p>"


@view(context=dict, name="secret", permission="secret")
def secret(context: object, request: Request) -> str:
    return f"<p>the secret of {request.principal}</p>"


@view(context=dict, name="change", methods=("POST",), permission="secret")
def change(context: object, request: Request) -> str:
    return f"<p>changed by {request.principal}</p>"


@view(context=dict, name="fails")
def fails(context: object, request: Request) -> str:
    raise ZeroDivisionError


@view(context=PersistentMapping)
def count(context: PersistentMapping, request: Request) -> str:
    return str(context.get("count", 0))


@view(context=PersistentMapping, name="next", methods=("POST",))
def next_number(context: PersistentMapping, request: Request) -> Any:
    context["count"] = context.get("count", 0) + 1
    return redirect(".")


def right(request: Request, login: str, password: str) -> str | None:
    return login if password == "open" else None


@implementer(ISecurityPolicy)
class AnyUser:
    """Lets every user see the secret."""

    def permits(self, request: Request, permission: str, context: object) -> bool:
        return request.principal is not None


# -- site ----------------------------------------------------------------------------------------------------------


def small() -> Pipeline:
    return Pipeline(errors(), traverse(root=dict), publisher(scan=(__name__,)))


def test_a_site_is_a_webtest_application() -> None:
    client = site(small())
    page = client.get("/")
    page.mustcontain("hello visitor")
    page.click("more").mustcontain("more")
    with pytest.raises(AppError, match="404"):
        client.get("/nothing")
    assert client.get("/fails", status=500).status_int == 500


INI = """
[DEFAULT]
number = 1
[pipeline:main]
pipeline = errors traverse views
[app:other]
use = egg:wsgi-pipeline#health
[filter:errors]
use = egg:wsgi-pipeline#errors
[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = {root}
get max_segments = number
[app:views]
use = egg:wsgi-pipeline#publisher
scan = {scan}
"""


def test_a_site_of_an_ini(tmp_path: Path) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(INI.format(root="builtins:dict", scan=__name__))
    assert "hello visitor" in site(ini).get("/").text
    assert site(str(ini)).get("/a/b", status=414).status_int == 414
    assert site(ini, number="3").get("/a/b", status=404).status_int == 404


def test_a_module_beside_the_ini_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "beside_the_ini_of_a_test.py").write_text("class Root(dict): pass\n")
    ini = tmp_path / "site.ini"
    ini.write_text(INI.format(root="beside_the_ini_of_a_test:Root", scan=__name__))
    assert "hello" in site(ini).get("/").text


def test_an_ini_that_is_incomplete_is_refused(tmp_path: Path) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text("[app:main]\nuse = egg:wsgi-pipeline#publisher\n")
    with pytest.raises(OrderError, match="publisher requires 'context'"):
        site(ini)


def test_only_an_ini_has_variables() -> None:
    with pytest.raises(TypeError, match="number: only an ini has variables"):
        site(small(), number="3")


# -- log_in --------------------------------------------------------------------------------------------------------


def guarded(tmp_path: Path, **options: Any) -> Any:
    scan = (__name__, "pipeline.auth.login") if "by" in options else (__name__,)
    return site(
        Pipeline(
            errors(),
            forms(),
            authenticate(check=right, policy=AnyUser, **options),
            traverse(root=dict),
            publisher(scan=scan),
        )
    )


def test_a_visitor_logs_in_at_the_login_page(tmp_path: Path) -> None:
    options = {"by": ("session",), "keys": str(tmp_path / "keys")}
    client = guarded(tmp_path, **options)
    client.get("/secret", status=401)
    with pytest.raises(AssertionError, match=r"the site refused the login of 'ada': it answered 422"):
        log_in(client, "ada", "wrong")
    assert log_in(client, "ada", "open") is client
    client.get("/secret").mustcontain("the secret of ada")
    guarded(tmp_path, **options).get("/secret", status=401)


def test_who_is_logged_in_sends_forms_as_a_browser_does(tmp_path: Path) -> None:
    """A browser says that a form comes from the site itself; without that, the form would need a token."""
    client = log_in(guarded(tmp_path, by=("session",), keys=str(tmp_path / "keys")), "ada", "open")
    client.post("/change").mustcontain("changed by ada")
    client.post("/change", headers={"Sec-Fetch-Site": "cross-site"}, status=403)


def test_a_visitor_logs_in_by_basic_authentication(tmp_path: Path) -> None:
    client = guarded(tmp_path)
    client.get("/secret", status=401)
    log_in(client, "ada", "open").get("/secret").mustcontain("the secret of ada")


def test_a_page_without_a_form_is_not_a_login_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="/more answered 200 OK and has no form with a field 'password'"):
        log_in(guarded(tmp_path), "ada", "open", page="/more")


# -- make_request, make_response -----------------------------------------------------------------------------------


class PaletteRequest(Request):
    colour: str = "grey"
    palette: list[str] = on_first_use()


def test_a_view_is_called_with_a_request() -> None:
    assert index({}, make_request(adds=AuthRequest, principal="ada")).startswith("<p>hello ada")


def test_a_request_has_a_path_a_query_and_headers() -> None:
    request = make_request("/a%20b?c=1&c=2", headers={"X-One": "1"}, environ={"REMOTE_ADDR": "192.0.2.1"})
    assert (request.path_info, request.GET.getall("c")) == ("/a b", ["1", "2"])
    assert (request.headers["X-One"], request.remote_addr) == ("1", "192.0.2.1")
    assert request.absolute_url(None) == "http://localhost/"


@pytest.mark.parametrize(
    ("given", "method", "body"),
    [
        ({}, "GET", b""),
        ({"body": b"x"}, "POST", b"x"),
        ({"form": {"a": "1"}}, "POST", b"a=1"),
        ({"method": "DELETE"}, "DELETE", b""),
        ({"method": "PUT", "body": b"x"}, "PUT", b"x"),
        ({"method": "PUT", "form": {"a": "1"}}, "PUT", b"a=1"),
    ],
)
def test_a_request_with_a_body_is_a_post_unless_its_method_is_given(
    given: dict[str, Any], method: str, body: bytes
) -> None:
    request = make_request(**given)
    assert (request.method, request.body) == (method, body)


def test_a_request_has_the_attributes_of_its_class() -> None:
    request = make_request(adds=PaletteRequest, palette=["red"], context="here", root={"a": 1}, tm="a manager")
    assert isinstance(request, PaletteRequest)
    assert (request.colour, request.palette) == ("grey", ["red"])
    assert (request.context, request.root, request.tm) == ("here", {"a": 1}, "a manager")


def test_an_attribute_that_no_class_declares_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"Request does not declare request\.palette"):
        make_request(palette=["red"])
    with pytest.raises(AttributeError, match=r"PaletteRequest does not declare request\.colours"):
        make_request(adds=PaletteRequest, colours=["red"])


def test_a_response_is_empty_or_as_outer_elements_left_it() -> None:
    empty = make_response()
    assert (empty.status, empty.body, empty.content_type) == ("200 OK", b"", "text/html")
    sorry = make_response("sorry", 503, {"Retry-After": "1"})
    assert isinstance(sorry, Response)
    assert (sorry.status_int, sorry.body, sorry.headers["Retry-After"]) == (503, b"sorry", "1")
    assert sorry.content_type == "text/html"


# -- assert_order --------------------------------------------------------------------------------------------------


def test_an_order_that_is_declared() -> None:
    assert_order(retry, zodb)
    assert_order(errors(), transaction(), because="error view")
    assert_order(zodb, traverse)  # traverse requires what zodb provides


@pytest.mark.parametrize(
    ("outer", "inner", "because", "found"),
    [
        (zodb, retry, "", "zodb outside retry is refused: every attempt needs a fresh connection state"),
        (compress, vhost, "", "compress outside vhost is not declared: vhost outside compress is accepted as well"),
        (retry, zodb, "a ghost", "no reason says 'a ghost': every attempt needs a fresh .*; every attempt needs"),
    ],
)
def test_an_order_that_is_not(outer: Any, inner: Any, because: str, found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        assert_order(outer, inner, because=because)


# -- The plug-in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", [1, 2])
def test_a_zodb_is_new_in_each_test(zodb_uri: str, site: Callable[..., Any], time: int) -> None:
    client = site(
        Pipeline(retry(), zodb(uri=zodb_uri), errors(), transaction(), traverse(), publisher(scan=(__name__,)))
    )
    assert client.get("/").text == "0"
    assert client.post("/next").follow().text == "1"


@pytest.mark.parametrize("time", [1, 2])
def test_an_sql_database_is_new_in_each_test(sql_url: str, site: Callable[..., Any], time: int) -> None:
    @element
    def end() -> Any:
        def end(request: SqlRequest, response: Response) -> None:
            request.sql.execute(text("create table pages (name text)"))
            response.text = "made"

        return end

    assert site(Pipeline(sql(url=sql_url), errors(), transaction(), end())).post("/").text == "made"


def test_the_fixtures_are_the_functions(
    make_request: Any, make_response: Any, log_in: Any, check_element: Any, assert_order: Any, site: Any
) -> None:
    import pipeline.testing

    for function in (make_request, make_response, log_in, check_element, assert_order, site):
        assert function is getattr(pipeline.testing, function.__name__)


@pytest.mark.once
def test_the_plug_in_does_not_load_by_itself(tmp_path: Path) -> None:
    """A project that has the pipeline installed, and does not name the plug-in, sees none of its fixtures."""
    test = "def test_it(zodb_uri):\n    assert zodb_uri.startswith('file:///')\n"
    (tmp_path / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)

    alone = run()
    assert alone.returncode == 1 and "fixture 'zodb_uri' not found" in alone.stdout
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["pipeline.testing.plugin"]\n')
    named = run()
    assert named.returncode == 0, named.stdout + named.stderr
