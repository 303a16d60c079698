"""The pages of HTTP errors in debug mode: with the key they tell what ``pipeline explain`` tells (S17)."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from sqlalchemy import text
from webob.exc import HTTPNotFound
from webtest import AppError
from zope.interface import Interface, implementer

from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.inspector import inspector
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.vhost import vhost
from pipeline.explaining import debug_page
from pipeline.http import debug_key
from pipeline.interfaces import IDefaultSteps, INamespace
from pipeline.paste import load
from pipeline.views import adapter
from tools.conftest import CODE, INI, Site
from tools.test_mistakes import hooked

KEY = "k" * 40


class Box(dict[str, Any]):
    """A container."""


class Shy:
    """An object whose own code would be seen on the page."""

    def __repr__(self) -> str:
        return "shown by itself"

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """As that of a proxy, which asks the object behind it."""
        raise RuntimeError("there is no object behind this proxy")


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(debug_key, "_key", KEY)
    yield f"{debug_key.COOKIE}={KEY}"


@pytest.fixture
def box(publish: Callable[..., Pipeline], key: str) -> Pipeline:
    @view(context=Box)
    def index(context: Any, request: Any) -> str:
        return "index"

    @view(context=Box, name="edit", methods=("POST",))
    def edit(context: Any, request: Any) -> str:
        return "edited"

    @view(context=Box, name="keep", permission="keep")
    def keep(context: Any, request: Any) -> str:
        return "kept"

    return publish(index, edit, keep, root=Box(item=object()), outer=(errors(debug=True),))


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", "/nothing", 404, ["Box.__getitem__", "no view has that name", "Its views are: (the default view)"]),
        ("GET", "/kepe", 404, ["did you mean 'keep'?"]),
        ("GET", "/item", 404, ["there is no default view for an object"]),
        ("GET", "/_secret", 404, ["must not start with '_' (S3)"]),
        ("GET", "/edit", 405, ["it accepts POST", "methods=(..., 'GET')", "test_debug_page.py, line "]),
        ("GET", "/keep", 403, ["needs the permission 'keep'", "test_debug_page.py, line "]),
        ("GET", "/a/../b", 400, ["the path", "'..' in place of a name"]),
    ],
)
def test_with_the_key_the_page_says_why(
    call: Callable[..., Any], box: Pipeline, key: str, method: str, path: str, status: int, said: list[str]
) -> None:
    answer = call(box, path, method, HTTP_COOKIE=key)
    assert answer.status == status
    for words in ["why ", "where ", *said]:
        assert words in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "section"),
    [
        ("GET", "/nothing", "publisher"),
        ("GET", "/page", ""),
        ("GET", "/_secret", "traverse"),
        ("GET", "/docs/++nothing++x", "traverse"),
        ("GET", "/edit", ""),
        ("GET", "/n", ""),
    ],
)
@pytest.mark.parametrize("element", ["", "thing "])
def test_it_names_the_place_that_explain_names(
    site: Site, call: Callable[..., Any], key: str, method: str, path: str, section: str, element: str
) -> None:
    """An element of the site around the part that answered is not the place."""
    thing = "\n[filter:thing]\npaste.filter_factory = MODULE:thing\n"
    view = "\n@view(context=Folder, name='n')\ndef n(context, request):\n    return 1 / 0\n"
    ini = INI.replace("errors traverse", f"errors {element}traverse").replace("#errors", "#errors\ndebug = true")
    site.write(ini + thing, hooked("pass") + view)
    explained = json.loads(site.run("explain", "--json", method, path)[1])
    where = explained["causes"][0]["where"]
    assert f"[app:{section}]" in where or f"[filter:{section}]" in where or not section
    sys.path.insert(0, str(site.directory))
    answer = call(load(f"config:{site.ini}"), path, method, HTTP_COOKIE=key, HTTP_ACCEPT="text/html")
    assert f"<code>{where}</code>" in answer.text


FORM = INI.replace("errors traverse", "errors forms traverse").replace("#errors", "#errors\ndebug = true")
FAILS = (
    "\n@view(context=Folder, name='n', methods=('GET', 'POST'))\n"
    "def n(context, request, a: str = '', password: str = ''):\n    return {}['x']\n"
)


@pytest.mark.parametrize(
    ("method", "path", "body"), [("GET", "/n?a=%C3%A9+1", ""), ("POST", "/docs/n", "a=it%27s&password=open-sesame")]
)
def test_what_it_says_to_copy_repeats_the_request(
    site: Site, call: Callable[..., Any], key: str, method: str, path: str, body: str
) -> None:
    site.write(f"{FORM}\n[filter:forms]\nuse = egg:wsgi-pipeline#forms\n", CODE + FAILS)
    sys.path.insert(0, str(site.directory))
    headers = {"HTTP_COOKIE": key, "HTTP_ACCEPT": "text/html", "HTTP_HOST": "127.0.0.1:8080"}
    if body:
        headers |= {"CONTENT_TYPE": "application/x-www-form-urlencoded"}
    page = call(load(f"config:{site.ini}"), path, method, body=body.encode(), **headers).text
    command, test = map(unescape, re.findall(r"<pre>([^<]*)</pre>", page)[-2:])
    assert "open-sesame" not in command + test
    program, explain, ini, *arguments = shlex.split(command)
    assert (program, explain, ini) == ("pipeline", "explain", str(site.ini))
    status, said = site.run("explain", *arguments)
    assert status == 1 and "KeyError" in said
    names: dict[str, Any] = {}
    exec(test, names)
    [function] = [value for name, value in names.items() if name.startswith("test_")]
    with pytest.raises(AppError, match="500"):
        function()
    site.code.write_text((CODE + FAILS).replace("{}['x']", "a"))
    del sys.modules[site.module]
    function()


@pytest.mark.parametrize("path", ["/nothing", "/edit", "/keep", "/a/../b"])
def test_without_the_key_nothing_changes__S17(call: Callable[..., Any], box: Pipeline, path: str) -> None:
    answer = call(box, path, HTTP_COOKIE=f"{debug_key.COOKIE}={'x' * 40}")
    assert "why" not in answer.text
    assert len(answer.text.splitlines()) == 1


@pytest.mark.parametrize("given", [KEY, "x" * 40])
def test_an_error_of_an_outer_element_is_told_to_who_has_the_key__S17(
    call: Callable[..., Any], publish: Callable[..., Pipeline], key: str, given: str
) -> None:
    app = publish(root=Box(), outer=(vhost(allowed_hosts=("www.example.com",)), errors(debug=True)))
    answer = call(app, "/", HTTP_HOST="localhost", HTTP_COOKIE=f"{debug_key.COOKIE}={given}")
    assert answer.status == 400
    assert ("vhost refused the request" in answer.text) == (given == KEY)


def test_what_it_says_is_escaped_in_a_page__S7(call: Callable[..., Any], box: Pipeline, key: str) -> None:
    page = call(box, "/%3Cscript%3E", HTTP_COOKIE=key, HTTP_ACCEPT="text/html")
    assert "<script>" not in page.text
    assert "&lt;script&gt;" in page.text


def test_an_error_view_that_declines_is_not_the_cause(
    call: Callable[..., Any], publish: Callable[..., Pipeline], key: str
) -> None:
    @view(context=HTTPNotFound)
    def declining(error: Any, request: Any) -> str:
        raise error

    app = publish(declining, root=Box(), outer=(errors(debug=True),))
    assert "no view has that name" in call(app, "/nothing", HTTP_COOKIE=key).text


def page_of(call: Callable[..., Any], app: Pipeline, key: str, path: str = "/fails", **environ: Any) -> str:
    return str(call(app, path, HTTP_COOKIE=f"{key}; other=cookie-secret", HTTP_ACCEPT="text/html", **environ).text)


@pytest.fixture
def failing(publish: Callable[..., Pipeline], key: str) -> Pipeline:
    @view(context=Box, name="fails")
    def fails(context: Any, request: Any) -> str:
        try:
            return str({}["<b>"])
        except KeyError as error:
            raise ValueError("for the test") from error

    return publish(fails, root=Box(), outer=(errors(debug=True),))


def test_the_page_of_an_exception_has_its_frames_with_the_lines_around(
    call: Callable[..., Any], failing: Pipeline, key: str
) -> None:
    page = page_of(call, failing, key)
    assert "ValueError: for the test" in page and "Caused by KeyError: &#39;&lt;b&gt;&#39;" in page
    opened = page[page.index('<details class="frame" open>') :].partition("</details>")[0]
    assert '<li class="here">' in opened
    assert "<mark>raise ValueError(&#34;for the test&#34;) from error</mark>" in opened
    assert "except KeyError as error:" in opened
    assert "Traceback (most recent call last)" in page


def test_frames_of_the_site_have_their_variables_and_the_others_are_one_line__S25(
    call: Callable[..., Any], publish: Callable[..., Pipeline], key: str
) -> None:
    @view(context=Box, name="fails")
    def fails(context: Any, request: Any) -> str:
        numbers = {"é": 1, "password": "word-secret"}
        new_password = "name-secret"
        url = f"postgresql://site:{'url'}-secret@host/"
        shy = Shy()
        total = 1 + numbers["é"] + numbers["lost"] + 2
        return f"{total}{new_password}{url}{shy}"

    page = page_of(call, publish(fails, root=Box(), outer=(errors(debug=True),)), key)
    opened = page[page.index('<details class="frame" open>') :].partition("</details>")[0]
    told = re.findall("<dt>(.*?)</dt><dd><code>(.*?)</code>", opened)
    assert told == [
        ("context", "a Box"),
        ("request", "a Request"),
        ("numbers", "é=1, password=(masked)"),
        ("new_password", "(masked)"),
        ("url", "postgresql://site:(masked)@host/"),
        ("shy", "a Shy"),
    ]
    code = unescape(re.search('<li class="here"><span>.*?</span><code>(.*)</code>', opened)[1])  # type: ignore[index]
    assert code == '        total = 1 + numbers["é"] + <mark>numbers["lost"]</mark> + 2'
    [outside] = re.findall(r"<summary>(\d+) frames outside of the site</summary>", page)
    frames = page.partition("To copy")[0].count("</code>, line ")
    assert frames == int(outside) + 1 > 2
    assert "shown by itself" not in page


def test_an_exception_that_no_frame_of_the_site_has_met_has_its_frames_unfolded(
    call: Callable[..., Any], publish: Callable[..., Pipeline], key: str
) -> None:
    @view(context=Box, name="fails")
    def fails(context: Any, request: Any) -> Any:
        return object()  # which is no result

    page = page_of(call, publish(fails, root=Box(), outer=(errors(debug=True),)), key)
    assert "frames outside of the site" not in page and page.partition("To copy")[0].count("</code>, line ") > 2


def test_the_page_of_an_exception_has_the_way_and_the_request_without_secrets__S17(
    call: Callable[..., Any], failing: Pipeline, key: str
) -> None:
    page = page_of(
        call, failing, key, HTTP_AUTHORIZATION="Basic header-secret", QUERY_STRING="token=query-secret&a=1"
    )
    assert "chosen: it is for Box" in page and "Box.__getitem__" in page
    assert "Basic (masked)" in page and "a=1" in page and "-secret" not in page and KEY not in page
    assert "inspector" not in page and "Databases" not in page, "it does not advertise"


def test_the_way_leads_over_the_virtual_root(
    call: Callable[..., Any], publish: Callable[..., Pipeline], key: str
) -> None:
    @view(context=Box, name="fails")
    def fails(context: Any, request: Any) -> str:
        raise ValueError(request.view_name)

    outer = (vhost(hosts={"shop.example": "/shop"}), errors(debug=True))
    app = publish(fails, root=Box(shop=Box(cart=Box())), outer=outer)
    text = unescape(page_of(call, app, key, "/cart/fails", HTTP_HOST="shop.example"))
    way = text.partition("Traversal")[2]
    assert re.findall(r"(?m)^ *(?:<pre>)? *(\S+)(?: \((.*)\))?: ", way)[:3] == [
        ("/", ""),
        ("shop", "virtual root"),
        ("cart", ""),
    ], way


class Shelf(Box):
    """A container with default steps."""


@adapter(Interface, INamespace, name="shelf")
@implementer(INamespace)
class Shelves:
    """A namespace that is the same in each place."""

    anywhere = True

    def __init__(self, context: Any) -> None: ...

    def step(self, request: Any, name: str) -> Shelf:
        return Shelf(first=Box())


@adapter(Shelf, IDefaultSteps)
@implementer(IDefaultSteps)
class First:
    def __init__(self, context: Shelf) -> None: ...

    def default_steps(self, request: Any) -> tuple[str, ...]:
        return ("first",)


def test_the_way_leads_over_the_default_steps_of_a_namespace(
    call: Callable[..., Any], publish: Callable[..., Pipeline], key: str
) -> None:
    @view(context=Box)
    def fails(context: Any, request: Any) -> str:
        raise ValueError(request.default_steps)

    app = publish(fails, Shelves, First, root=Box(), outer=(errors(debug=True),))
    text = unescape(page_of(call, app, key, "/++shelf++x/"))
    assert re.search(r"^  first \(default step\): ", text, re.MULTILINE), text


def test_the_page_loads_nothing_and_runs_nothing__S17(
    call: Callable[..., Any], failing: Pipeline, key: str
) -> None:
    answer = call(failing, "/fails", HTTP_COOKIE=key, HTTP_ACCEPT="text/html")
    style = answer.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in answer.headers["Content-Security-Policy"]
    for word in ("<script", "<input", "<form", "src=", "style="):
        assert word not in answer.text


def test_with_the_inspector_the_page_has_times_and_databases(
    call: Callable[..., Any], publish: Callable[..., Pipeline], key: str
) -> None:
    @view(context=Box, name="fails")
    def fails(context: Any, request: Any) -> str:
        request.sql.execute(text("SELECT 42 AS answer"))
        raise ValueError("for the test")

    outer = (inspector(), sql(url="sqlite://"), errors(debug=True), transaction())
    page = page_of(call, publish(fails, root=Box(), outer=outer), key)
    assert "SELECT 42 AS answer" in page
    assert '<span class="name">transaction</span>' in page and " ms</td>" in page
    assert "recording.py" not in page.partition("To copy")[0]


def test_without_templates_the_page_is_a_text(
    call: Callable[..., Any], failing: Pipeline, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug_page, "HAS_TEMPLATES", False)
    page = page_of(call, failing, key)
    assert "<h2>" not in page and "why     the view" in page and "Traceback (most recent call last)" in page


def test_the_cause_is_told_also_if_the_way_cannot_be_walked_again(
    call: Callable[..., Any], failing: Pipeline, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The objects of the way cannot be read any more, such as after a change that could not be stored."""

    class Gone:
        def __getattr__(self, name: str) -> Any:
            raise KeyError("the database is gone")

    def walk_again(request: Any, *more: Any) -> Any:
        request.context = Gone()
        return request.context.name

    monkeypatch.setattr("pipeline.explaining.debug_page.walk_again", walk_again)
    page = page_of(call, failing, key)
    assert '<div class="cause">' in page and "could not find out more" not in page


def test_what_fails_on_the_page_is_told_in_its_place(
    call: Callable[..., Any], failing: Pipeline, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug_page, "passed", None)
    page = page_of(call, failing, key)
    assert "This page could not find out more" in page and "ValueError: for the test" in page
