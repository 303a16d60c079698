"""``switch``: one ini, several pipelines, picked by the request."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from paste.deploy import loadapp
from persistent.mapping import PersistentMapping

from pipeline import element, view
from pipeline.interfaces import ConfigurationError, OptionError, OrderError
from pipeline.paste import load, plan
from pipeline.switch import methods_of, switch

EGG = "egg:wsgi-pipeline#"


def saying_factory(global_conf: Any, name: str) -> Any:
    def saying(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        if environ["REQUEST_METHOD"] == "HEAD":
            return []
        return [f"{name} {environ['SCRIPT_NAME']}{environ['PATH_INFO']}".encode()]

    return saying


@pytest.fixture
def ini(tmp_path: Path) -> Callable[..., str]:
    """``ini("a  method=GET")`` is the URI of an ini whose switch has these branches; apps a, b, c and d."""

    def ini(branches: str, more: str = "", apps: str = "abcd") -> str:
        path = tmp_path / "site.ini"
        lines = "".join(f"  {line}\n" for line in branches.splitlines())
        path.write_text(
            f"[composite:main]\nuse = {EGG}switch\n{more}branches =\n{lines}\n"
            + "".join(
                f"[app:{name}]\npaste.app_factory = {__name__}:saying_factory\nname = {name}\n\n"
                for name in apps
            )
        )
        return f"config:{path}"

    return ini


def which(app: Any, call: Any, path: str = "/", method: str = "GET", **environ: str) -> str | None:
    answer = call(app, path, method, **environ)
    if answer.status == 404:
        return None
    return answer.text.split()[0] if method != "HEAD" else "a"


FORM = {"CONTENT_TYPE": "application/x-www-form-urlencoded"}
XML = {"CONTENT_TYPE": "text/xml; charset=utf-8"}
JSON = {"HTTP_ACCEPT": "application/json"}
ANY = {"HTTP_ACCEPT": "text/html, */*"}
HTTPS = {"wsgi.url_scheme": "https"}

CONDITIONS: list[tuple[str, dict[str, Any], bool]] = [
    ("method=GET", {}, True),
    ("method=GET", {"method": "HEAD"}, False),
    ("method=GET,HEAD", {"method": "HEAD"}, True),
    ("method=put,Delete", {"method": "DELETE"}, True),
    ("method=PUT", {"method": "PUTT"}, False),
    ("type=text/xml", XML, True),
    ("type=text/*", XML, True),
    ("type=*/xml", XML, True),
    ("type=*/json,*/xml", XML, True),
    ("type=TEXT/XML", XML, True),
    ("type=text/x", XML, False),
    ("type=ext/xml", XML, False),
    ("type=text.xml*", XML, False),
    ("type=*", {}, True),
    ("type=text/xml", {}, False),
    ("type=text/xml", {"CONTENT_TYPE": ""}, False),
    ("type=multipart/form-data,application/x-www-form-urlencoded", FORM, True),
    ("scheme=https", HTTPS, True),
    ("scheme=https", {}, False),
    ("scheme=http", {}, True),
    ("scheme=http", HTTPS, False),
    ("method=GET,PUT method=GET,POST", {}, True),
    ("method=GET,PUT method=GET,POST", {"method": "PUT"}, False),
    ("header.Accept=application/json", JSON, True),
    ("header.Accept=*json*", JSON, True),
    ("header.accept=*JSON", JSON, True),
    ("header.Accept=text", JSON, False),
    ("header.Accept=*json*", {}, False),
    ("header.Accept=*json*", ANY, False),
    ("header.Accept=*", {}, False),
    ("header.Accept=*", JSON, True),
    ("header.X-Requested-With=XMLHttpRequest", {"HTTP_X_REQUESTED_WITH": "XMLHttpRequest"}, True),
    ("header.Accept=*text*html*", ANY, True),
    ("header.Accept=*html*text*", ANY, False),
    ("header.Accept=text/html,**", ANY, True),
    ("header.Accept=*a*a", {"HTTP_ACCEPT": "a"}, False),
    ("header.Accept=*a*a", {"HTTP_ACCEPT": "aa"}, True),
    ("header.Accept=a*b*c", {"HTTP_ACCEPT": "abbc"}, True),
    ("header.Accept=a*b*c", {"HTTP_ACCEPT": "acb"}, False),
    ("header.Content-Type=text/xml*", XML, True),
    ("header.Content-Length=0", {"method": "POST"}, True),
    ("path=/admin", {"path": "/admin"}, True),
    ("path=/admin", {"path": "/admin/"}, True),
    ("path=/admin", {"path": "/admin/x/y"}, True),
    ("path=/admin/", {"path": "/admin"}, True),
    ("path=/admin", {"path": "/administrator"}, False),
    ("path=/admin", {"path": "/x/admin"}, False),
    ("path=/admin", {"path": "/"}, False),
    ("path=/Admin", {"path": "/admin"}, False),
    ("path=/", {"path": "/anything"}, True),
    ("path=/", {"path": ""}, True),
    ("path=/a/b", {"path": "/a/b/c"}, True),
    ("path=/a/b", {"path": "/a"}, False),
    # what traversal skips is skipped here as well: else a slash more would lead around a branch
    ("path=/admin", {"path": "//admin"}, True),
    ("path=/admin", {"path": "/./admin/x"}, True),
    ("path=/a/b", {"path": "//a/.//b"}, True),
    ("path=/admin", {"path": "/%61dmin"}, True),
    ("path=/é", {"path": "/%C3%A9/x"}, True),
    ("method=GET path=/a scheme=https", {"path": "/a", **HTTPS}, True),
    ("method=GET path=/a scheme=https", {"path": "/a"}, False),
    ("method=GET path=/a scheme=https", {"path": "/b", **HTTPS}, False),
    ("method=GET method=POST", {}, False),
]


@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
@pytest.mark.parametrize(("condition", "request_", "fits"), CONDITIONS)
def test_each_condition(ini: Any, call: Any, condition: str, request_: dict[str, Any], fits: bool) -> None:
    assert which(load(ini(f"a  {condition}")), call, **request_) == ("a" if fits else None)


def test_the_first_branch_that_fits_wins(ini: Any, call: Any) -> None:
    app = load(ini("a path=/x method=POST\nb path=/x\nc path=/\nd path=/x", "default = d\n"))
    assert which(app, call, "/x", "POST") == "a"
    assert which(app, call, "/x") == "b"
    assert which(app, call, "/y") == "c"


def test_the_path_is_looked_at_and_not_taken_off(ini: Any, call: Any) -> None:
    assert call(load(ini("a path=/x")), "/x/y").text == "a /x/y"
    assert call(load(ini("a path=/x")), "//x/y").text == "a //x/y"


def test_no_branch_is_a_404_and_default_is_the_rest(ini: Any, call: Any) -> None:
    answer = call(load(ini("a path=/x")), "/y")
    assert answer.status == 404 and answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert which(load(ini("a path=/x", "default = b\n")), call, "/y") == "b"
    assert which(load(ini("", "default = b\n")), call, "/y") == "b"


def test_a_404_inside_of_a_pipeline_is_the_business_of_its_errors(ini: Any, call: Any, module: Any) -> None:
    from pipeline import Pipeline
    from pipeline.elements.errors import errors

    assert call(Pipeline(errors(), loadapp(ini("a path=/x"))), "/y").status == 404


HTML = {"HTTP_ACCEPT": "text/html"}
VARYING: list[tuple[str, str, dict[str, str], str | None]] = [
    # branches, the path, the headers, and what the answer depends on besides
    ("a header.Accept=*json*", "/", JSON, "Accept"),
    ("a header.Accept=*json*", "/", HTML, "Accept"),
    ("a header.Accept=*json*", "/", {}, "Accept"),
    ("a path=/x\nb header.Accept=*json*", "/x", JSON, None),
    ("a header.Accept=*json* path=/x", "/y", JSON, None),
    ("a header.Accept=*json* path=/x", "/x", HTML, "Accept"),
    ("a header.X-A=1 header.X-B=1\nb header.X-A=*", "/", {"HTTP_X_A": "1"}, "X-A, X-B"),
    ("a method=POST header.X-A=1", "/", {"HTTP_X_A": "1"}, None),
]


@pytest.mark.parametrize(("branches", "path", "headers", "said"), VARYING)
def test_an_answer_says_on_which_headers_its_branch_depends(
    ini: Any, call: Any, branches: str, path: str, headers: dict[str, str], said: str | None
) -> None:
    """A cache would give the page of one branch to a client of another (RFC 9110 section 12.5.5)."""
    app = load(ini(branches, "default = d\n"))
    for _ in range(2):
        assert call(app, path, **headers).headers.get("Vary") == said


def test_what_an_app_says_of_other_headers_stays(ini: Any, call: Any) -> None:
    from pipeline.switch import Branch, Switch, _test

    told = [("Content-Type", "text/plain"), ("Vary", "Cookie")]

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", told)
        return [b"x"]

    switch = Switch((Branch(app, (_test("header.Accept=*json*", "a", "site.ini"),)),), app)
    assert call(switch, "/", **JSON).headers.getall("Vary") == ["Cookie, Accept"]
    assert told[1:] == [("Vary", "Cookie")], "the list belongs to the app"


BAD: list[tuple[str, str]] = [
    ("a", "branch 'a' has no condition; use 'default = a' instead"),
    ("a method", "branch 'a' has the condition 'method'"),
    ("a method=", "branch 'a' has the condition 'method='"),
    ("a methods=GET", "branch 'a' has the condition 'methods=GET'"),
    ("a path=admin", "branch 'a' has the condition 'path=admin'"),
    ("a header=x", "branch 'a' has the condition 'header=x'"),
    ("a header.=x", "branch 'a' has the condition 'header.=x'"),
    ("a header.Accept=", "branch 'a' has the condition 'header.Accept='"),
    ("a method.x=GET", "branch 'a' has the condition 'method.x=GET'"),
    ("a scheme=ftp", "branch 'a' has the condition 'scheme=ftp'"),
    ("a path=/x GET", "branch 'a' has the condition 'GET'"),
    ("a type=", "branch 'a' has the condition 'type='"),
    ("a view=no", "branch 'a' has the condition 'view=no'"),
    *(
        (f"a {condition}", f"branch 'a' has the condition {condition!r}")
        for condition in (  # of which no request has one, or another than its author meant
            *("method=,", "method=PUT,", "method=GET,,PUT", 'method="PUT"', "method=*", "method=é"),
            *("type=text", "type=,", "type=text/xml,", "type=text/xml;charset=utf-8", "type=json"),
            *("scheme=http,https", "scheme=HTTPS"),
            *("path=/..", "path=/a/../b", "path=/a?x=1", "path=/a#b", "path=/a*", "path=/a,/b", "path=/a%%20b"),
            *("header.A:B=x", "header.é=x", "header.Accept.x=y"),
        )
    ),
    ("a view=yes", "branch 'a' has the condition view=yes, but it is not a pipeline with a publisher"),
]


@pytest.mark.parametrize(("line", "message"), BAD)
@pytest.mark.parametrize("loader", [load, loadapp])
def test_a_bad_condition_names_file_section_and_line(ini: Any, loader: Any, line: str, message: str) -> None:
    uri = ini(f"b path=/fine\n{line}", "default = c\n")
    with pytest.raises(OptionError) as refused:
        loader(uri)
    assert str(refused.value).startswith(f"{uri[7:]}, section [composite:main], line 4: ")
    assert message.replace("%%", "%") in str(refused.value)


@pytest.mark.parametrize(
    ("condition", "path", "environ"),
    [
        ("path=/@@health", "/@@health/writes", {}),
        ("path=/a,b/..c", "/a,b/..c/d", {}),
        ("path=/", "/x", {}),
        ("method=M-SEARCH,patch", "/", {"REQUEST_METHOD": "PATCH"}),
        ("type=*", "/", {}),
        ("type=*+json,application/vnd.x.*", "/", {"CONTENT_TYPE": "application/vnd.x.y; a=b"}),
        ("header.X_Y=*", "/", {"HTTP_X_Y": "1"}),
        ('header.If-Match="x"', "/", {"HTTP_IF_MATCH": '"x"'}),
    ],
)
def test_what_a_request_can_have_is_accepted(
    ini: Any, call: Any, condition: str, path: str, environ: dict[str, str]
) -> None:
    method = environ.get("REQUEST_METHOD", "GET")
    app = loadapp(ini(f"a {condition}", "default = c\n"))
    assert which(app, call, path, method, **environ) == "a"


def test_a_branch_that_is_not_there_is_named(ini: Any) -> None:
    for text in (ini("nowhere path=/x"), ini("", "default = nowhere\n")):
        with pytest.raises(LookupError, match="nowhere"):
            load(text)


def test_an_unknown_option_is_refused(ini: Any) -> None:
    with pytest.raises(OptionError, match=r"\[composite:main\], line 3: .* did you mean 'branches'"):
        load(ini("", "branch = a path=/x\n"))


@pytest.mark.timeout(20)
def test_a_pattern_is_matched_in_linear_time(ini: Any, call: Any) -> None:
    """S12: a header of a client that is made for it does not keep the switch busy."""
    app = load(ini("a header.Accept=*a*a*a*a*a*b"))

    def seconds(length: int) -> float:
        started = time.process_time()
        for _ in range(20):
            assert which(app, call, HTTP_ACCEPT="a" * length) is None
        return time.process_time() - started

    seconds(100)
    assert seconds(64_000) < 200 * seconds(1_000)


# Pipelines as branches.


@view(context=PersistentMapping)
def index(context: Any, request: Any) -> str:
    context["hits"] = context.get("hits", 0) + 1
    return f"{request.branch} {context['hits']}"


def find_root(mapping: Any) -> Any:
    if "site" not in mapping:
        mapping["site"] = PersistentMapping()
    return mapping["site"]


@element
def mark(next: Any, *, name: str) -> Any:
    """Say which branch it is."""

    def mark(request: Any, response: Any) -> None:
        request.branch = name
        next(request, response)

    return mark


_numbers = count()

TWO = """
[composite:main]
use = egg:wsgi-pipeline#switch
branches =
  machines  header.Accept=*json*
  broken  path=/broken
