"""Notices of debug mode about pages, forms, variables and the source of views, each beside right code."""

from __future__ import annotations

import ast
import gzip
import json
import sys
from collections.abc import Iterator
from datetime import date
from html import escape
from io import BytesIO
from pathlib import Path
from random import Random
from timeit import repeat
from types import ModuleType
from typing import Any, ClassVar

import jinja2
import pytest
from BTrees.OOBTree import OOBTree
from paste.urlmap import URLMap
from webob.exc import HTTPFound

import asking
from pipeline import Pipeline, Response, element, view
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.session import session
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.explaining.notices import tell_notices
from pipeline.explaining.notices_of_pages import is_as_before, of_text
from pipeline.explaining.notices_of_processes import state_of
from pipeline.explaining.remedies import RULES
from pipeline.explaining.slips import names_in, slips_in, slips_of, slips_of_rule
from pipeline.http.redirects import redirect
from pipeline.publisher import publisher
from pipeline.views import Views

COUNTS: dict[str, int] = {}
NAMES: list[str] = []
TOTAL = 0
CACHE: dict[str, str] = {}
FORM = '<form method="{}" action="save" enctype="{}">{}</form>'
FORM_TYPE = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"


def returns_nothing(context: Any, request: Any, response: Any) -> None:
    str(context)


def returns_an_empty_text(context: Any, request: Any, response: Any) -> str:
    return ""


def sets_204(context: Any, request: Any, response: Any) -> None:
    response.status = 204


def sets_the_text(context: Any, request: Any, response: Any) -> None:
    response.text = "a page"


def forgets_to_return_a_redirect(context: Any, request: Any, response: Any) -> str:
    redirect("/elsewhere")
    return "a page"


def forgets_to_raise(context: Any, request: Any, response: Any) -> str:
    if not context:
        HTTPFound(location="/elsewhere")
    return "a page"


def returns_a_redirect(context: Any, request: Any, response: Any) -> Any:
    return redirect("/elsewhere")


def raises_a_redirect(context: Any, request: Any, response: Any) -> Any:
    raise redirect("/elsewhere")


def returns_an_address(context: Any, request: Any, response: Any) -> str:
    return "/elsewhere?a=b"


def returns_a_whole_address(context: Any, request: Any, response: Any) -> str:
    return "http://localhost/elsewhere"


def shows_an_address(context: Any, request: Any, response: Any) -> str:
    return "<p>/elsewhere"


def sets_a_location_alone(context: Any, request: Any, response: Any) -> str:
    response.location = "/elsewhere"
    return "a page"


def sets_a_status_alone(context: Any, request: Any, response: Any) -> str:
    response.status = 303
    return "a page"


def returns_json(context: Any, request: Any, response: Any) -> str:
    return json.dumps({"a": 1})


def says_that_it_is_json(context: Any, request: Any, response: Any) -> str:
    response.content_type = "application/json"
    return json.dumps({"a": 1})


def begins_with_a_bracket(context: Any, request: Any, response: Any) -> str:
    return "[draft] a page"


def returns_a_pdf(context: Any, request: Any, response: Any) -> bytes:
    return b"%PDF-1.7 and so on"


def returns_a_picture(context: Any, request: Any, response: Any) -> bytes:
    return b"\x89PNG\r\n\x1a\n and so on"


def says_that_it_is_a_pdf(context: Any, request: Any, response: Any) -> bytes:
    response.content_type = "application/pdf"
    return b"%PDF-1.7 and so on"


def shows_what_was_asked(context: Any, request: Any, response: Any) -> str:
    return f"<p>{request.GET['q']}</p>"


def escapes_what_was_asked(context: Any, request: Any, response: Any) -> str:
    return f"<p>{escape(request.GET['q'])}</p>"


def shows_what_was_sent(context: Any, request: Any, response: Any) -> str:
    return f"<p>{request.form['q']}</p>"


def compressed_by_the_view(context: Any, request: Any, response: Any) -> bytes:
    response.headers["Content-Encoding"] = "gzip"
    return gzip.compress(b"<p>a page")


def returns_a(address: str) -> Any:
    def returns_a(context: Any, request: Any, response: Any) -> object:
        return redirect(address, 303)

    return returns_a


def makes(method: str, fields: str, enctype: str = "") -> Any:
    def form(context: Any, request: Any, response: Any) -> str:
        return f"<!doctype html><p>A form: {FORM.format(method, enctype, fields)}" + "<p>and more" * 200

    return form


def counts_in_a_dict(context: Any, request: Any, response: Any) -> str:
    COUNTS["a"] = COUNTS.get("a", 0) + 1
    return "a page"


def appends_to_a_list(context: Any, request: Any, response: Any) -> str:
    NAMES.append("a")
    return "a page"


def counts_in_a_global(context: Any, request: Any, response: Any) -> str:
    global TOTAL
    TOTAL += 1
    return "a page"


def fills_a_default(context: Any, request: Any, response: Any, seen: list[str] = []) -> str:  # noqa: B006  # the mistake
    seen.append("a")
    return "a page"


def fills_a_cache(context: Any, request: Any, response: Any) -> str:
    return CACHE.setdefault(str(len(CACHE)), "a page")


class Thing:
    count = 0

    def __init__(self, title: str) -> None:
        self.title = title

    total = 0

    def touch(self) -> None:
        self.title += "!"


def counts_in_a_class(context: Any, request: Any, response: Any) -> str:
    Thing.count += 1
    return "a page"


def compares_in_place_of_assigning(context: Any, request: Any, response: Any) -> str:
    thing = Thing("a")
    thing.title == "b"  # noqa: B015  # the mistake
    return "a page"


def assigns_what_it_compares(context: Any, request: Any, response: Any) -> str:
    thing = Thing("a")
    thing.title = str(thing.title == "b")
    return "a page"


def does_not_call_a_method(context: Any, request: Any, response: Any) -> str:
    thing = Thing("a")
    thing.touch  # noqa: B018  # the mistake
    return "a page"


def calls_a_method(context: Any, request: Any, response: Any) -> str:
    thing = Thing("a")
    thing.touch()
    return "a page"


def drops_a_text(context: Any, request: Any, response: Any) -> str:
    title = " a page "
    title.strip()
    return title


def keeps_a_text(context: Any, request: Any, response: Any) -> str:
    title = " a page "
    title = title.strip()
    return title


def takes_a_word(context: Any, request: Any, response: Any, q: str = "") -> str:
    return "a page"


def makes_a_thing_in_vain(context: Any, request: Any, response: Any) -> str:
    thing = Thing("a")  # noqa: F841  # the mistake
    return "a page"


def shows_a_thing(context: Any, request: Any, response: Any) -> str:
    return f"<p>{Thing('a')}"


def shows_its_title(context: Any, request: Any, response: Any) -> str:
    return f"<p>{Thing('a').title}, an object at 0x10"


def puts_a_value_into_a_statement(context: Any, request: Any, response: Any, q: str = "") -> str:
    return str(bool(f"select title from notes where title = '{q}'"))


def gives_a_value_to_a_statement(context: Any, request: Any, response: Any, q: str = "") -> str:
    return str(("select title from notes where title = :q", f"Select {q} from the list"[:0]))[:1]


def forgets_an_f(context: Any, request: Any, response: Any) -> str:
    return "<h1>{context.title}</h1>"


def has_braces(context: Any, request: Any, response: Any) -> str:
    return "<style>p {color: red}</style>{{a.b}}<p>{}"


def takes_text(context: Any, request: Any, response: Any, quote: str = "") -> str:
    return f"<p>{escape(quote)}"


def takes_q(context: Any, request: Any, response: Any, q: str = "", p: str = "") -> str:
    return f"<p>{escape(q)}"


def takes_a_box(context: Any, request: Any, response: Any, mail: bool = True) -> str:
    return f"<p>{mail}"


def takes_a_box_that_is_off(context: Any, request: Any, response: Any, mail: bool = False) -> str:
    return f"<p>{mail}"


def builds_a_statement(context: Any, request: Any, response: Any) -> str:
    update(Thing).where(Thing.count == 1)
    return "a page"


def executes_a_statement(context: Any, request: Any, response: Any) -> str:
    Sql.execute(update(Thing).where(Thing.count == 1))
    return "a page"


def changes_behind_merge(context: Any, request: Any, response: Any) -> str:
    thing = Sql.execute(None)
    Sql.merge(thing)
    thing.title = "b"
    return "a page"


def changes_what_merge_returns(context: Any, request: Any, response: Any) -> str:
    thing = Sql.execute(None)
    thing.title = "b"
    Sql.merge(thing)
    thing = Sql.merge(thing)
    thing.title = "c"
    return "a page"


