"""The request: WebOb's, with the state of the pipeline on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from webob.exc import HTTPBadRequest
from webob.request import BaseRequest
from zope.interface import alsoProvides
from zope.interface.verify import verifyObject

from pipeline import Pipeline, Request, Response, element
from pipeline.composition import Offers
from pipeline.interfaces import IRequest
from pipeline.request import OF_ALL_ATTEMPTS, OF_AN_ATTEMPT
from small_sites import made_by_the_edge


def nothing(environ: Any, start_response: Any) -> Any:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return []


def fresh(environ: dict[str, Any]) -> Request:
    return made_by_the_edge(environ)[0]


FORM = b"a=1&b=%C3%A9&a=2"
MULTIPART = (
    b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
    b'--x\r\nContent-Disposition: form-data; name="f"; filename="n.txt"\r\n'
    b"Content-Type: text/plain\r\n\r\nfile\r\n--x--\r\n"
)

READ: list[Callable[[Any], Any]] = [
    lambda r: r.method,
    lambda r: r.url,
    lambda r: (r.path, r.path_qs, r.path_info, r.script_name, r.query_string),
    lambda r: (r.host, r.host_url, r.host_port, r.domain, r.application_url, r.path_url),
    lambda r: r.GET.getall("q"),
    lambda r: dict(r.params.items()),
    lambda r: dict(r.headers.items()),
    lambda r: dict(r.cookies.items()),
    lambda r: r.body,
    lambda r: r.text,
    lambda r: r.POST.getall("a"),
    lambda r: r.content_type,
    lambda r: r.content_length,
    lambda r: r.accept.acceptable_offers(["text/html", "application/json"]),
    lambda r: r.accept_language.lookup(["de", "en"], default="fr"),
    lambda r: (str(r.if_none_match), r.if_modified_since, str(r.range)),
    lambda r: r.user_agent,
    lambda r: r.referer,
    lambda r: r.remote_addr,
    lambda r: r.is_xhr,
    lambda r: r.relative_url("x"),
    lambda r: r.scheme,
    lambda r: r.http_version,
    lambda r: r.as_bytes(),
    lambda r: r.copy().body,
    lambda r: r.copy_get().method,
    lambda r: (r.path_info_peek(), r.path_info_pop(), r.path_info, r.script_name),
    lambda r: r.body_file.read(3),
]


@pytest.mark.filterwarnings("ignore:'cgi' is deprecated")
@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("make", [Request, fresh])
def test_a_request_is_webobs(read: Callable[[Any], Any], make: Any, environ: Any) -> None:
    def asked() -> dict[str, Any]:
        found: dict[str, Any] = environ(
            "/a/b%20c?q=1&q=%C3%A9",
            "POST",
            FORM,
            SCRIPT_NAME="/app",
            CONTENT_TYPE="application/x-www-form-urlencoded",
            HTTP_HOST="example.org:8080",
            HTTP_COOKIE="a=1; b=2; =nameless",
            HTTP_ACCEPT="application/json",
            HTTP_ACCEPT_LANGUAGE="en",
            HTTP_USER_AGENT="tests",
            HTTP_REFERER="http://example.org/",
            HTTP_IF_NONE_MATCH='"tag"',
            HTTP_RANGE="bytes=0-1",
            REMOTE_ADDR="127.0.0.1",
        )
        return found

    assert read(make(asked())) == read(BaseRequest(asked()))


@pytest.mark.filterwarnings("ignore:'cgi' is deprecated")
@pytest.mark.parametrize("read", ["GET", "params"])
def test_fields_that_are_no_utf_8_are_a_400(read: str, environ: Any) -> None:
    """A view that reads them need not know; WebOb raises what would be a 500."""
    form = {"CONTENT_TYPE": "application/x-www-form-urlencoded"}
    request = fresh(environ("/?a=%FF", "POST", b"a=%FF", **form))
    with pytest.raises(HTTPBadRequest, match=r"is not (UTF|utf)-8"):
        list(getattr(request, read).items())


def test_the_query_of_webob_is_read_as_the_form_is(environ: Any) -> None:
    """S19: ";" separates nothing, and a field without a name is ignored."""
    request = fresh(environ("/?a=1;b=2&a=%C3%A9+x&=no&c&%zz=%"))
    assert list(request.GET.items()) == [("a", "1;b=2"), ("a", "é x"), ("c", ""), ("%zz", "%")]
    assert request.GET is request.GET
    request.GET["d"] = "4"
    assert request.query_string.endswith("&d=4") and request.GET["d"] == "4"
    request.query_string = "e=5"
    assert dict(request.GET) == {"e": "5"}
    assert dict(fresh(environ("/")).GET) == {}


def test_what_is_set_through_webob_is_in_the_environ(environ: Any) -> None:
    given = environ()
    request = fresh(given)
    request.method = "PUT"
    request.body = b"abc"
    request.path_info = "/x"
    request.headers["X-A"] = "1"
    request.cookies["c"] = "d"
    assert given["REQUEST_METHOD"] == "PUT" and given["CONTENT_LENGTH"] == "3" and given["PATH_INFO"] == "/x"
    assert given["HTTP_X_A"] == "1" and given["HTTP_COOKIE"] == "c=d"


def test_a_blank_request() -> None:
    request = Request.blank(
        "/x?y=1", method="PUT", POST=b"abc", headers={"X-A": "1"}, base_url="http://h/app"
    )
    theirs = BaseRequest.blank(
        "/x?y=1", method="PUT", POST=b"abc", headers={"X-A": "1"}, base_url="http://h/app"
    )
    assert isinstance(request, Request) and request.as_bytes() == theirs.as_bytes()
    assert request.url == "http://h/app/x?y=1"
    assert Request.blank("/", principal="ada").principal == "ada"
    with pytest.raises(TypeError):
        Request.blank("/", nonsense=1)


def test_a_blank_request_gets_its_answer_from_a_pipeline() -> None:
    assert Request.blank("/").get_response(Pipeline(nothing)).status_int == 200


@pytest.mark.parametrize("make", [Request, fresh])
def test_a_request_provides_what_it_says(make: Any, environ: Any) -> None:
    request = make(environ())
    request.root = "root"
    assert verifyObject(IRequest, request)

    class IPrinting(IRequest):
        """A request type."""

    alsoProvides(request, IPrinting)
    assert IPrinting.providedBy(request) and not IPrinting.providedBy(make(environ()))


@pytest.mark.parametrize("make", [Request, fresh])
def test_what_a_new_request_says(make: Any, environ: Any) -> None:
    request = make(environ())
    assert request.context is None and request.principal is None and request.virtual_root is None
    assert request.view_name == "" and request.subpath == () and request.traversal_hooks == ()
    assert request.bytes_sent == 0 and request.attempts_left == 0


@pytest.mark.parametrize("name", ["root", "tm"])
def test_what_costs_something_is_made_once_on_first_use(name: str, environ: Any) -> None:
    request = fresh(environ())
    with pytest.raises(AttributeError, match=f"no element of this pipeline provides request.{name}"):
        getattr(request, name)
    assert not hasattr(request, name)
    made: list[Request] = []
    read: list[object] = []

    @element
    def opening(next: Any) -> Any:
        return Offers(next, **{name: lambda request: made.append(request) or "made"})

    @element
    def end() -> Any:
        def end(request: Request, response: Response) -> None:
            assert made == []
            read.extend((getattr(request, name), getattr(request, name), request.tm_in_use))

        return end

    Pipeline(opening, end)(environ(), lambda *started: None)
    assert read == ["made", "made", "made" if name == "tm" else None]
    assert len(made) == 1


def test_the_edge_makes_what_the_classes_make(environ: Any) -> None:
    request, response = made_by_the_edge(environ())
    plain = Request(environ())
    of_the_pipeline = {"environ", "pipeline"}
    for name in set(Request.__slots__) - of_the_pipeline:
        assert getattr(request, name) == getattr(plain, name), name
    assert vars(request) == vars(plain) == {}
    assert response.snapshot() == Response().snapshot()
    assert (response.delivery_filters, response.filters_applied) == ((), False)
    assert response.headerlist == Response().headerlist


def test_requests_share_nothing(environ: Any) -> None:
    first, second = fresh(environ()), fresh(environ())
    first.on_close(lambda: None)
    first.add_traversal_hook(lambda request, obj: None)
    assert second.closers is None and second.traversal_hooks == ()


def test_what_others_need_is_closed_after_them(environ: Any) -> None:
    """``last`` is for a connection: it may be opened late, and is closed after those that may read."""
    request = fresh(environ())
    trail: list[str] = []
    request.on_close(lambda: trail.append("log"))
    request.on_close(lambda: trail.append("view"))
    request.on_close(lambda: trail.append("connection"), last=True)
    request.on_close(lambda: trail.append("stream"))
    request.close()
    assert trail[0] == "stream" and trail.index("connection") > trail.index("view")
    request.close()
    assert sorted(trail) == ["connection", "log", "stream", "view"], "each one once"


def test_closing_down_to_a_mark_leaves_what_was_there_before(environ: Any) -> None:
    request = fresh(environ())
    trail: list[int] = []
    for number in range(4):
        request.on_close(lambda number=number: trail.append(number))
    request.close(2)
    assert trail == [3, 2]
    request.close()
    assert trail == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("/a b", "/a%20b"),
        ("/a\r\nX: y", "/a%0D%0AX:%20y"),
        ("/\xc3\xa9\xff", "/%C3%A9%FF"),
        ("/\0", "/%00"),
        ('/"<>', "/%22%3C%3E"),
        ("/%", "/%25"),
        ("", ""),
        ("/\u20ac", "/%3F"),  # PEP 3333 forbids it, and some server sends it
    ],
)
def test_the_path_is_safe_in_a_log(path: str, safe: str, environ: Any) -> None:
    assert fresh(environ(PATH_INFO=path)).path_info_safe == safe


# absolute_url


class Place:
    def __init__(self, parent: Any = None, name: str = "") -> None:
        self.__parent__ = parent
        self.__name__ = name


ROOT = Place()
FOLDER = Place(ROOT, "a b")
LEAF = Place(FOLDER, "é?#%")


@pytest.mark.parametrize(
    ("obj", "names", "url"),
    [
        (ROOT, (), "http://127.0.0.1/"),
        (FOLDER, (), "http://127.0.0.1/a%20b"),
        (LEAF, (), "http://127.0.0.1/a%20b/%C3%A9%3F%23%25"),
        (ROOT, ("@@view",), "http://127.0.0.1/@@view"),
        (LEAF, ("edit", "x y"), "http://127.0.0.1/a%20b/%C3%A9%3F%23%25/edit/x%20y"),
        (object(), ("x",), "http://127.0.0.1/x"),
        (FOLDER, ("",), "http://127.0.0.1/a%20b/"),
        (FOLDER, ("x", ""), "http://127.0.0.1/a%20b/x/"),
        (ROOT, ("++resource++site", "a.css"), "http://127.0.0.1/++resource++site/a.css"),
    ],
)
def test_the_url_of_an_object(obj: Any, names: tuple[str, ...], url: str, environ: Any) -> None:
    assert fresh(environ()).absolute_url(obj, *names) == url


def test_the_url_below_a_prefix_and_a_virtual_root(environ: Any) -> None:
    request = fresh(environ(SCRIPT_NAME="/app", HTTP_HOST="example.org"))
    assert request.absolute_url(LEAF) == "http://example.org/app/a%20b/%C3%A9%3F%23%25"
    request.virtual_root = FOLDER
    assert request.absolute_url(LEAF) == "http://example.org/app/%C3%A9%3F%23%25"
    assert request.absolute_url(FOLDER) == "http://example.org/app/"


@pytest.mark.parametrize("names", [("..",), (".",), ("_x",), ("a/b",), ("a\0b",), ("", "x"), ("@@_x",)])
@pytest.mark.parametrize("before", [(), ("@@edit",)])
def test_a_segment_that_traversal_refuses_is_in_no_url(
    names: tuple[str, ...], before: tuple[str, ...], environ: Any
) -> None:
    """S3, S14: a browser would follow ``..`` to another object."""
    for names_ in (names, (*names, "x"), (*names, "")):
        with pytest.raises(ValueError, match="is not the name of a step"):
            fresh(environ()).absolute_url(FOLDER, *before, *names_)


@pytest.mark.parametrize("name", ["", "_private", "..", ".", "a/b", "@@x", "a\0b", "++item++x"])
def test_an_object_to_which_no_path_leads_has_no_url(name: str, environ: Any) -> None:
    with pytest.raises(ValueError, match="so it has no URL"):
        fresh(environ()).absolute_url(Place(ROOT, name))


def test_a_snapshot_has_every_field_of_an_attempt() -> None:
    """R2: what one attempt sets, another one does not find; but for the environ, closers, and what is counted."""
    request = Request({})
    fields = set(Request.__slots__) - {"environ", *OF_ALL_ATTEMPTS}
    assert fields == set(OF_AN_ATTEMPT)
    before = {name: getattr(request, name) for name in fields}
    snapshot = request.snapshot()
    for name in fields:
        setattr(request, name, name)
    request.subpath = ("set",)
    request.restore(snapshot)
    assert {name: getattr(request, name) for name in fields} == before and request.subpath == ()