default = people

[pipeline:people]
pipeline = mark_people database egg:wsgi-pipeline#errors egg:wsgi-pipeline#transaction traverse site

[pipeline:machines]
pipeline = mark_machines database egg:wsgi-pipeline#transaction traverse site

[pipeline:broken]
pipeline = {broken}

[filter:mark_people]
paste.filter_factory = {here}:mark
name = people

[filter:mark_machines]
use = mark_people
name = machines

[filter:database]
use = egg:wsgi-pipeline#zodb
uri = memory://switch_{number}
root = {here}:find_root

[filter:traverse]
use = egg:wsgi-pipeline#traverse

[app:site]
use = egg:wsgi-pipeline#publisher
scan = {here}
"""


@pytest.fixture
def two(tmp_path: Path) -> Callable[..., str]:
    def two(broken: str = "database traverse site") -> str:
        path = tmp_path / "two.ini"
        path.write_text(TWO.format(here=__name__, broken=broken, number=next(_numbers)))
        return f"config:{path}"

    return two


@pytest.mark.parametrize("loader", [load, loadapp])
def test_two_branches_share_one_database(two: Any, call: Any, loader: Any) -> None:
    app = loader(two())
    assert call(app).text == "people 1"
    assert call(app, HTTP_ACCEPT="application/json").text == "machines 2"
    assert call(app).text == "people 3"


def test_each_branch_is_checked(two: Any, call: Any) -> None:
    with pytest.raises(OrderError, match="traverse requires 'root'"):
        load(two("traverse site"))
    with pytest.raises(OrderError, match="errors must be outside"):
        load(two("database egg:wsgi-pipeline#transaction egg:wsgi-pipeline#errors traverse site"))
    app = loadapp(two("traverse site"))
    assert call(app, "/broken").status == 500
    assert call(app).text == "people 1"


def test_the_plan_has_a_chain_for_each_branch(two: Any) -> None:
    chains = list(plan(two()))
    assert [chain.condition for chain in chains] == [
        "machines  header.Accept=*json*",
        "broken  path=/broken",
        "people by default",
    ]
    assert [str(step) for step in chains[0].steps] == ["mark", "zodb", "transaction", "traverse", "publisher"]


def test_a_switch_in_a_switch(ini: Any, call: Any) -> None:
    uri = ini(
        "inner path=/x\na path=/",
        "default = a\n",
    )
    path = Path(uri[7:])
    path.write_text(
        path.read_text() + f"[composite:inner]\nuse = {EGG}switch\nbranches = b method=POST\ndefault = c\n"
    )
    app = load(uri)
    assert which(app, call, "/x", "POST") == "b" and which(app, call, "/x") == "c"
    assert [chain.condition for chain in plan(uri)] == [
        "inner path=/x, b method=POST",
        "inner path=/x, c by default",
        "a path=/",
        "a by default",
    ]


def test_a_switch_behind_elements(two: Any, call: Any, tmp_path: Path) -> None:
    """The branches take up the request of the elements in front of the switch, and its database."""
    path = tmp_path / "behind.ini"
    path.write_text(
        TWO.format(here=__name__, broken="traverse site", number=next(_numbers))
        .replace("[composite:main]", "[composite:switch]")
        .replace("mark_machines database", "mark_machines")
        .replace("mark_people database egg:wsgi-pipeline#errors", "mark_people")
        + "[pipeline:main]\npipeline = egg:wsgi-pipeline#log database egg:wsgi-pipeline#errors switch\n"
    )
    app = load(f"config:{path}")
    assert call(app).text == "people 1"
    assert call(app, HTTP_ACCEPT="application/json").text == "machines 2"
    assert call(app, "/nowhere").status == 404


# A branch for what it has views for.

ASKED: list[str] = []
"""The methods of the requests that have reached an element of the new site."""


class Book(dict):  # type: ignore[type-arg]
    """An object of a site whose views move one at a time."""


def library() -> Book:
    return Book(a=Book())


@view(context=Book, name="moved")
def moved(book: Any, request: Any) -> str:
    return f"new {request.headers.get('Authorization')}"


@view(context=Book, name="closed", permission="edit")
def closed(book: Any, request: Any) -> str:
    return "new"


@view(context=Book, name="form", methods=("POST",))
def form(book: Any, request: Any) -> str:
    return f"new {request.POST['text']}"


@view(context=Book, name="own", methods=("GET", "OPTIONS"))
def own(book: Any, request: Any, response: Any) -> str:
    response.headers["Allow"] = "GET, OPTIONS"
    return "new"


@view(context=Book, name="shut", methods=("GET", "OPTIONS"))
def shut(book: Any, request: Any, response: Any) -> str:
    response.status, response.headers["Allow"] = 403, "GET"
    return "shut"


@element
def asked(next: Any) -> Any:
    def asked(request: Any, response: Any) -> None:
        ASKED.append(f"{request.method} {request.headers.get('Authorization')}")
        next(request, response)

    return asked


VIEWS = """
[composite:{main}]
use = egg:wsgi-pipeline#switch
branches = new view=yes
default = old