def sets_a_name_of_the_database(context: Any, request: Any, response: Any) -> str:
    Thing("a")._p_stars = 5  # type: ignore[attr-defined]
    return "a page"


def says_that_it_is_changed(context: Any, request: Any, response: Any) -> str:
    Thing("a")._p_changed = True  # type: ignore[attr-defined]
    return "a page"


def goes_past_the_database(context: Any, request: Any, response: Any) -> str:
    vars(Sql.execute(None)).update(title="b")
    return "a page"


def reads_its_dict(context: Any, request: Any, response: Any) -> str:
    return f"{len(vars(Sql.execute(None)).items())} attributes"


def shows_a_method(context: Any, request: Any, response: Any) -> str:
    return f"<p>{escape(str('a'.upper))}"


def sends_json(number: object) -> Any:
    def view(context: Any, request: Any, response: Any) -> str:
        response.content_type = "application/json"
        return json.dumps({"id": number})

    return view


def keeps(context: Any, request: Any, response: Any) -> str:
    request.session.update(request.environ["test.kept"])
    return "a page"


def keeps_a_form(control: str) -> Any:
    def form(context: Any, request: Any, response: Any) -> str:
        request.csrf_token = "0a1b2c3d4e5f"
        response.headers["Cache-Control"] = control
        return FORM.format("post", "", f'<input type="hidden" name="csrf_token" value="{request.csrf_token}">')

    return form


class Sql:
    """Stands for a session: only the source of a view is looked at."""

    @staticmethod
    def execute(statement: object) -> Any:
        return Thing("a")

    merge = where = execute


def update(kind: object) -> Any:
    return Sql


class TakesText:
    def __init__(self, context: Any, request: Any) -> None:
        self.context = context

    def __call__(self, quote: str = "") -> str:
        return f"<p>{escape(quote)}"


class TakesOther(TakesText):
    def __init__(self, quotas: Any, request: Any) -> None:
        self.context = quotas

    def __call__(self, amount: int = 0) -> str:
        return f"<p>{amount}"


def reads_a_field(quotas: Any, request: Any, response: Any) -> str:
    return f"<p>{escape(request.form['quota'])}"


def takes_one_of_a_broken_query(context: Any, request: Any, response: Any, p: str = "") -> str:
    return f"<p>{escape(p)}"


def takes_another_field(context: Any, request: Any, response: Any, amount: int = 0) -> str:
    return f"<p>{amount}"


def sends_a_page_as_text(context: Any, request: Any, response: Any) -> str:
    response.content_type = "text/plain"
    return "<!DOCTYPE html><p>a page"


def sends_text(context: Any, request: Any, response: Any) -> str:
    response.content_type = "text/plain"
    return "a text about <html>"


def encodes_for_another_charset(context: Any, request: Any, response: Any) -> bytes:
    return "<p>Müsli".encode("latin-1")


def says_another_charset(context: Any, request: Any, response: Any) -> bytes:
    response.charset = "latin-1"
    return "<p>Müsli".encode("latin-1")


def shows_a_replacement_character(context: Any, request: Any, response: Any) -> str:
    return "<p>\ufffd and Müsli"


def keeps_a_cookie_for_all(context: Any, request: Any, response: Any) -> str:
    response.set_cookie("visitor", "7")
    response.headers["Cache-Control"] = "public, max-age=60"
    return "a page"


def keeps_a_cookie_for_one(context: Any, request: Any, response: Any) -> str:
    response.set_cookie("visitor", "7")
    response.headers["Cache-Control"] = "private, max-age=60"
    return "a page"


def sends(page: str, kind: str = "text/html") -> Any:
    def sends(context: Any, request: Any, response: Any) -> str:
        response.content_type = kind
        return page

    return sends


TWO_FORMS = "<form method=post>{}<form method=post action=delete><button>Delete</button></form>{}"


def deletes_while_it_walks(context: Any, request: Any, response: Any) -> str:
    tree = OOBTree({str(number): number for number in range(100)})
    for key in tree.keys():  # noqa: SIM118  # the mistake
        if key > "5":
            tree.pop(key)
    return "a page"


def deletes_afterwards(context: Any, request: Any, response: Any) -> str:
    tree = OOBTree({str(number): number for number in range(100)})
    for key in list(tree):
        del tree[key]
    for key in tree:
        tree.pop(key)
        break
    return "a page"


def swallows_every_error(context: Any, request: Any, response: Any) -> str:
    try:
        request.root["half"] = True
        request.root["whole"] = "a" + request
    except Exception:
        pass
    return "a page"


def swallows_what_changes_nothing(context: Any, request: Any, response: Any) -> str:
    try:
        return "a" + request
    except Exception:
        pass
    return "a page"


def expects_an_error(context: Any, request: Any, response: Any) -> str:
    try:
        return "a" + request
    except TypeError:
        pass
    return "a page"


