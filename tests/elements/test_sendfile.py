"""``sendfile``: a file beneath a mapped directory is left to nginx, and everything else is sent as before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asking import Answer, ask
from pipeline import Pipeline, Request, Response, element
from pipeline.elements.base import base
from pipeline.elements.coalesce import coalesce
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.sendfile import PASSED_ON, sendfile
from pipeline.http.files import serve
from pipeline.interfaces import OptionError, OrderError

TEXT = b"All work and no play makes Jack a dull boy.\n" * 100
View = Callable[[Request, Response], object]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A directory with a file in it, and with one outside of it."""
    top = tmp_path / "files"
    (top / "a b").mkdir(parents=True)
    (top / "a b" / "100% caf\xe9.txt").write_bytes(TEXT)
    (tmp_path / "secret.txt").write_bytes(TEXT)
    return top


def file_of(top: Path) -> Path:
    return top / "a b" / "100% caf\xe9.txt"


def answered(top: Path, view: View, *between: Any, method: str = "GET", **headers: str) -> Answer:
    """What the server is given for a view, with `between` inside of ``sendfile``."""

    @element
    def end() -> Any:
        return view

    app = Pipeline(errors(), sendfile(locations={str(top): "/_files/"}), *between, end())
    return ask(app, method=method, **headers)


def test_nginx_is_told_where_the_file_is(top: Path) -> None:
    def view(request: Request, response: Response) -> None:
        response.set_cookie("a", "b")
        response.headers["Content-Security-Policy"] = "sandbox"
        serve(request, response, file_of(top), name="report.txt", etag="right")

    answer = answered(top, view)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["X-Accel-Redirect"] == "/_files/a%20b/100%25%20caf%C3%A9.txt"
    assert answer.headers["Content-Type"] == "text/plain"
    assert answer.headers["ETag"] == '"right"' and "Last-Modified" in answer.headers
    assert answer.headers["Content-Disposition"] == 'attachment; filename="report.txt"'
    assert answer.headers["Content-Security-Policy"] == "sandbox"
    assert answer.headers["Set-Cookie"].startswith("a=b")


@pytest.mark.parametrize("buffering", [0, -1])
def test_an_open_file_that_a_view_returns(top: Path, buffering: int) -> None:
    """Its path is known, and it is closed (R7)."""
    opened: list[Any] = []

    def view(request: Request, response: Response) -> None:
        opened.append(open(file_of(top), "rb", buffering=buffering))  # noqa: SIM115
        serve(request, response, opened[0])

    assert "X-Accel-Redirect" in answered(top, view).headers
    assert opened[0].closed


@pytest.mark.parametrize("header", ["Range", "If_Range"])
def test_ranges_are_for_nginx(top: Path, header: str) -> None:
    headers = {"HTTP_RANGE": "bytes=0-3"}
    if header == "If_Range":
        headers["HTTP_IF_RANGE"] = '"right"'
    answer = answered(
        top, lambda request, response: serve(request, response, file_of(top), etag="right"), **headers
    )
    assert answer.status == 200 and "X-Accel-Redirect" in answer.headers


def test_the_site_knows_what_the_client_has(top: Path) -> None:
    """The ETag is its own, and nginx has another one of the same file."""
    view: View = lambda request, response: serve(request, response, file_of(top), etag="right")  # noqa: E731
    for headers, status in (
        ({"HTTP_IF_NONE_MATCH": '"right"'}, 304),
        ({"HTTP_IF_MATCH": '"wrong"'}, 412),
        ({"HTTP_IF_MATCH": '"right"'}, 200),
        ({"HTTP_IF_UNMODIFIED_SINCE": "Sun, 06 Nov 1994 08:49:37 GMT"}, 412),
    ):
        answer = answered(top, view, **headers)
        assert answer.status == status and "X-Accel-Redirect" not in answer.headers, headers
        assert answer.body == (TEXT if status == 200 else answer.body)
    assert "X-Accel-Redirect" in answered(top, view, HTTP_IF_NONE_MATCH='"wrong"').headers


