"""Static resources: what is served and for how long it may be kept, and what is never served."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asking
from asking import Answer
from pipeline import Pipeline, Response, element, view
from pipeline.composition import Offers
from pipeline.elements.compress import PACKERS, UNKNOWN, compress
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.http.encodings import vary
from pipeline.interfaces import ConfigurationError, ViewError
from pipeline.publisher import publisher
from pipeline.publishing import resources
from pipeline.publishing.resources import ENCODINGS, FOR_EVER, File, Resources

STYLE = "body { color: green } /* grün */" * 20
SCRIPT = "import './js/part.js';" * 20


@pytest.fixture(autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether small files are kept in memory."""
    is_kept: bool = getattr(request, "param", True)
    if not is_kept:
        monkeypatch.setattr(resources, "SMALL", 0)
    return is_kept


kept_and_opened = pytest.mark.parametrize("small", [True, False], ids=["kept", "opened"], indirect=True)
"""For what is said of the bytes of a file, wherever they come from."""


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A directory with files to be served, and beside it one that is not."""
    top = tmp_path / "static"
    for name, text in {
        "style.css": STYLE,
        "app.js": SCRIPT,
        "js/part.js": "1",
        "js/deep/er/x.js": "2",
        "größe 1.txt": "x",
        "page.html": "<p>",
        "packed.txt.gz": "whatever",
        "unknown.xyzzy": "?",
        ".env": "secret",
        ".git/config": "secret",
        "js/.hidden": "secret",
        "_private.css": "secret",
        "js/_x/y.js": "secret",
        "@@view.css": "secret",
        "++skin++x": "secret",
        "../outside.txt": "secret",
    }.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (top / "inner.css").symlink_to("style.css")
    (top / "outer.txt").symlink_to("../outside.txt")
    (top / "passwd").symlink_to("/etc/passwd")
    (top / "etc").symlink_to("/etc")
    (top / "up").symlink_to("..")
    (top / "nowhere").symlink_to("nothing")
    os.mkfifo(top / "pipe")
    return top


@pytest.fixture
def made(top: Path, module: Callable[..., str]) -> Resources:
    """The resources "site" of a module that can be scanned."""
    name = module()
    sys.modules[name].STATIC = static = Resources("site", name, top)  # type: ignore[attr-defined]
    return static


@pytest.fixture
def app(made: Resources) -> Pipeline:
    return Pipeline(errors(), traverse(root=dict), publisher(scan=(made.__module__,)))


def test_the_address_has_a_hash_of_the_contents(made: Resources, top: Path, module: Callable[..., str]) -> None:
    class Asked:
        application_url = "http://host/++skin++x"

    url = made.url(Asked(), "js/part.js")  # type: ignore[arg-type]
    assert url == f"http://host/++skin++x/++resource++site@{made.version}/js/part.js"
    assert "/gr%C3%B6%C3%9Fe%201.txt" in made.url(Asked(), "größe 1.txt")  # type: ignore[arg-type]
    assert len(made.version) == 16
    assert Resources("other", module(), top).version == made.version
    (top / "style.css").write_text("changed")
    assert Resources("site", module(), top).version != made.version


@pytest.mark.parametrize("path", ["nothing.css", ".env", "_private.css", "outer.txt", "js", "", "/style.css"])
def test_there_is_no_address_of_what_is_not_served(made: Resources, path: str) -> None:
    with pytest.raises(KeyError, match="site"):
        made.url(None, path)  # type: ignore[arg-type]


@kept_and_opened
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("style.css", "text/css; charset=UTF-8"),
        ("inner.css", "text/css; charset=UTF-8"),
        ("app.js", None),
        ("js/part.js", None),
        ("js/deep/er/x.js", None),
        ("js//part.js", None),
        ("./js/./part.js", None),
        ("gr%C3%B6%C3%9Fe%201.txt", "text/plain; charset=UTF-8"),
        ("page.html", "text/html; charset=UTF-8"),
        ("unknown.xyzzy", "application/octet-stream"),
        ("packed.txt.gz", "application/gzip"),
    ],
)
def test_allowed(app: Pipeline, made: Resources, path: str, kind: str | None) -> None:
    kept, asked = (asking.ask(app, f"/++resource++site{at}/{path}") for at in (f"@{made.version}", ""))
    assert (kept.status, asked.status) == (200, 200)
    assert kept.body == asked.body and b"secret" not in kept.body
    assert kept.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert asked.headers["Cache-Control"] == "public, no-cache"
    for answer in (kept, asked):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert kind is None or answer.headers["Content-Type"] == kind


@pytest.mark.parametrize("at", ["@VERSION", ""])
@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".git/config",
        "js/.hidden",
        "_private.css",  # S3
        "js/_x/y.js",
        "@@view.css",
        "++skin++x",
        "outer.txt",
        "passwd",
        "etc/passwd",
        "up/outside.txt",
        "up/static/style.css",
        "nowhere",
        "pipe",
        "nothing.css",
        "js/",
        "js",
        "js/deep",
        "",
        "style.css/",
        "style.css//",
        "style.css/.",
        "style.css/./",
        "js/part.js/",
        "style.css/x",
        "STYLE.css",
        "js%2Fpart.css",
        "..%5Coutside.txt",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
    ],
)
def test_refused(app: Pipeline, made: Resources, at: str, path: str) -> None:
    answer = asking.ask(app, f"/++resource++site{at.replace('VERSION', made.version)}/{path}")
    assert answer.status == 404
    assert b"secret" not in answer.body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/++resource++site/../outside.txt", 400),  # S14
        ("/++resource++site/js/../../outside.txt", 400),
        ("/++resource++site/%2e%2e/outside.txt", 400),
        ("/++resource++site/style.css%00.txt", 400),
        ("/++resource++site/%ff", 400),
        ("/++resource++/style.css", 404),
        ("/++resource++other/style.css", 404),
        ("/++resource++@/style.css", 404),
        ("/++resource++Site/style.css", 404),
        ("/++resource++site/++resource++site/style.css", 400),  # S16
        ("/++resource++site", 404),
        ("/++resource++site/style.css/@@edit", 404),
        ("/++resource++site/style.css/@@", 200),
    ],
)
def test_other_addresses(app: Pipeline, path: str, status: int) -> None:
    assert asking.ask(app, path).status == status


_segments = st.sampled_from([
    *("..", ".", "", "%2e%2e", "%2F", "%5c", "~", "*", "etc", "passwd", "up", "static", "outside.txt", "outer.txt"),
    *("js", "part.js", "deep", "style.css", ".env", ".git", "config", "_x", "++skin++x", "@@", "%00", "%ff", "C:"),
])


@given(st.lists(_segments | st.text("ab./%_@+\\:", max_size=6), max_size=6), st.booleans())
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_leads_out(app: Pipeline, made: Resources, segments: list[str], current: bool) -> None:
    """S3, S14"""
    at = f"@{made.version}" if current else ""
    answer = asking.ask(app, f"/++resource++site{at}/{'/'.join(segments)}", valid=False)
    assert answer.status in (200, 302, 400, 404)
    assert b"secret" not in answer.body and b"root:" not in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_file_is_only_read(app: Pipeline, method: str) -> None:
    answer = asking.ask(app, "/++resource++site/style.css", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize("at", ["", "@", "@x", "@0123456789abcdef"])
def test_another_version_is_answered_with_this_one_for_now(app: Pipeline, at: str) -> None:
    answer = asking.ask(app, f"/++resource++site{at}/style.css")
    assert (answer.status, answer.text) == (200, STYLE)
    assert answer.headers["Cache-Control"] == "public, no-cache"


@kept_and_opened
def test_the_rest_is_that_of_files(app: Pipeline, made: Resources) -> None:
    address = f"/++resource++site@{made.version}/style.css"
    whole = asking.ask(app, address)
    assert whole.headers["Content-Length"] == str(len(STYLE.encode()))
    assert whole.headers["Content-Disposition"] == 'inline; filename="style.css"'
    part = asking.ask(app, address, HTTP_RANGE="bytes=0-3")
    assert (part.status, part.body) == (206, b"body")
    same = asking.ask(app, address, HTTP_IF_NONE_MATCH=whole.headers["ETag"])
    assert same.status == 304
    assert same.headers["Cache-Control"] == whole.headers["Cache-Control"]
    assert asking.ask(app, address, HTTP_IF_MODIFIED_SINCE=whole.headers["Last-Modified"]).status == 304
    assert asking.ask(app, address, "HEAD").headers["Content-Length"] == whole.headers["Content-Length"]


def test_a_small_file_is_not_opened(app: Pipeline, made: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"/++resource++site@{made.version}/style.css"
    monkeypatch.setattr(File, "open", None)
    whole = asking.ask(app, address)
    assert whole.body == STYLE.encode()
    same = asking.ask(app, address, HTTP_IF_NONE_MATCH=whole.headers["ETag"])
    assert same.status == 304
    for name in ("ETag", "Cache-Control", "Last-Modified"):
        assert same.headers[name] == whole.headers[name]


@kept_and_opened
def test_a_directory_keeps_no_more_than_its_limit(top: Path, module: Callable[..., str], small: bool) -> None:
    (top / "large").write_bytes(b"x" * (16 * 1024 + 1))
    for number in range(300):
        (top / f"{number}.css").write_bytes(b"x" * 16 * 1024)
    kept = [file.content for file in Resources("site", module(), top).files.values() if file.content is not None]
    assert all(kept) and sum(map(len, kept)) <= 4 * 1024 * 1024
    assert len(kept) > 250 if small else not kept


def test_headers_of_a_request_are_not_kept(made: Resources) -> None:
    """They may be secret, such as the nonce of a policy."""

    @element
    def outer(next: Any) -> Any:
        def outer(request: Any, response: Response) -> None:
            response.headers["X-Of-This-Request"] = request.environ["HTTP_X_SENT"]
            next(request, response)

        return outer

    app = Pipeline(outer(), errors(), traverse(root=dict), publisher(scan=(made.__module__,)))
    for sent in ("one", "two"):
        answer = asking.ask(app, "/++resource++site/style.css", HTTP_X_SENT=sent)
        assert answer.headers["X-Of-This-Request"] == sent
    assert made.described == {}


# What changes after the load.


def ask(app: Pipeline, made: Resources, path: str) -> Answer:
    return asking.ask(app, f"/++resource++site@{made.version}/{path}")


@kept_and_opened
def test_a_file_that_has_changed_is_not_kept(app: Pipeline, made: Resources, top: Path) -> None:
    before = ask(app, made, "style.css")
    (top / "style.css").write_text("changed")
    for path in ("style.css", "inner.css"):
        answer = ask(app, made, path)
        assert (answer.text, answer.headers["Cache-Control"]) == ("changed", "public, no-cache")
        assert answer.headers["ETag"] != before.headers["ETag"]
    assert "immutable" in ask(app, made, "app.js").headers["Cache-Control"]


@kept_and_opened
def test_a_file_that_is_gone_is_not_there(app: Pipeline, made: Resources, top: Path) -> None:
    (top / "style.css").unlink()
    assert ask(app, made, "style.css").status == 404
    (top / "style.css").mkdir()
    assert ask(app, made, "style.css").status == 404


@kept_and_opened
def test_a_file_that_has_become_a_link_leads_nowhere(app: Pipeline, made: Resources, top: Path) -> None:
    (top / "style.css").unlink()
    (top / "style.css").symlink_to("../outside.txt")
    assert ask(app, made, "style.css").status == 404
    (top / "js").rename(top / "old")
    (top.parent / "js").mkdir()
    (top.parent / "js" / "part.js").write_text("secret")
    (top / "js").symlink_to("../js")
    assert ask(app, made, "js/part.js").status == 404


@kept_and_opened
@pytest.mark.timeout(20)
def test_a_file_that_has_become_a_pipe_stops_nobody(app: Pipeline, made: Resources, top: Path) -> None:
    (top / "style.css").unlink()
    os.mkfifo(top / "style.css")
    assert ask(app, made, "style.css").status == 404


def test_a_new_file_comes_with_the_next_load(
    app: Pipeline, made: Resources, top: Path, module: Callable[..., str]
) -> None:
    (top / "new.css").write_text("new")
    assert ask(app, made, "new.css").status == 404
    assert "new.css" in Resources("site", module(), top).files


# Compressed copies.


def packed(encoding: str, text: str = STYLE) -> bytes:
    """Return the bytes of a copy."""
    packer = PACKERS[encoding](9)(UNKNOWN)  # type: ignore[misc]
    return packer.compress(text.encode()) + packer.finish()


@pytest.fixture
def copied(top: Path, module: Callable[..., str]) -> Resources:
    """Resources with copies of style.css in all encodings, and of app.js by gzip alone."""
    for ending, encoding in ENCODINGS.items():
        (top / f"style.css{ending}").write_bytes(packed(encoding))
    (top / "app.js.gz").write_bytes(packed("gzip", SCRIPT))
    name = module()
    sys.modules[name].STATIC = static = Resources("site", name, top)  # type: ignore[attr-defined]
    return static


@pytest.fixture
def copying(copied: Resources) -> Pipeline:
    return Pipeline(errors(), traverse(root=dict), compress(minimum=0), publisher(scan=(copied.__module__,)))


@kept_and_opened
@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),  # the smallest
        ("gzip, zstd", "zstd"),
        ("gzip;q=1, br;q=0.5", "gzip"),
        ("gzip", "gzip"),
        ("*", "br"),
        ("", ""),
        ("identity", ""),
        ("br;q=0", ""),
        ("gzip," * 1_000, ""),  # S12
    ],
)
def test_the_copy_that_the_client_accepts(copying: Pipeline, copied: Resources, accept: str, encoding: str) -> None:
    """Behind ``compress``, which leaves it alone."""
    address = f"/++resource++site@{copied.version}/style.css"
    answer = asking.ask(copying, address, HTTP_ACCEPT_ENCODING=accept)
    assert answer.headers.get("Content-Encoding", "") == encoding
    assert answer.body == (packed(encoding) if encoding else STYLE.encode())
    assert answer.headers["Content-Length"] == str(len(answer.body))
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["Content-Type"] == "text/css; charset=UTF-8"
    assert answer.headers["Content-Disposition"] == 'inline; filename="style.css"'
    assert answer.headers["Cache-Control"] == FOR_EVER
    same = asking.ask(copying, address, HTTP_ACCEPT_ENCODING=accept, HTTP_IF_NONE_MATCH=answer.headers["ETag"])
    assert (same.status, same.headers["Vary"]) == (304, "Accept-Encoding")
    part = asking.ask(copying, address, HTTP_ACCEPT_ENCODING=accept, HTTP_RANGE="bytes=0-1")
    assert (part.status, part.body) == (206, answer.body[:2])


@kept_and_opened
def test_each_copy_has_an_etag_of_its_own(copying: Pipeline) -> None:
    """RFC 9110, section 8.8.3.3: a strong ETag is that of the very bytes."""
    etags = {
        asking.ask(copying, "/++resource++site/style.css", HTTP_ACCEPT_ENCODING=accept).headers["ETag"]
        for accept in ("", "br", "gzip", "zstd")
    }
    assert len(etags) == 4 and not any(etag.startswith("W/") for etag in etags)


def test_a_file_without_copies_does_not_depend_on_the_client(copied: Resources) -> None:
    app = Pipeline(errors(), traverse(root=dict), publisher(scan=(copied.__module__,)))
    assert "Vary" not in asking.ask(app, "/++resource++site/page.html", HTTP_ACCEPT_ENCODING="gzip").headers
    answer = asking.ask(app, "/++resource++site/app.js", HTTP_ACCEPT_ENCODING="br, gzip")
    assert (answer.body, answer.headers["Content-Encoding"]) == (packed("gzip", SCRIPT), "gzip")


@kept_and_opened
@pytest.mark.parametrize("name", ["style.css", "style.css.br"])
def test_a_copy_is_not_served_once_it_or_its_file_has_changed(copying: Pipeline, top: Path, name: str) -> None:
    (top / name).write_text("changed since")
    answer = asking.ask(copying, "/++resource++site/style.css", HTTP_ACCEPT_ENCODING="br;q=1, *;q=0")
    assert answer.body != b"changed since" or name == "style.css"
    assert asking.ask(copying, "/++resource++site/style.css").text == (top / "style.css").read_text()


@kept_and_opened
def test_a_copy_that_is_gone_is_not_missed(copying: Pipeline, top: Path) -> None:
    (top / "app.js.gz").unlink()
    assert asking.ask(copying, "/++resource++site/app.js").text == (top / "app.js").read_text()


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("of", ["an older file", "nothing", "a part"])
def test_a_copy_that_is_not_that_of_its_file_is_left_out(
    copied: Resources,
    top: Path,
    module: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
    encoding: str,
    of: str,
) -> None:
    """Whatever their times say: a checkout gives all files that of its own."""
    ending = next(ending for ending, name in ENCODINGS.items() if name == encoding)
    copy = top / f"style.css{ending}"
    whole = copy.read_bytes()
    copy.write_bytes({"an older file": packed(encoding, "old"), "nothing": b"x", "a part": whole[:-9]}[of])
    for time in (1, 2**31):
        os.utime(copy, (time, time))
        assert list(Resources("site", module(), top).copies["style.css"]) == [
            other for other in copied.copies["style.css"] if other != encoding
        ]
    assert f"{copy} is not served, since it is not that of {top}/style.css: compress it again" in caplog.text
    copy.write_bytes(whole)
    os.utime(copy, (1, 1))
    assert encoding in Resources("site", module(), top).copies["style.css"]


def test_a_copy_that_cannot_be_unpacked_here_is_left_out(
    copied: Resources, module: Callable[..., str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The extra is optional, so nobody is warned."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setitem(sys.modules, "brotli", None)
    assert "br" not in Resources("site", module(), Path(copied.top)).copies["style.css"]
    assert "style.css.br is not served, since it cannot be compared with its file: import of brotli" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


def test_a_copy_that_is_larger_than_its_file_is_left_out(top: Path, module: Callable[..., str]) -> None:
    (top / "style.css.gz").write_bytes(b"x" * 1000)
    assert Resources("site", module(), top).copies == {}


# Registration.


def test_a_view_asks_for_an_address(made: Resources, module: Callable[..., str]) -> None:
    @view(context=dict)
    def index(context: Any, request: Any) -> str:
        return made.url(request, "style.css")

    app = Pipeline(errors(), traverse(root=dict), publisher(scan=(made.__module__, module(index))))
    url = asking.ask(app, "/", SCRIPT_NAME="/site").text
    assert url.startswith("http://127.0.0.1/site/++resource++site@")
    answer = asking.ask(app, urlsplit(url).path.removeprefix("/site"), SCRIPT_NAME="/site")
    assert (answer.text, "immutable" in answer.headers["Cache-Control"]) == (STYLE, True)


def test_the_directory_may_be_beside_the_module(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = ModuleType("beside")
    beside.__file__ = str(top.parent / "beside.py")
    monkeypatch.setitem(sys.modules, "beside", beside)
    assert "style.css" in Resources("site", "beside", "static").files


@pytest.mark.parametrize("name", ["", "a/b", "a@b", "_a", ".a", "a b", "ä", "++a"])
def test_a_name_that_no_path_leads_to_is_refused(top: Path, module: Callable[..., str], name: str) -> None:
    with pytest.raises(ConfigurationError, match="a name consists of letters"):
        Resources(name, module(), top)


def test_what_is_no_directory_is_refused(top: Path, module: Callable[..., str]) -> None:
    for place in (top / "nothing", top / "style.css"):
        with pytest.raises(ConfigurationError, match="there is no directory"):
            Resources("site", module(), place)


def test_two_of_one_name_are_refused(made: Resources, top: Path, module: Callable[..., str]) -> None:
    name = module()
    sys.modules[name].OTHER = Resources("site", name, top)  # type: ignore[attr-defined]
    with pytest.raises(ViewError, match="site"):
        Pipeline(traverse(root=dict), publisher(scan=(made.__module__, name)))


def test_a_file_that_cannot_be_opened_for_want_of_descriptors_is_not_missing(tmp_path: Path) -> None:
    """S15: EMFILE is a 503, and not a 404 that caches keep."""
    resource = pytest.importorskip("resource")
    (tmp_path / "a.css").write_text("a {}")
    found = File(str(tmp_path / "a.css"), "", ())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = os.open(os.devnull, os.O_RDONLY)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
        with pytest.raises(OSError, match="Too many open files"):
            found.open(str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(used)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/++resource++site/style.css", 200),
        ("/++resource++site@{version}/js/part.js", 200),
        ("//./++resource++site/style.css", 200),
        ("/++resource++site/nothing.css", 404),
        ("/++resource++site/js/", 404),
        ("/++resource++site/style.css/", 404),
        ("/++resource++other/style.css", 404),
        ("/++resource++/style.css", 404),
        ("/++skin++x/++resource++site/style.css", 500),
        ("/++view++style.css", 500),
        ("/@@style.css", 500),
        ("/++nothing++x", 500),
        ("/", 500),
    ],
)
def test_a_file_needs_no_root(made: Resources, path: str, status: int) -> None:
    """So a page that says that the database is down has its style sheet."""

    @element(provides=("root",))
    def database(next: Any) -> Offers:
        return Offers(next, root=unread)

    def unread(request: Any) -> Any:
        raise RuntimeError("the root was read")

    app = Pipeline(errors(), database(), traverse(), publisher(scan=(made.__module__,)))
    assert asking.ask(app, path.format(version=made.version)).status_code == status


@pytest.mark.parametrize("options", [{}, {"root": dict}], ids=["of a database", "of traverse itself"])
def test_hooks_see_the_steps_to_a_file_and_no_root(made: Resources, options: dict[str, Any]) -> None:
    seen = []

    def hook(request: Any, obj: Any) -> None:
        seen.append(type(obj).__name__)

    @element(provides=("root",))
    def database(next: Any) -> Offers:
        def add(request: Any, response: Any) -> None:
            request.add_traversal_hook(hook)
            next(request, response)

        return Offers(add, root=lambda request: {})

    app = Pipeline(errors(), database(), traverse(**options), publisher(scan=(made.__module__,)))
    assert asking.ask(app, "/++resource++site/js/part.js").status_code == 200
    assert seen == ["Folder", "Folder", "Resource"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], ["Accept-Encoding"]),
        (["Origin"], ["Origin, Accept-Encoding"]),
        (["Origin", "Cookie"], ["Origin, Cookie, Accept-Encoding"]),
        (["*"], ["*"]),
        (["accept-encoding"], ["accept-encoding"]),
    ],
)
def test_vary_keeps_the_names_that_it_had(before: list[str], after: list[str]) -> None:
    """Of two lines the last took the place of both, so that a cache gave an answer to other visitors."""
    response = Response()
    response.headerlist = [("vary", value) for value in before]
    vary(response.headerlist)
    assert response.headers.getall("Vary") == after