class Query:
    """What a library for SQL may have: each name is a method that returns it again."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self

    def __str__(self) -> str:
        return "things"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        """Close nothing."""

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2))


class Session(Query):
    def __init__(self, engine: int) -> None:
        """Keep nothing."""


class Settings:
    title = "a"


SETTINGS = Settings()


def fills_a_response_in_vain(context: Any, request: Any, response: Any) -> str:
    answer = Response()
    answer.set_cookie("theme", "dark")
    answer.headers["X-Theme"] = "dark"
    return "a page"


def fills_and_keeps_a_thing(context: Any, request: Any, response: Any) -> str:
    thing = Thing("a")
    thing.title = "b"
    answer = Response()
    answer.set_cookie("theme", thing.title)
    response.headers.extend(answer.headers)
    return "a page"


def has_the_day_of_the_start(context: Any, request: Any, response: Any, day: date = date.today()) -> str:  # noqa: B008  # the mistake
    return "a page"


def has_a_day(context: Any, request: Any, response: Any, day: date = date(2026, 1, 1)) -> str:
    def later(now: date = date.today()) -> date:  # noqa: B008  # computed for each request
        return now

    return f"a page of {later()}"


def lets_python_decide(context: Any, request: Any, response: Any) -> str:
    return f"a page of {Query().where(Thing.count == 1 and Thing.total == 2)}"


def compares_a_column_by_is(context: Any, request: Any, response: Any) -> str:
    return f"a page of {Query().filter(Thing.count is None)}"


def asks_the_database(context: Any, request: Any, response: Any) -> str:
    text = request.GET.get("q") or "a"
    found = Query().where((Thing.count == 1) & (Thing.total == 2), text is not None and Thing.count == 1)
    return f"a page of {found}" if Thing.count == 1 and Thing.total == 2 else "a page"


def forgets_to_commit(context: Any, request: Any, response: Any) -> str:
    with Query().connect() as connection:
        connection.execute("INSERT INTO things VALUES (1)")
    return "a page"


def adds_and_forgets_to_commit(context: Any, request: Any, response: Any) -> str:
    with Session(1) as session:
        session.add(Thing("a"))
    return "a page"


def commits(context: Any, request: Any, response: Any) -> str:
    with Query().connect() as connection:
        connection.execute("INSERT INTO things VALUES (1)")
        connection.commit()
    with Session(1) as session:
        session.execute("SELECT 1")
    return "a page"


def reads_a_generator_twice(context: Any, request: Any, response: Any) -> str:
    found = (number for number in range(3))
    count = len(list(found))
    return f"{count} of {', '.join(map(str, found))}"


def reads_a_result_twice(context: Any, request: Any, response: Any) -> str:
    found = Query().scalars("SELECT")
    for one in found:
        str(one)
    if context is not None:
        return f"a page of {sorted(found)}"
    return "a page"


def reads_it_in_one_line(context: Any, request: Any, response: Any) -> str:
    found = map(str, range(3))
    return f"a page of {list(found)} {dict.fromkeys(found)}"


def reads_a_file_twice(context: Any, request: Any, response: Any) -> str:
    file = BytesIO(b"abc")
    if len(file.read()) > 1_000:
        return "too large"
    request.root["data"] = file.read()
    return "a page"


def reads_once(context: Any, request: Any, response: Any) -> str:
    found = (number for number in range(3))
    if response is None:
        return f"a page of {list(found)}"
    for file in ([1], [2]):
        str([*sorted(file), *file])
    file = BytesIO(b"abc")
    size = len(file.read())
    file.seek(0)
    both = list(found) if size else sorted(found)
    found = Query().scalars("SELECT")
    numbers = [1, 2]
    return f"a page of {list(found)} {file.read()!r} {both} {list(numbers)} {sorted(numbers)}"


def looks_for_one(context: Any, request: Any, response: Any) -> str:
    found = Query().scalars("SELECT")
    for one in found:
        if one:
            break
    return f"a page of {list(found)}"


def changes_settings(context: Any, request: Any, response: Any) -> str:
    SETTINGS.title += "."
    return "a page"


def refuses(status: int) -> Any:
    def refuses(context: Any, request: Any, response: Any) -> str:
        request.root["changed"] = request.root.get("changed", 0) + 1
        response.status = status
        return "a page"

    return refuses


def fills_the_default_of_get(context: Any, request: Any, response: Any) -> str:
    request.root.get("basket", []).append("tea")
    return "a page"


def fills_what_setdefault_returns(context: Any, request: Any, response: Any) -> str:
    request.environ.setdefault("basket", []).append("tea")
    request.environ.get("basket", []).index("tea")
    return "a page"


def removes_from_a_copy(context: Any, request: Any, response: Any) -> str:
    list(CACHE.values()).append("tea")
    return "a page"


def keeps_the_copy(context: Any, request: Any, response: Any) -> str:
    copy = list(CACHE.values())
    copy.append("tea")
    return f"<p>{len(copy)}"


def inserts_what_may_be_there(context: Any, request: Any, response: Any, title: str = "a") -> str:
    tree = OOBTree({"a": 2})
    tree.insert(title, 1)
    return "a page"


def inserts_what_is_not_there(
    context: Any, request: Any, response: Any, title: str = "a", place: int | None = 0
) -> str:
    names: list[str] = []
    names.insert(place, title)  # type: ignore[arg-type]
    tree = OOBTree({"b": 2})
    if title in tree:
        return "There is one of this title"
    tree.insert(title, 1)
    return "a page"


def asks_what_insert_returns(context: Any, request: Any, response: Any, title: str = "a") -> str:
    tree = OOBTree({"b": 2})
    return "a page" if tree.insert(title, 1) else "There is one of this title"


def ends_its_transaction(context: Any, request: Any, response: Any) -> str:
    import transaction  # its manager is that of the request, while a view runs

    transaction.doom()
    return "a page"


class Pool:
    @staticmethod
    def submit(function: Any, *arguments: Any) -> None:
        """Stands for a pool of threads."""


def gives_an_object_to_a_thread(context: Any, request: Any, response: Any) -> str:
    Pool.submit(print, context)
    return "a page"


def gives_an_object_to_a_thread_afterwards(context: Any, request: Any, response: Any) -> str:
    request.after_commit(Pool.submit, print, context)
    return "a page"


def gives_a_name_to_a_thread(context: Any, request: Any, response: Any) -> str:
    Pool.submit(print, len(context), context.__class__)
    request.after_commit(Pool.submit, print, str(context), "context")
    request.after_commit(str, context)  # it may read the objects of the request
    return "a page"


def escapes_what_it_stores(context: Any, request: Any, response: Any) -> str:
    thing = Thing("a")
    thing.title = escape("a & b")
    return f"<p>{thing.title}"


def escapes_what_it_shows(context: Any, request: Any, response: Any) -> str:
    thing = Thing("a")
    thing.html = escape("a & b")  # type: ignore[attr-defined]
    shown = escape("a & b")
    return f"<p>{thing.title} {shown}"


def render(name: str, **values: object) -> str:
    return f"<p>{values}"


def escapes_what_a_template_escapes(context: Any, request: Any, response: Any) -> str:
    return render("page.html", title=escape("a & b"))


def gives_a_text_to_a_template(context: Any, request: Any, response: Any) -> str:
    return render("page.html", title="a & b")


def sets_a_cookie_of_the_request(context: Any, request: Any, response: Any) -> str:
    request.cookies["language"] = "de"
    return "a page"


def sets_a_cookie(context: Any, request: Any, response: Any) -> str:
    response.set_cookie("language", "de", domain="127.0.0.1")
    return f"<p>{request.cookies.get('language')}"


def sets_a_cookie_of_another_site(context: Any, request: Any, response: Any) -> str:
    response.set_cookie("language", "de", domain="www.example.com")
    return "a page"


def sets_a_header(name: str, value: str) -> Any:
    def sets_a_header(context: Any, request: Any, response: Any) -> str:
        response.headers[name] = value
        return "<p>a page"

    return sets_a_header


def opens_a_file_of_the_name_of_a_visitor(context: Any, request: Any, response: Any) -> str:
    photo = SETTINGS
    if context is None:
        (Path("/srv") / photo.filename).write_bytes(b"")
    return "a page"


def opens_a_file_of_its_own_name(context: Any, request: Any, response: Any) -> str:
    photo = SETTINGS
    if context is None:
        (Path("/srv") / f"1{Path(photo.filename).suffix}").write_bytes(photo.filename.encode())
    return "a page"


def repeats_a_form(status: int, changes: bool) -> Any:
    def repeats_a_form(context: Any, request: Any, response: Any) -> None:
        if changes:
            request.root["changed"] = request.root.get("changed", 0) + 1
        response.status, response.location = status, "/"

    return repeats_a_form


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("sorted(notes)", True),
        ("day.replace(year=2027)", True),
        ("notes.replace('a', 'b')", True),
        ("notes.count + 1", True),
        ("title.lstrip('a')", True),
        ("day.astimezone(UTC)", True),
        ("title.removesuffix(end)", True),
        ("notes.removeprefix", False),
        ("notes.append(title.strip())", False),
        ("notes.append(title.replace('a', 'b'))", False),
        ("yield title.replace('a', 'b')", False),
        ("yield title.strip()", False),
        ("notes.sort()", False),
        ("path.replace(target)", False),
        ("path.replace('target')", False),
        ("day = day.replace(year=2027)", False),
        ("found = sorted(notes)", False),
        ("notes.count += 1", False),
    ],
)
def test_a_new_value_that_is_dropped(line: str, is_told: bool) -> None:
    tree = ast.parse(f"def view(context, request):\n    {line}")
    nodes, names = [*ast.walk(tree)], names_in(tree, print, dict)
    found = [told for rule in RULES["source"] for _, told in slips_of_rule(rule, nodes, names, ast.unparse)]
    assert found == [f"{line} has no effect: it makes a new value. Assign it"] * is_told


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        ("if request.headers.get('Accept-Langauge') == 'de':\n    return request.headers['Referrer']", True),
        ("requests.post('https://example.com/pay', json=data)", True),
        ("urllib.request.urlopen(address, data=body)", True),
        ("answer = requests.post('https://example.com/pay', json=data)", False),
        ("urlopen(address)", False),
        ("requests.get(address, timeout=5)", False),
        ("response.cache_control.max_age = 60\nname = request.cookies.get('name')", True),
        ("response.cache_control.max_age = 60\nold = request.headers.get('If-None-Match')", False),
        ("response.cache_control.max_age = 0\nname = request.path", False),
        ("class Task(Base):\n    made = mapped_column(default=datetime.utcnow)", True),
        ("class Task(Base):\n    made = mapped_column(default=lambda: datetime.now(UTC))", False),
        ("now = datetime.now()\nreturn f'<p>{now:%H:%M}'", False),
        ("tags = dict(notes)\ntags['a'] = 1", True),
        ("tags = sorted(notes)\ntags.append('a')\ntags.clear()", True),
        ("tags = list(notes)\ntags.append('a')\nreturn tags", False),
        ("tags = set(notes)\ntags.add('a')\nnotes.extend(tags)", False),
        ("tags = list(notes)\ntags.append('a')\nreturn f'<p>{tags}'", False),
        ("tags = list(notes)\ntags[0].title = 'a'", False),
        ("tags = list(notes)\nlast = tags.pop()", False),
        ("global tags\ntags = list(notes)\ntags.append('a')", False),
        ("tags = list(notes)\ntags.append('a')\nreturn locals()", False),
        ("rows = list(notes)", False),
        ("context.title = 'a'\nrequest.sql.expunge(context)", True),
        ("context.title = 'a'\nshown = show(context)\ncontext._p_invalidate()", False),
        ("if context.title == 'a':\n    context._p_invalidate()", False),
        ("db = pymysql.connect('a')\ndb.cursor().execute('DELETE FROM a')", True),
        ("db = sqlite3.connect('a')\nwith db:\n    db.execute('INSERT INTO a')", False),
        ("db = sqlite3.connect('a', autocommit=True)\ndb.execute('INSERT INTO a')", False),
        ("db = sqlite3.connect('a')\ndb.execute('SELECT 1')", False),
        ("db = sqlite3.connect('a')\ndb.execute('INSERT INTO a')\nfinish(db)", False),
        ("with engine.connect() as a:\n    a.execute('SELECT 1')\ntags.add('a')", False),
        ("subprocess.run(a, check=False)", False),
        ("subprocess.run(a).check_returncode()", False),
        ("subprocess.run(a, **options)", False),
        ("subprocess.call(a)", True),
        ("copyfileobj(upload.file, target)", False),
        ("head = upload.file.read(9)\ntarget.write(head)\ncopyfileobj(upload.file, target)", False),
        ("target.write(upload.file.read(9))\ncopyfileobj(upload.file, target)", False),
        ("kind = kind_of(upload.file.read(9))\nshutil.copyfileobj(upload.file, target)", True),
        ("response = ask()\nresponse.data = 1", False),
        ("return '<p>{note.title}'.format(note=note)", False),
        ("return '<p>{note.title}'", True),
        ("map(print, notes)", True),
        ("context.title: str", False),
        ("request.sql.merge(note)\nother.title = 'a'", False),
        ("page.where('a')\nnotes = page.limit(3)", False),
        ("query = request.sql.query(Note)\nquery.filter(Note.done)", True),
        ("query = select(Note)\nreturn query.where(Note.done)", False),
        ("if (b - a).seconds == 0:\n    pass", False),
        ("if (datetime.now() - began).seconds > 2:\n    pass", False),
        ("took = datetime.now() - began\nif took.seconds > 2:\n    pass", False),
        ("if (link.ends - now).seconds > 2:\n    pass", True),
        ("rest = link.ends - now\nif rest.seconds > 2:\n    pass", True),
        ("for mail in mails:\n    mail['To'] = a", False),
        ("for a in b:\n    with new() as mail:\n        mail['To'] = a", False),
        ("with NamedTemporaryFile() as a:\n    command.path = a.name\n    run(command)", False),
        ("print(hashed(name, password))\nlog.info('the form %s', name)", False),
        ("def login(password):\n    log.info(f'with {password}')", True),
        ("age = b.seconds\nif age < 3:\n    pass", False),
        ("int(share * 100)\nint(Decimal(price) * 100)", False),
        ("def pay(price: float):\n    return int(price * 100)", True),
        ("if note.kind == 'a' and (b or 'c'):\n    pass", False),
        ("kind = note.kind == 'a' or 'b'", False),
        ("if a:\n    r.headers['Vary'] = 'A'\nelse:\n    r.headers['Vary'] = 'B'", False),
        ("r.headers['Vary'] = 'A'\na = 1\nif a:\n    a = 2\nr.headers['Vary'] = 'B'", True),
        ("r.headers['X'] = 'a'\nr.headers['X'] = 'b'", False),
        ("response.set_cookie('a')\nreply.headers['Set-Cookie'] = 'b'", False),
        ("a.decode('utf-8', 'replace')", False),
        ("for a in b:\n    del mail['To']\n    mail['To'] = a", False),
        ("with TemporaryDirectory() as a:\n    b.c = a.name", False),
        ("a.strftime('%H:%M, %m/%d')\nf'{a:%Y-%m-%d %H:%M}'", False),
        ("a.strftime('%d.%M.%Y')", True),
        ("log.warning('a wrong password of %s', name)", False),
        ("q.where(Task.count == (1 if a and b else 2))", False),
        ("q.where(Task.count == f(1) and Task.done == g(h(2)))", True),
        ("try:\n    a.b = 1\nexcept Exception:\n    pass", True),
        ("for c in d:\n    try:\n        del a['b']\n    except:\n        continue\n    else:\n        e()", True),
        ("try:\n    a['b'][c].append(1)\nexcept KeyError:\n    pass\nexcept Exception as e:\n    pass", True),
        ("try:\n    if c:\n        a.b += 1\nexcept BaseException:\n    pass\nfinally:\n    e()", True),
        ("try:\n    a.b = 1\nexcept KeyError:\n    pass\nexcept Exception:\n    raise", False),
        ("try:\n    a.b = 1\nexcept Exception:\n    pass\n    log(a)", False),
        ("try:\n    with c(1):\n        a = b.c = d.e\nexcept (KeyError, OSError):\n    pass", False),
        ("try:\n    a = b.c\n    del a\n    return f(a=1)\nexcept Exception:\n    pass", False),
        ("redirect(f(g(h(1)), 2))", True),
        ("exc.HTTPFound(location='/')", True),
        ("render('a.html', b=c('d'))", True),
        ("raise redirect('/')", False),
        ("page.render('a.html')", False),
        ("request.response.redirect('/')", False),
        ("HTTPServer(a).serve_forever()", False),
        ("a = BytesIO(b)\na.read(1)\nreturn a", False),
        ("a = BytesIO()\nfill(a, 1)\nreturn a", False),
        ("a = io.BytesIO()\nbook.save(a)\nreturn a.getvalue()", False),
        ("a = io.BytesIO()\nbook.save(a)\nresponse.app_iter = a", True),
        ("os.chdir('/srv')", True),
        ("os.environ['LANG'] = 'de'", True),
        ("a = os.environ['LANG']\nb = locale.setlocale(locale.LC_ALL)", False),
        ("getcontext().prec = 4", True),
        ("with localcontext() as c:\n    c.prec = 4", False),
        ("return redirect(request.GET['next'], trusted=True)", True),
        ("a = request.GET['next']\nif a in KNOWN:\n    return redirect(a, trusted=True)", False),
        ("return redirect(request.GET['next'])", False),
        ("return redirect(KNOWN[request.GET['next']], trusted=True)", False),
        ("return open(f'/srv/{request.GET[name]}')", True),
        ("return open('/srv/' + request.GET['a'], 'rb').read()", True),
        ("return open(os.path.join(BASE, request.GET.get('a', '')))", True),
        ("return Path(BASE, request.GET['a']).read_bytes()", True),
        ("return open(FILES[request.GET['a']])", False),
        ("a = Path(BASE, request.GET['a']).resolve()\nreturn a.read_bytes()", False),
        ("(BASE / 'a').open('a').write(a + request.GET['a'])", False),
        ("open(BASE / 'a', 'a').write('%s, %s' % (1, request.GET['a']))", False),
        ("note.secret = ''.join(secrets.choice('ab') for a in b)", False),
        ("note.secret = ''.join(random.SystemRandom().choices('ab', k=9))", False),
        ("note.title = random.choice(titles)\ntoken_of(random.random())", False),
        ("tokens = random.sample(words, 3)", False),
        ("users[name]['api_key'] = random.randbytes(16)", True),
        ("digest = hashlib.sha1(password.encode()).hexdigest()", False),
        ("user.password_hash = hashlib.pbkdf2_hmac('sha256', password, salt, 600000)", False),
        ("users[login] = hashlib.md5(password).hexdigest()", True),
        ("note.content_hash = hashlib.sha256(note.text.encode()).hexdigest()", False),
        ("response.cache_expires(60)\nuser = request.principal", True),
        ("response.cache_control.max_age = 60\nlog.info('%s', request.principal)", False),
        ("if request.principal is None:\n    response.cache_expires(60)\nuser = request.principal", False),
        ("response.headers['Cache-Control'] = 'no-cache'\nuser = request.principal", False),
        ("response.cache_expires(0)\nuser = request.principal", False),
        ("response.cache_expires(60)\nuser = request.principal\nseen = request.session['seen']", False),
    ],
)
def test_slips_and_what_looks_like_them(lines: str, is_told: bool) -> None:
    tree = ast.parse("def view(context, request):\n    " + lines.replace("\n", "\n    "))
    vars(tree)["lineno"] = 1  # as that of a view
    nodes, names = [*ast.walk(tree)], names_in(tree, print, dict)
    found = [told for rule in RULES["source"] for _, told in slips_of_rule(rule, nodes, names, ast.unparse)]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    found += [told for node in nodes for told in slips_in(node, used)]
    assert len(found) == is_told, found


@pytest.mark.parametrize(
    "name", ["Retry-After-Ms", "Access-Control-Allow-Methods", "Accept-Patch", "Sec-Fetch-Site"]
)
def test_the_name_of_a_header_that_has_a_meaning_of_its_own(name: str) -> None:
    assert [*slips_in(ast.parse(f"response.headers[{name!r}]", mode="eval").body, ())] == []


@pytest.mark.parametrize(
    ("parameter", "is_told"),
    [
        ("size: int = '10'", True),
        ("tags: list[str] = 'a'", True),
        ("size: int = 10, word: str = 'a'", False),
        ("size: int | str = 'all', tags: list = []", False),
    ],
)
def test_a_default_of_another_type(parameter: str, is_told: bool) -> None:
    tree = ast.parse(f"@view(name='a')\ndef view(context, request, {parameter}):\n    return ''")
    vars(tree)["lineno"] = 1
    nodes, names = [*ast.walk(tree)], names_in(tree, publish, dict)
    found = [told for rule in RULES["source"] for _, told in slips_of_rule(rule, nodes, names, ast.unparse)]
    assert len(found) == is_told and all("only what is sent is converted" in told for told in found), found


@pytest.mark.parametrize(
    ("decorator", "is_told"),
    [("view(permission='edit')", True), ("view(permission='view')", False), ("view(name='edit')", False)],
)
def test_a_page_for_some_that_caches_give_to_all(decorator: str, is_told: bool) -> None:
    """A policy may grant the permission to view to every visitor."""
    tree = ast.parse(f"@{decorator}\ndef show(context, request):\n    response.cache_expires(60)")
    nodes, names = [*ast.walk(tree)], names_in(tree, print, dict)
    found = [told for rule in RULES["source"] for _, told in slips_of_rule(rule, nodes, names, ast.unparse)]
    assert [told for told in found if "for a visitor who is logged in" in told] == found
    assert len(found) == is_told


def compares_with_in(context: Any, request: Any, response: Any) -> str:
    Sql.where(Thing.count in (1, 2))
    Sql.where(context is not None)
    return "a page"


def does_not_compare(context: Any, request: Any, response: Any) -> str:
    Sql.where(not Thing.count)
    return "a page"


NEXT = '<h1>Notes</h1><a class="more" rel="next" href="?{}">Next</a> <a href="?">All</a>'
FIELD = '<form method="post"><label for="f">F</label><input id="f" name="f" {}><button>Save</button></form>'
TOLD: dict[str, tuple[Any, str, str]] = {
    "a default of get": (fills_the_default_of_get, "POST /", "changes the default of get(), which nothing keeps"),
    "a copy": (
        removes_from_a_copy,
        "POST /",
        "list(CACHE.values()).append('tea') changes a copy, which nothing keeps",
    ),
    "a key that may be there": (inserts_what_may_be_there, "POST /", "tree.insert(title, 1) leaves what stands"),
    "an object in a thread": (gives_an_object_to_a_thread, "POST /", "context is given to a thread"),
    "an object in a later thread": (
        gives_an_object_to_a_thread_afterwards,
        "POST /",
        "context is given to a thread",
    ),
    "an escaped text that is stored": (
        escapes_what_it_stores,
        "POST /",
        "thing.title = escape('a & b') has what each",
    ),
    "an escaped text in a template": (
        escapes_what_a_template_escapes,
        "GET /",
        "has what each template escapes again",
    ),
    "a cookie of the request": (
        sets_a_cookie_of_the_request,
        "POST /",
        "request.cookies['language'] = 'de' changes what",
    ),
    "a cookie of another site": (
        sets_a_cookie_of_another_site,
        "GET /",
        "refuses a cookie for www.example.com from",
    ),
    "a name without quotes": (
        sets_a_header("Content-Disposition", "attachment; filename=My file.pdf"),
        "GET /",
        "ends at its first blank",
    ),
    "a charset as if it were compressed": (
        sets_a_header("Content-Encoding", "utf-8"),
        "GET /",
        "Content-Encoding: 'utf-8' has no effect",
    ),
    "values without a comma": (
        sets_a_header("Cache-Control", "private max-age=60"),
        "GET /",
        "Cache-Control: 'private max-age=60' has no effect, since a browser or a cache cannot read it",
    ),
    **{
        f"a wrong {name} of {len(value)}": (sets_a_header(name, value), "GET /", f"{name}: {value!r} has no effect")
        for name, value in [
            ("Access-Control-Allow-Credentials", "True"),
            ("Access-Control-Allow-Origin", "https://a.example, https://b.example"),
            ("Cache-Control", "no_store"),
            ("Content-Security-Policy", "default-src self"),
            ("ETag", "abc"),
            ("Expires", "2026-11-28 21:41:47"),
            ("Last-Modified", "2026-11-28"),
            ("Link", "/site.css; rel=preload"),
            ("Refresh", "/x"),
            ("Set-Cookie", "__Host-a=b; Path=/"),
            ("Strict-Transport-Security", "31536000"),
            ("X-Content-Type-Options", "no-sniff"),
            ("X-Frame-Options", "ALLOW-FROM https://a.example"),
        ]
    },
    "a row without its id": (returns_a("/books/None"), "POST /", "the Location '/books/None' was made of None"),
    "a link without its id": (sends('<p><a href="/books/None">'), "GET /", 'href="/books/None was made of None'),
    "None in a field": (sends(FIELD.format('value="None"')), "GET /", 'value="None" was made of None'),
    "a file of a visitor's name": (
        opens_a_file_of_the_name_of_a_visitor,
        "POST /",
        "replaces the file of that name",
    ),
    "a form that is sent again": (repeats_a_form(307, True), "POST /", "307 Temporary Redirect has a browser send"),
    "in for a column": (compares_with_in, "GET /", "Python decides Thing.count in (1, 2), and not the database"),
    "not for a column": (does_not_compare, "GET /", "Python decides not Thing.count, and not the database"),
    "a sum of floats": (sends(f"<p>{0.1 + 0.2} Euro</p>"), "GET /", "0.30000000000000004', as binary fractions"),
    "bytes as a text": (sends("<p>b&#39;abc&#39;</p>"), "GET /", "the page shows '>b&#39;', as Python writes it"),
    "escaped twice": (sends("<p>it&amp;#39;s</p>"), "GET /", "the page shows '&amp;#39;', which was escaped twice"),
    "the hash of a password": (
        sends_json({"hash": "$argon2id$v=19$m=65536,t=3,p=4$c2FsdA"}),
        "GET /",
        "has the hash of a password",
    ),
    "JSON in JSON": (
        sends(json.dumps(json.dumps({"a": 1})), "application/json"),
        "GET /",
        "the answer is no JSON, or JSON in a text",
    ),
    "a date that is not shown": (
        sends(FIELD.format('type="date" value="20.11.2026"')),
        "GET /",
        "a browser takes a date as 2026-12-31",
    ),
    "a number that is not shown": (
        sends(FIELD.format('type="number" value="1,5"')),
        "GET /",
        "a browser takes a number as 1.5",
    ),
    "an ampersand in a query": (takes_a_word, "GET /?q=milk+&+bread", "the query has ' bread' without =, most"),
    "a box that is always ticked": (
        sends(FIELD.format('type="checkbox" checked="False"')),
        "GET /",
        "is on: such an attribute is on with any value",
    ),
    "lines in an input": (
        sends(FIELD.format('value="milk\r\n and bread"')),
        "GET /",
        "loses its line breaks in a browser",
    ),
    "a page that forgets": (sends(NEXT.format("page=2")), "GET /?q=tea", "forgets q of this address"),
    "lines as a page": (sends("a;b\nc;d\ne;f\n"), "GET /", "lines are sent as text/html"),
    "a response that is dropped": (fills_a_response_in_vain, "POST /", "answer = Response(...) makes an object"),
    "a default of the start": (has_the_day_of_the_start, "GET /", "the default date.today() is computed once"),
    "and between conditions": (lets_python_decide, "GET /", "Python decides Thing.count == 1 and"),
    "is for a column": (compares_a_column_by_is, "GET /", "Python decides Thing.count is None"),
    "an INSERT without commit": (forgets_to_commit, "POST /", "what is written here is lost"),
    "a session without commit": (adds_and_forgets_to_commit, "POST /", "what is written here is lost"),
    "a generator twice": (reads_a_generator_twice, "GET /", "found was read to its end before"),
    "a result twice": (reads_a_result_twice, "GET /", "found was read to its end before"),
    "a map twice": (reads_it_in_one_line, "GET /", "found was read to its end before"),
    "a file twice": (reads_a_file_twice, "POST /", "file was read to its end before"),
    "an object of the module": (changes_settings, "POST /", "test_notices_of_pages.SETTINGS has changed in"),
    "nothing is returned": (returns_nothing, "GET /", "the view has returned None, and the page is empty"),
    "nothing is returned to a POST": (returns_nothing, "POST /", "the view has returned None"),
    "a redirect is not returned": (forgets_to_return_a_redirect, "POST /", "redirect(...) is made, and neither"),
    "an answer is not raised": (forgets_to_raise, "GET /", "HTTPFound(...) is made, and neither"),
    "an address is returned": (returns_an_address, "GET /", "the page is an address"),
    "a whole address is returned": (returns_a_whole_address, "POST /", "the page is an address"),
    "Location beside 200": (sets_a_location_alone, "GET /", "a browser ignores Location beside 200 OK"),
    "303 without Location": (sets_a_status_alone, "POST /", "303 See Other without a Location"),
    "JSON": (returns_json, "GET /", "JSON is sent as text/html"),
    "a PDF": (returns_a_pdf, "GET /", "a PDF is sent as text/html"),
    "a picture": (returns_a_picture, "GET /", "a PNG picture is sent as text/html"),
    "markup of the query": (
        shows_what_was_asked,
        "GET /?q=%3Cb%3Ebold",
        "the page has the markup of the field 'q'",
    ),
    "markup of a form": (shows_what_was_sent, "POST /", "the page has the markup of the field 'q'"),
    "a file without enctype": (makes("post", '<input type="file" name="f">'), "GET /", 'no enctype="multipart'),
    "a file by GET": (
        makes("", '<input type="file" name="f">', MULTIPART),
        "GET /",
        'no method="post": its values',
    ),
    "a password by GET": (makes("get", "<input type=password name=p>"), "GET /", 'no method="post": its values'),
    "a field without a name": (makes("post", '<input id="title">'), "GET /", "has no name, so a browser does not"),
    "a form with PUT": (makes("put", ""), "GET /", "a form has the method 'put', for which browsers send a GET"),
    "a dict of the module": (counts_in_a_dict, "POST /", "test_notices_of_pages.COUNTS has changed in memory"),
    "a list of the module": (appends_to_a_list, "POST /", "test_notices_of_pages.NAMES has changed in memory"),
    "a number of the module": (counts_in_a_global, "POST /", "test_notices_of_pages.TOTAL has changed in memory"),
    "a mutable default": (fills_a_default, "POST /", "a default value of a parameter of"),
    "a number of a class": (counts_in_a_class, "POST /", "test_notices_of_pages.Thing.count has changed in memory"),
    "a comparison": (compares_in_place_of_assigning, "POST /", "thing.title == 'b' has no effect"),
    "a method without ()": (does_not_call_a_method, "POST /", "thing.touch has no effect"),
    "a text that is dropped": (drops_a_text, "POST /", "title.strip() has no effect"),
    "an object that is dropped": (makes_a_thing_in_vain, "POST /", "thing = Thing(...) makes an object that"),
    "an object as a text": (shows_a_thing, "GET /", "test_notices_of_pages.Thing object at 0x': call the method"),
    "a value in a statement": (puts_a_value_into_a_statement, "GET /", "a value stands in the text of a statement"),
    "an f that is forgotten": (forgets_an_f, "GET /", "the text has a name in braces, and no f before its quotes"),
    "a field that is not taken": (takes_text, "POST /", "'quota' was sent, and not taken. Did you mean 'quote'?"),
    "a field that is not taken by a class": (TakesText, "POST /", "'quota' was sent, and not taken. Did you mean"),
    "a page as a text": (sends_a_page_as_text, "GET /", "a page is sent as text/plain"),
    "Latin-1 as UTF-8": (encodes_for_another_charset, "GET /", "the body is not UTF-8, as its header says"),
    "a cookie for all": (keeps_a_cookie_for_all, "GET /", "caches may keep the answer for all"),
    "a form in a form": (sends(TWO_FORMS.format("<input name=a>", "")), "GET /", "a form stands in another one"),
    "a field outside": (
        sends("<form method=post><input name=a></form><textarea name=b></textarea>"),
        "GET /",
        "<textarea name=b> stands outside of every form",
    ),
    "a box that is on": (takes_a_box, "POST /", "mail was not sent, as a box that is not ticked, and so is True"),
    "a statement that is not executed": (builds_a_statement, "POST /", "(Thing.count == 1) is built and not"),
    "a change behind merge": (changes_behind_merge, "POST /", "thing is changed behind merge(thing)"),
    "a name of the database": (sets_a_name_of_the_database, "POST /", "_p_stars is not stored"),
    "vars of an object": (goes_past_the_database, "POST /", "goes past the object: the database is not told"),
    "a method as a text": (shows_a_method, "GET /", "the page shows '&lt;built-in method upper': call the method"),
    "a number that is rounded": (sends_json(2**60 + 1), "GET /", "JSON has a number beyond 2**53"),
    "a number that JSON lacks": (sends_json(float("nan")), "GET /", "JSON has no NaN"),
    "a token in the address": (sends("<p>a page"), "GET /?refresh_token=a", "the address has 'refresh_token='"),
    "a form of one visitor": (
        keeps_a_form("public, max-age=60"),
        "GET /",
        "caches may keep the answer for all, and with it the token",
    ),
    "a container that is walked": (deletes_while_it_walks, "POST /", "tree is changed while the loop walks it"),
    "a swallowed error": (swallows_every_error, "POST /", "every exception is swallowed here"),
    "changes beside 403": (
        refuses(403),
        "POST /",
        "the changes were dropped, since the view has set the status 403",
    ),
}
QUIET: dict[str, tuple[Any, str]] = {
    "what setdefault returns": (fills_what_setdefault_returns, "POST /"),
    "a copy that is kept": (keeps_the_copy, "POST /"),
    "a key that is not there": (inserts_what_is_not_there, "POST /"),
    "a key that is asked for": (asks_what_insert_returns, "POST /"),
    "its transaction": (ends_its_transaction, "POST /"),
    "a name in a thread": (gives_a_name_to_a_thread, "POST /"),
    "an escaped text that is shown": (escapes_what_it_shows, "POST /"),
    "a text in a template": (gives_a_text_to_a_template, "GET /"),
    "a cookie of this site": (sets_a_cookie, "GET /"),
    "a name in quotes": (
        sets_a_header("Content-Disposition", 'attachment; filename="My file.pdf"; size=3'),
        "GET /",
    ),
    "a name without blanks": (sets_a_header("Content-Disposition", "attachment; filename=a.pdf; size=3"), "GET /"),
    "a page that is not compressed": (sets_a_header("Content-Encoding", "identity"), "GET /"),
    "values with a comma": (sets_a_header("Cache-Control", "private, max-age=60,no-transform"), "GET /"),
    **{
        f"a right {name} of {len(value)}": (sets_a_header(name, value), "GET /")
        for name, value in [
            ("Access-Control-Allow-Credentials", "true"),
            ("Access-Control-Allow-Origin", "https://a.example:8080"),
            ("Access-Control-Allow-Origin", "*"),
            ("Cache-Control", 'No-Cache="Set-Cookie", must-revalidate'),
            ("Content-Security-Policy", "default-src 'self' https://self.example; img-src *"),
            ("ETag", 'W/"abc"'),
            ("Expires", "0"),
            ("Expires", "Sun, 29 Nov 2026 10:00:00 GMT"),
            ("Link", "</site.css>; rel=preload"),
            ("Refresh", "5; url=/x"),
            ("Set-Cookie", "__Host-a=b; Path=/; Secure"),
            ("Strict-Transport-Security", "max-age=31536000; includeSubDomains"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "deny"),
        ]
    },
    "a row of a name": (returns_a("/books/Nonesuch?by=None-the-less"), "POST /"),
    "a link of a name": (sends('<p>None <a href="/Nonesuch">None</a> <option value="None">'), "GET /"),
    "a file of its own name": (opens_a_file_of_its_own_name, "POST /"),
    "a form that is not sent again": (repeats_a_form(303, True), "POST /"),
    "a form that is handed on": (repeats_a_form(307, False), "POST /"),
    "numbers": (
        sends(
            "<p>3.141592653589793 0.33333333333333331 0.0000000012 1000000000.5"
            '<i style="left: 0.30000000000000004px">'
        ),
        "GET /",
    ),
    "values that are shown": (
        sends(
            "".join(
                map(
                    FIELD.format,
                    [
                        'type="date" value="2026-11-20"',
                        'type="number" value="-1.5e3"',
                        'type="number" value="0"',
                        'type="datetime-local" value="2026-11-20 10:00"',
                        'type="time" value="10:00"',
                        'type="date" value=""',
                    ],
                )
            )
        ),
        "GET /",
    ),
    "a query with a switch": (takes_a_word, "GET /?q=milk+%26+bread&raw&page=2&&from_1&noCache&WSDL&17"),
    "boxes": (
        sends(FIELD.format('type="checkbox" checked') + '<i aria-hidden="False" hidden>checked="False"</i>'),
        "GET /",
    ),
    "lines that are kept": (
        sends(FIELD.format('type="hidden" value="a\nb"><input name="h" value="a\n"><textarea name="g">a\nb')),
        "GET /",
    ),
    "a page that forgets nothing": (sends(NEXT.format("q=tea&amp;page=2")), "GET /?q=tea&page=1"),
    "two lines": (sends("a page\nof two lines\n"), "GET /"),
    "JSON of texts": (sends_json(["[1]", "{'a': 1}", "$2 and $3"]), "GET /"),
    "a response that is used": (fills_and_keeps_a_thing, "POST /"),
    "a default that is a day": (has_a_day, "GET /"),
    "conditions of the database": (asks_the_database, "GET /"),
    "an INSERT with commit": (commits, "POST /"),
    "a generator once": (reads_once, "POST /"),
    "a result up to one": (looks_for_one, "GET /"),
    "an empty text": (returns_an_empty_text, "GET /"),
    "204": (sets_204, "POST /"),
    "the text is set": (sets_the_text, "GET /"),
    "a redirect is returned": (returns_a_redirect, "POST /"),
    "a redirect is raised": (raises_a_redirect, "POST /"),
    "an address in a page": (shows_an_address, "GET /"),
    "JSON as JSON": (says_that_it_is_json, "GET /"),
    "a bracket": (begins_with_a_bracket, "GET /"),
    "a PDF as a PDF": (says_that_it_is_a_pdf, "GET /"),
    "a query that is escaped": (escapes_what_was_asked, "GET /?q=%3Cb%3Ebold"),
    "a query without markup": (shows_what_was_asked, "GET /?q=1+%3C+2"),
    "a page that a view has compressed": (compressed_by_the_view, "GET /"),
    "a form for a file": (makes("POST", '<input type="file" name="f"><button>Go</button>', MULTIPART), "GET /"),
    "a form for a query": (makes("", '<input name="q"><input type="submit">'), "GET /"),
    "a field that is not sent": (makes("post", "<textarea readonly></textarea><input disabled>"), "GET /"),
    "a comparison that is used": (assigns_what_it_compares, "POST /"),
    "a method that is called": (calls_a_method, "POST /"),
    "a text that is kept": (keeps_a_text, "POST /"),
    "an attribute as a text": (shows_its_title, "GET /"),
    "a parameter of a statement": (gives_a_value_to_a_statement, "GET /"),
    "braces of a style sheet": (has_braces, "GET /"),
    "a field that is taken": (takes_q, "POST /"),
    "a field of another name": (takes_another_field, "POST /"),
    "a context of nearly the name of what is not taken": (reads_a_field, "POST /"),
    "a context of nearly the name of what is not taken by a class": (TakesOther, "POST /"),
    "a query that is broken": (takes_one_of_a_broken_query, "GET /?p=%3C&q=%ff"),
    "a text as a text": (sends_text, "GET /"),
    "Latin-1 as Latin-1": (says_another_charset, "GET /"),
    "a replacement character": (shows_a_replacement_character, "GET /"),
    "a cookie for one": (keeps_a_cookie_for_one, "GET /"),
    "a form behind a form": (sends(TWO_FORMS.format("</form>", "")), "GET /"),
    "a field of a form elsewhere": (sends("<form id=f method=post></form><input name=a form=f>"), "GET /"),
    "a field of a script": (sends("<input name=a><script src=a.js></script>"), "GET /"),
    "a cache": (fills_a_cache, "GET /"),
    "a box that is off": (takes_a_box_that_is_off, "POST /"),
    "a statement that is executed": (executes_a_statement, "POST /"),
    "a change of what merge returns": (changes_what_merge_returns, "POST /"),
    "an object that says that it is changed": (says_that_it_is_changed, "POST /"),
    "vars that are read": (reads_its_dict, "POST /"),
    "a number as a text in JSON": (sends_json(str(2**60 + 1)), "GET /"),
    "what is not NaN": (sends_json(["NaN", ": NaN", 0, '": NaN']), "GET /"),
    "a link out of a mail": (sends("<p>a page"), "GET /?token=a&session_id=b&tokens=c&key=d"),
    "a form that one visitor keeps": (keeps_a_form("private, max-age=60"), "GET /"),
    "a number that is kept": (sends_json([2**53, 1.5e300, "12345678901234567890"]), "GET /"),
    "a copy is walked": (deletes_afterwards, "POST /"),
    "an error after which nothing is stored": (swallows_what_changes_nothing, "POST /"),
    "an error that is expected": (expects_an_error, "POST /"),
    "changes beside 409": (refuses(409), "POST /"),
    "changes beside 412": (refuses(412), "POST /"),
    "changes beside 422": (refuses(422), "POST /"),
    "changes beside 428": (refuses(428), "POST /"),
    "a type in capitals": (
        makes("post", '<input type="file" name="f"><button>Go</button>', MULTIPART.upper()),
        "GET /",
    ),
}


LIST = jinja2.Environment(autoescape=True).from_string(
    """<!doctype html><html lang="en"><head><meta name="viewport" content="width=device-width"><title>Notes</title>