@element
def shouting(next: Any) -> Any:
    """Filter the body."""

    def shouting(request: Request, response: Response) -> None:
        response.add_filter(lambda chunks: (chunk.upper() for chunk in chunks))
        next(request, response)

    return shouting


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("outside.txt", {}),
        ("link.txt", {}),
        ("linked/secret.txt", {}),
        ("other name", {"header": ("X-Of-The-View", "1")}),
        ("packed", {"header": ("Content-Encoding", "gzip")}),
        ("twice", {"header": ("Content-Language", "en"), "again": ("Content-Language", "de")}),
        ("404", {"status": 404}),
        ("filtered", {"between": shouting()}),
        ("HEAD", {"method": "HEAD"}),
        ("POST", {"method": "POST"}),
    ],
)
def test_what_the_site_sends_itself(top: Path, name: str, arguments: dict[str, Any]) -> None:
    """S14: no symbolic link leads out of the directory."""
    path = file_of(top)
    if name.endswith(".txt"):
        (top / "link.txt").symlink_to(top.parent / "secret.txt")
        (top / "linked").symlink_to(top.parent)
        path = top.parent / "secret.txt" if name == "outside.txt" else top / name

    def view(request: Request, response: Response) -> None:
        serve(request, response, path)
        response.status = arguments.get("status", 200)
        response.headerlist += [arguments[key] for key in ("header", "again") if key in arguments]

    between = [arguments["between"]] if "between" in arguments else []
    answer = answered(top, view, *between, method=arguments.get("method", "GET"))
    assert "X-Accel-Redirect" not in answer.headers
    if answer.status == 200 and name != "HEAD":
        assert answer.body == (TEXT.upper() if between else TEXT)


def test_other_bodies_pass(top: Path) -> None:
    def stream(request: Request, response: Response) -> None:
        response.app_iter = iter([b"a", b"b"])

    def rest_of_a_file(request: Request, response: Response) -> None:
        file = open(file_of(top), "rb")  # noqa: SIM115
        file.read(4)
        serve(request, response, file)

    def page(request: Request, response: Response) -> None:
        response.text = "page"

    for view, body in ((stream, b"ab"), (rest_of_a_file, TEXT[4:]), (page, b"page")):
        answer = answered(top, view)
        assert answer.body == body and "X-Accel-Redirect" not in answer.headers


def test_a_file_that_was_replaced_or_deleted_after_it_was_opened(top: Path) -> None:
    path = file_of(top)

    def replaced(request: Request, response: Response) -> None:
        serve(request, response, path)
        os.replace(top.parent / "new", path)

    def deleted(request: Request, response: Response) -> None:
        serve(request, response, path)
        path.unlink()

    (top.parent / "new").write_bytes(b"new")
    for view, body in ((replaced, TEXT), (deleted, b"new")):
        answer = answered(top, view)
        assert answer.body == body and "X-Accel-Redirect" not in answer.headers


def test_filters_of_the_delivery_do_not_see_it(top: Path) -> None:
    """nginx sends the bytes of the file: an answer that says gzip would be wrong."""

    def view(request: Request, response: Response) -> None:
        serve(request, response, file_of(top))

    answer = answered(top, view, compress(), coalesce(), HTTP_ACCEPT_ENCODING="gzip")
    assert "X-Accel-Redirect" in answer.headers and "Content-Encoding" not in answer.headers
    assert answer.headers["ETag"][:2] != "W/"


def test_a_link_to_the_directory_itself_is_followed(top: Path, tmp_path: Path) -> None:
    """As nginx does: `disable_symlinks` begins beneath it."""
    (tmp_path / "current").symlink_to(top)
    view: View = lambda request, response: serve(request, response, file_of(tmp_path / "current"))  # noqa: E731
    assert "X-Accel-Redirect" in answered(tmp_path / "current", view).headers


def test_the_deepest_directory_counts(top: Path) -> None:
    @element
    def end() -> Any:
        def view(request: Request, response: Response) -> Iterator[bytes] | None:
            return serve(request, response, file_of(top))

        return view

    app = Pipeline(sendfile(locations={str(top): "/_top/", str(top / "a b"): "/_deep/"}), end())
    assert ask(app).headers["X-Accel-Redirect"].startswith("/_deep/100%25")


def test_without_locations_it_is_not_there() -> None:
    def next(request: Request, response: Response) -> None:
        """Answer."""

    assert sendfile.factory(next) is next and sendfile.factory(next, locations={}) is next


@pytest.mark.parametrize(
    ("directory", "location"),
    [
        ("files", "/_files/"),
        ("/srv/files", "_files/"),
        ("/srv/files", "/_files"),
        ("/srv/files", "/a b/"),
        ("/", "/"),
    ],
)
def test_locations_that_cannot_be(directory: str, location: str) -> None:
    with pytest.raises(OptionError, match=r"option 'locations': .* is not an absolute path and a location"):
        sendfile(locations={directory: location}).factory(lambda *_: None, locations={directory: location})


def test_its_place() -> None:
    for inner in (base(), compress()):
        with pytest.raises(OrderError, match=f"sendfile must be outside {inner.name}"):
            Pipeline(errors(), inner, sendfile(locations={}), coalesce())


def test_what_is_passed_on_is_spelt_as_it_is_sent() -> None:
    assert sorted(PASSED_ON[2:]) == list(PASSED_ON[2:]) and len(set(PASSED_ON)) == len(PASSED_ON)