[app:old]
paste.app_factory = {here}:saying_factory
name = old

[pipeline:new]
pipeline = {elements} asked traverse views

[filter:asked]
paste.filter_factory = {here}:asked

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = {here}:library

[app:views]
use = egg:wsgi-pipeline#publisher
scan = {here}
"""
OUTER = "[pipeline:main]\npipeline = egg:wsgi-pipeline#log egg:wsgi-pipeline#retry egg:wsgi-pipeline#errors both\n"
MOVING = [
    ("GET", "/a/moved", "new None"),
    ("HEAD", "/a/moved", ""),
    ("GET", "/a/@@moved/below", "new None"),
    ("GET", "/a/moved?x=1", "new None"),
    ("POST", "/a/moved", "old /a/moved"),  # the new view takes GET alone
    ("OPTIONS", "/a/moved", ""),
    ("GET", "/a/form", "old /a/form"),
    ("POST", "/a/form", "new sent"),
    ("GET", "/a/own", "new"),
    ("GET", "/a/shut", "old /a/shut"),  # a question that is refused
    ("GET", "/a/closed", "403"),  # a new view that the visitor may not call
    ("GET", "/a/", "old /a/"),
    ("GET", "/b/moved", "old /b/moved"),  # an object that is not there
    ("GET", "/a/../moved", "old /a/../moved"),  # a path that traverse refuses
    ("DELETE", "/a/moved", "old /a/moved"),
]


@pytest.mark.parametrize(
    ("line", "methods"),
    [("a path=/x", None), ("a method=get,PUT", {"GET", "PUT"}), ("a method=GET,PUT method=GET,POST", {"GET"})],
)
def test_the_methods_of_a_line(line: str, methods: set[str] | None) -> None:
    assert methods_of(line) == methods


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_branch_takes_what_it_has_a_view_for(tmp_path: Path, call: Any, is_inside: bool) -> None:
    """Also if the elements outside of the switch answer its 404."""
    path = tmp_path / "site.ini"
    elements = "" if is_inside else "egg:wsgi-pipeline#errors"
    main = "both" if is_inside else "main"
    path.write_text(VIEWS.format(here=__name__, main=main, elements=elements) + OUTER * is_inside)
    app = load(f"config:{path}")
    for method, asked_path, wanted in MOVING:
        body = {"body": b"text=sent", **FORM} if method == "POST" else {}
        answer = call(app, asked_path, method, **body)
        told = answer.text if answer.status == 200 else str(answer.status)
        assert (method, asked_path, told) == (method, asked_path, wanted)


def test_a_question_has_neither_a_body_nor_a_password(tmp_path: Path, call: Any) -> None:
    path = tmp_path / "site.ini"
    path.write_text(VIEWS.format(here=__name__, main="main", elements="egg:wsgi-pipeline#errors"))
    app = load(f"config:{path}")
    del ASKED[:]
    assert call(app, "/a/moved", HTTP_AUTHORIZATION="Basic x").text == "new Basic x"
    assert call(app, "/a/none", "POST", body=b"text=sent", **FORM).text == "old /a/none"
    assert ASKED == ["OPTIONS None", "GET Basic x", "OPTIONS None"]


def test_a_browser_may_ask_a_branch_before_it_sends_a_script(tmp_path: Path, call: Any) -> None:
    """The question before a request (Fetch, CORS-preflight) goes to the branch that has the view, and its cors."""
    path = tmp_path / "site.ini"
    filters = "[filter:scripts]\nuse = egg:wsgi-pipeline#cors\norigins = https://app.example.com\n"
    site = VIEWS.format(here=__name__, main="main", elements="scripts egg:wsgi-pipeline#errors")
    path.write_text(site + filters)
    app = load(f"config:{path}")
    before = {"HTTP_ORIGIN": "https://app.example.com", "HTTP_ACCESS_CONTROL_REQUEST_METHOD": "POST"}
    answer = call(app, "/a/form", "OPTIONS", **before)
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (204, "https://app.example.com")
    assert call(app, "/a/none", "OPTIONS", **before).text == "old /a/none"


def test_it_says_that_a_path_is_not_access_control(ini: Callable[..., str], call: Any) -> None:
    """It reads like that, but an object has other addresses: by a namespace, a virtual host, a form."""
    assert "not access control" in " ".join((switch.__doc__ or "").split())
    app = loadapp(ini("a  path=/admin", "default = b\n"))
    assert which(app, call, "/admin/x") == "a"
    assert which(app, call, "/++skin++x/admin/x") == "b"
    assert which(app, call, "/VirtualHostBase/http/host/admin/VirtualHostRoot/x") == "b"


def test_a_switch_without_branches_is_refused(tmp_path: Path) -> None:
    """It would answer each page by 404, without a word."""
    path = tmp_path / "empty.ini"
    path.write_text(f"[composite:main]\nuse = {EGG}switch\nbranches =\n")
    with pytest.raises(OptionError, match=rf"{path}, section \[composite:main\], line \d: a switch without "):
        load(f"config:{path}")


CIRCLES = {
    f"[composite:main]\nuse = {EGG}switch\nbranches = a method=GET\ndefault = main\n": "4, default = main",
    f"[composite:main]\nuse = {EGG}switch\nbranches =\n  main method=GET\n": "3, branches = main",
    f"[pipeline:main]\npipeline = {EGG}log main\n": "2, pipeline = main",
    "[app:main]\nuse = main\n": "2, use = main",
    "[app:main]\nuse = config:circle.ini\n": "2, use = config:circle.ini",
    f"[app:main]\nuse = {EGG}health\nfilter-with = f\n[filter:f]\nuse = f\n": "5, use = f",
    "[composite:main]\nuse = egg:Paste#urlmap\n/ = a\n/b = main\n": "4, /b = main",
    f"[filter-app:main]\nuse = {EGG}log\nnext = b\n[app:b]\nuse = main\n": "3, next = b; ",
}
"""Inis whose sections lead back to themselves, and where each says so."""


@pytest.mark.parametrize("text", CIRCLES)
def test_a_section_that_leads_back_to_itself_is_refused(text: str, tmp_path: Path) -> None:
    """Python said: maximum recursion depth exceeded."""
    path = tmp_path / "circle.ini"
    path.write_text(f"{text}[app:a]\nuse = {EGG}health\n")
    with pytest.raises(ConfigurationError) as refused:
        load(f"config:{path}")
    assert str(refused.value).endswith(": this leads back to the section itself")
    assert f"{path}, section [" in str(refused.value) and f", line {CIRCLES[text]}" in str(refused.value)


def test_a_recursion_of_the_site_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "endless_site.py").write_text("def app(global_conf):\n    return app(global_conf)\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "endless.ini"
    path.write_text("[app:main]\npaste.app_factory = endless_site:app\n")
    with pytest.raises(RecursionError):
        load(f"config:{path}")