</head><body><form action="search"><input type="search" name="q"><button>Search</button></form>
<form method="post" action="logout"><button>Log out</button></form><table>
{% for note in notes %}
<tr class="{{ loop.cycle("odd", "even") }}"><td><a href="/notes/{{ note.number }}">{{ note.title }}</a></td></tr>
{% endfor %}
</table></body></html>"""
)
NOTES = [{"number": number, "title": f"A note & its number, {number}"} for number in range(75)]


def lists_notes(context: Any, request: Any, response: Any) -> str:
    return LIST.render(notes=NOTES)


def publish(name: str, function: Any) -> str:
    """Have the scan of this module find a view, and return its name."""
    path = name.replace(" ", "-").lower()
    globals()[f"view {path}"] = view(name=path, methods=("GET", "POST"))(function)
    return path


PATHS = {name: publish(name, function) for name, (function, *_) in {**TOLD, **QUIET}.items()}
PATHS["keeps"] = publish("keeps", keeps)
PATHS["a list"] = publish("a list", lists_notes)


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    close_all()


def notices(name: str, asked: str, caplog: pytest.LogCaptureFixture, *inner: Any) -> list[str]:
    """Return the notices of one request. The field ``q`` of a POST has markup."""
    database = (retry(delay=0), zodb(uri="memory://notices"), errors(debug=True))
    site = Pipeline(*database, transaction(), forms(), traverse(), *inner, publisher(scan=(__name__,)))
    method, _, query = asked.partition(" /")
    body = (b"quota=1" if "not taken" in name else b"q=%3Cb%3Ebold") if method == "POST" else b""
    answer = asking.ask(
        site, f"/{PATHS[name]}{query}", method, body, CONTENT_TYPE=FORM_TYPE, HTTP_ACCEPT_ENCODING="gzip"
    )
    assert ("Content-Encoding" in answer.headers) is bool(inner) or "compressed" in name
    assert answer.status in (200, 204, 302, 303, 307, 403, 409, 412, 422, 428), answer
    assert "could not be found out" not in caplog.text
    return [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"]


@pytest.mark.parametrize("name", TOLD)
def test_a_mistake_is_told(name: str, caplog: pytest.LogCaptureFixture) -> None:
    _, asked, told = TOLD[name]
    found = notices(name, asked, caplog)
    assert [notice for notice in found if told in notice], found
    assert len(found) == 1, found
    if "dropped" not in told:
        assert f"{__file__}, line " in found[0]


@pytest.mark.parametrize("name", QUIET)
def test_right_code_is_quiet(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert notices(name, QUIET[name][1], caplog) == []


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ({"last": ("a", 1)}, "session['last'] comes back changed"),
        ({"password": "x"}, "session['password'] can be read in the browser"),
        ({"last": ["a", {"b": 1.5}], "language": None}, ""),
    ],
)
def test_what_a_session_changes_or_shows(kept: Any, told: str, tmp_path: Path, caplog: Any) -> None:
    inner = (session(keys=f"{tmp_path}/keys"), forms(), traverse(root=OOBTree), publisher(scan=(__name__,)))
    site = Pipeline(errors(debug=True), *inner)
    assert asking.ask(site, "/keeps", "POST", **{"test.kept": kept}).status == 200
    found = [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"]
    assert len(found) == bool(told) and all(f"{__file__}, line " in one and told in one for one in found), found


class Draft:
    """The context of a view, with a method that is asked."""

    def __init__(self) -> None:
        self.kind = "memo"
        self.ready = True

    def is_public(self) -> bool:
        return False


def takes_anything(*given: Any) -> str:
    return "a page" if given else "nothing"


def sends_a_mail(draft: Any, request: Any, server: Any) -> str:
    server.send_message("a message")
    return "a page"


def sends_a_mail_afterwards(draft: Any, request: Any, server: Any) -> str:
    def send() -> None:
        server.send_message("a message")

    request.after_commit(send)
    return "a page"


def asks_a_method(draft: Any, request: Any) -> str:
    if draft.ready and not draft.is_public:
        return "a draft"
    return "a page"


def shows_by_a_method(draft: Any, request: Any) -> str:
    return "a page" if draft.is_public else "a draft"


def calls_what_it_asks(draft: Any, request: Any) -> str:
    if draft.ready and not draft.is_public():
        return "a draft"
    return "a page" if draft.ready else str(draft.is_public)


class Field:
    """Stands for a field of a model of pydantic."""

    def __init__(self, required: bool) -> None:
        self.is_required = lambda: required


class Changes:
    model_fields: ClassVar[Any] = {"title": Field(required=False)}


class Whole:
    model_fields: ClassVar[Any] = {"title": Field(required=True)}


def asks_for_a_hook(draft: Any, request: Any) -> str:
    if draft.is_public:
        draft.is_public()
    return "a page"


def replaces_all(draft: Any, request: Any, changes: Whole) -> str:
    vars(draft)["all"] = changes.model_dump()  # type: ignore[attr-defined]
    return "a page"


def replaces_what_was_not_sent(draft: Any, request: Any, changes: Changes) -> str:
    for name, value in changes.model_dump().items():  # type: ignore[attr-defined]
        setattr(draft, name, value)
    return "a page"


def replaces_what_was_sent(draft: Any, request: Any, changes: Changes) -> Any:
    for name, value in changes.model_dump(exclude_unset=True).items():  # type: ignore[attr-defined]
        setattr(draft, name, value)
    return draft.model_dump()


@pytest.mark.parametrize(
    ("function", "kind", "method", "told"),
    [
        (takes_anything, Draft, "GET", ""),
        (
            sends_a_mail,
            Draft,
            "POST",
            "server.send_message('a message') sends it before the changes are stored",
        ),
        (sends_a_mail_afterwards, Draft, "POST", ""),
        (asks_a_method, Draft, "GET", "asks a method, which is always true"),
        (shows_by_a_method, Draft, "GET", "'a page' if draft.is_public else 'a draft' asks a method"),
        (calls_what_it_asks, Draft, "GET", ""),
        (asks_a_method, dict, "GET", ""),
        (replaces_what_was_not_sent, Draft, "PATCH", "changes.model_dump() has the defaults of the fields"),
        (replaces_what_was_not_sent, Draft, "PUT", ""),
        (replaces_what_was_sent, Draft, "PATCH", ""),
        (replaces_all, Draft, "PATCH", ""),
        (asks_for_a_hook, Draft, "GET", ""),
        (gives_an_object_to_a_thread, Draft, "POST", ""),
    ],
)
def test_slips_by_what_is_known_of_the_call(function: Any, kind: type, method: str, told: str) -> None:
    found = slips_of(function, kind, method, "committed")
    assert len(found) == bool(told) and all(told in one for one in found), found


def test_a_mail_of_a_request_that_stores_nothing() -> None:
    """Such as that of a contact form: it is not sent again."""
    assert len(slips_of(sends_a_mail, Draft, "POST", "committed")) == 1
    assert slips_of(sends_a_mail, Draft, "POST", "") == ()


SELECT = (
    '<form method="post"><select name="{}"><option value="letter">L</option><option{}>memo</option></select></form>'
)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (SELECT.format("kind", ""), "the <select> of 'kind' does not select 'memo', which the object has"),
        (SELECT.format("kind", " selected"), ""),
        (SELECT.format("sort", ""), ""),
    ],
)
def test_a_form_beside_the_view_that_stores_it(
    page: str, told: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(draft: Any, request: Any) -> str:
        return page

    def save(draft: Any, request: Any, kind: str, sort: str = "") -> str:
        return "a page"

    scanned = ModuleType("scanned")
    scanned.show = view(context=Draft)(show)  # type: ignore[attr-defined]
    scanned.save = view(context=Draft, methods=("POST",))(save)  # type: ignore[attr-defined]
    show.__module__ = save.__module__ = "scanned"
    monkeypatch.setitem(sys.modules, "scanned", scanned)
    site = Pipeline(errors(debug=True), forms(), traverse(root=Draft), publisher(scan=("scanned",)))
    assert asking.ask(site, "/").status == 200
    found = [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"]
    assert len(found) == bool(told) and all(told in one for one in found), found


def test_what_other_packages_keep_is_not_looked_at() -> None:
    """A module may name ``sys.modules``, which grows with each import."""
    views = Views()
    views.scan(__name__, "pipeline.auth.login")
    names = list(state_of(views))
    assert [name for name in names if name.endswith(".COUNTS")]
    assert [name for name in names if name.startswith("pipeline.")] == []


@pytest.mark.parametrize("name", ["markup of the query", "JSON", "a file without enctype", "a form for a file"])
def test_a_page_is_looked_at_also_if_it_is_compressed(name: str, caplog: pytest.LogCaptureFixture) -> None:
    asked = {**TOLD, **{key: (*value, "") for key, value in QUIET.items()}}[name]
    found = notices(name, asked[1], caplog, compress(minimum=1))
    assert bool(found) is (name in TOLD) and asked[2] in "".join(found)


@pytest.mark.parametrize("differs", [False, True])
def test_what_notices_cost(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, differs: bool
) -> None:
    """To look at a page of 6.5 kB that was seen before takes less than a twentieth of making it. One of which a
    part was not takes 3 to 5 % on an idle machine, and up to 7 % in some processes."""
    looked: list[float] = []
    made: list[float] = []

    def looks(request: Any, response: Any) -> None:
        tell_notices(request, response)
        [body] = response.blocks
        new = [body.replace(b"number, 40<", b"number, %d<" % (count if differs else 40)) for count in range(300)]

        def look() -> None:
            response.blocks = [new.pop()]
            tell_notices(request, response)

        for _ in range(30):  # by turns, so that another process slows down both
            looked.extend(repeat(look, number=1, repeat=10))
            made.extend(repeat(lambda: LIST.render(notes=NOTES), number=1, repeat=10))

    monkeypatch.setattr("pipeline.elements.errors.tell_notices", looks)
    assert notices("a list", "GET /", caplog) == []
    assert len(LIST.render(notes=NOTES)) > 6_500
    assert min(looked) < min(made) / (10 if differs else 20)


PIECES = [*("<p>", "</p>", "word ", "None", " at 0x7f", "/", '<a href="', '">', '<input value="', "&lt;", "<form>")]
PIECES += ["</form>", '<input name="a">', '<input id="b">', '<input type="file" name="c">', "<script>", "</a>"]
PIECES += ["0.1", "00000000", "4", "&amp;", "#39;", "function f"]


def test_a_part_of_a_page_is_looked_at_as_the_whole() -> None:
    """A page that is as one of which nothing is told has nothing that is told."""
    chance, alike = Random(43), 0
    for _ in range(20_000):
        pieces = chance.choices(PIECES, k=chance.randrange(1, 14))
        before = "".join(pieces)
        place = chance.randrange(len(pieces))
        pieces[place : place + chance.randrange(3)] = chance.choices(PIECES, k=chance.randrange(3))
        page = "".join(pieces)
        if not of_text(before) and is_as_before(page, before):
            alike += page != before
            assert of_text(page) == [], (before, page)
    assert alike > 500


def test_views_that_only_a_mounted_application_has(caplog: pytest.LogCaptureFixture) -> None:
    mounted = URLMap()
    mounted["/in"] = Pipeline(forms(), traverse(root=dict), publisher(scan=(__name__,)))
    path = f"/in/{PATHS['a whole address is returned']}"
    assert asking.ask(Pipeline(errors(debug=True), mounted), path, "POST").status == 200
    assert "the page is an address" in caplog.text
    assert "could not be found out" not in caplog.text


def test_a_model_that_is_made_of_the_whole_form(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pydantic = pytest.importorskip("pydantic")
    note = pydantic.create_model("Note", notes=(str, ...))

    def save(context: Any, request: Any, note: Any) -> str:
        return str(note.notes)

    save.__annotations__["note"] = note
    scanned = ModuleType("scanned")
    scanned.save = view(methods=("POST",))(save)  # type: ignore[attr-defined]
    save.__module__ = "scanned"
    monkeypatch.setitem(sys.modules, "scanned", scanned)
    scan = ("scanned", "pipeline.publishing.pydantic")
    site = Pipeline(errors(debug=True), forms(), traverse(root=dict), publisher(scan=scan))
    assert asking.ask(site, "/", "POST", b"notes=a", CONTENT_TYPE=FORM_TYPE).text == "a"
    assert [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"] == []


@element
def mute(next: Any) -> Any:
    """Passes on no request."""
    return lambda request, response: None


@element
def brief(next: Any) -> Any:
    """Answers in the place of the others."""
    return lambda request, response: response.plain("200 OK", "ok")


@pytest.mark.parametrize(("part", "told"), [(mute, ["has neither called next"]), (brief, [])])
def test_an_empty_page_of_no_view_is_told(part: Any, told: list[str], caplog: pytest.LogCaptureFixture) -> None:
    site = Pipeline(errors(debug=True), forms(), traverse(root=dict), part(), publisher(scan=(__name__,)))
    assert asking.ask(site, "/").status == 200
    found = [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"]
    assert len(found) == len(told) and all(words in notice for words, notice in zip(told, found, strict=True))
