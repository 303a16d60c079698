"""The site as its visitors meet it: pages, forms, JSON, downloads, errors."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from webtest import TestApp, TestResponse, Upload

from pipeline_demo import tokens
from pipeline_demo.views import browse, files, search
from pipeline_demo.views.page import STATIC

pytestmark = pytest.mark.once

JSON = {"Accept": "application/json"}
HTML = {"Accept": "text/html"}
CLIENT = {**JSON, "X-Requested-With": "test"}


def fill(app: TestApp, address: str, **fields: str) -> Any:
    """The form on a page, filled in."""
    form = app.get(address).forms[1]  # the first is the search
    for name, value in fields.items():
        form[name] = value
    return form


def add(app: TestApp, address: str = "/", **fields: str) -> TestResponse:
    return fill(app, f"{address}@@add-document", **fields).submit().follow()


# Reading


def test_an_accept_header_of_two_megabytes_takes_no_time__S12(anybody: TestApp) -> None:
    anybody.get("/")
    for address in ("/", "/nowhere"):
        began = time.process_time()
        anybody.get(address, headers={"Accept": "text/html," * 200_000}, status="*")
        assert time.process_time() - began < 2


def test_the_home_page(anybody: TestApp) -> None:
    page = anybody.get("/")
    assert page.html.h1.text == "Welcome"
    assert [a.text for a in page.html.select(".items a")] == ["Counter"]
    assert not page.html.select(".actions")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["X-Content-Type-Options"] == "nosniff"


def test_every_page_is_whole(admin: TestApp) -> None:
    add(admin, title="A", text="*a*")
    fill(admin, "/@@add-folder", title="F").submit()
    upload(admin, "/", ("a.png", PNG))
    for address in [
        *("/", "/a", "/a/@@edit", "/a/@@rename", "/a/@@delete", "/f/", "/f/@@delete", "/@@add-document"),
        *("/@@add-folder", "/@@upload", "/a.png/@@info", "/a.png/@@rename", "/counter", "/@@search?q=a"),
    ]:
        page = admin.get(address)
        assert page.html.html["lang"] == "en", address
        assert len(page.html.select("h1")) == 1, address
        assert len(page.html.select("main#content")) == 1, address
        assert not page.html.select("script, [style]"), address
        for field in page.html.select("main input:not([type=hidden]), main textarea, main select"):
            assert page.html.select(f"label[for={field['id']}]"), (address, field)
        ids = [tag["id"] for tag in page.html.select("[id]")]
        assert len(ids) == len(set(ids)), address


def test_json(admin: TestApp) -> None:
    add(admin, title="A", text="*a*")
    home = admin.get("/", headers=JSON)
    assert home.content_type == "application/json"
    assert home.json["type"] == "folder"
    assert {"type": "document", "name": "a", "title": "A", "url": "http://localhost/a"} in home.json["items"]
    document = admin.get("/a", headers=JSON).json
    assert (document["text"], document["format"], document["revision"]) == ("*a*", "markdown", 1)
    assert admin.get("/counter", headers=JSON).json["value"] == 0
    found = admin.get("/@@search?q=A", headers=JSON).json["results"]
    assert found[0]["url"] == "http://localhost/a"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "application/json"),
        ("application/json, */*", "application/json"),
        ("application/json;q=0.5, text/html", "text/html"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html"),
        ("*/*", "text/html"),
        ("", "text/html"),
        ("nonsense", "text/html"),
        ("image/png", "text/html"),
    ],
)
def test_which_of_the_two(anybody: TestApp, accept: str, kind: str) -> None:
    assert anybody.get("/", headers={"Accept": accept}).content_type == kind


def test_a_large_folder_has_pages(admin: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "PAGE", 3)
    for number in range(7):
        admin.post("/@@add-document", {"title": f"doc {number}"}, headers=CLIENT)
    seen: list[str] = []
    address: str | None = "/"
    while address:
        page = admin.get(address, headers=JSON).json
        seen += [item["title"] for item in page["items"]]
        address = page["next"]
    assert seen == ["Counter", *(f"doc {number}" for number in range(7)), "Welcome"]
    assert admin.get("/?page=2").html.select("a[rel=next]")
    for bad in ["0", "-1", "x", "1" * 20, "\u0661"]:
        assert admin.get("/", {"page": bad}, status=400)


def test_styles_are_kept_by_their_content(anybody: TestApp) -> None:
    address = anybody.get("/").html.select_one("link[rel=stylesheet]")["href"]
    style = anybody.get(address)
    assert style.content_type == "text/css"
    assert "immutable" in style.headers["Cache-Control"]
    assert anybody.get(address, headers={"If-None-Match": f'"{style.etag}"'}).status_int == 304
    assert "/++resource++demo@" in address
    for version in ("", "@old"):
        now = anybody.get(f"/++resource++demo{version}/site.css")
        assert (now.text, now.headers["Cache-Control"]) == (style.text, "public, no-cache")
    icon = anybody.get(anybody.get("/").html.select_one("link[rel=icon]")["href"])
    assert icon.content_type == "image/svg+xml"


def test_the_compressed_copies_are_those_of_the_styles() -> None:
    """If not: ``PYTHONPATH=tests python tests/demo/packing.py``."""
    assert list(STATIC.copies["site.css"]) == ["br", "zstd", "gzip"]


# Logging in


@pytest.mark.parametrize("view", ["add-document", "add-folder", "upload", "login"])
def test_who_changes_something_logs_in(anybody: TestApp, view: str) -> None:
    assert anybody.get(f"/@@{view}", status=401).headers["WWW-Authenticate"].startswith("Basic ")
    if view != "login":
        anybody.post(f"/@@{view}", headers=CLIENT, status=401)
    anybody.authorization = ("Basic", ("admin", "wrong"))
    anybody.get(f"/@@{view}", status=401)


def test_logging_in_leads_back(admin: TestApp) -> None:
    assert admin.get("/@@login").location == "http://localhost/"
    assert admin.get("/@@login?came_from=http://localhost/counter").location == "http://localhost/counter"


@pytest.mark.parametrize("back", ["//evil.example", "http://evil.example/", "/\\evil.example", "\tjavascript:x"])
def test_logging_in_leads_nowhere_else(admin: TestApp, back: str) -> None:
    """S8"""
    assert admin.get("/@@login", {"came_from": back}).location == "http://localhost/"


# Creating


def test_creating_and_reading(admin: TestApp) -> None:
    page = add(admin, title="Ünïcode <b>", text="**bold** <script>alert(1)</script>")
    assert page.request.path == "/%C3%BCn%C3%AFcode-b"
    assert page.html.h1.text == "Ünïcode <b>"
    assert page.html.select("article strong")
    assert not page.html.select("script")


def test_the_name_is_made_of_the_title_and_free(admin: TestApp) -> None:
    assert add(admin, title="Same").request.path == "/same"
    assert add(admin, title="Same").request.path == "/same-2"
    assert add(admin, title="Other", name="own name.md").request.path == "/own%20name.md"


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"title": ""}, 422, "A title is needed."),
        ({"title": "x\x07"}, 422, "invisible character"),
        ({"title": "x" * 201}, 422, "200 characters"),
        ({"name": "_x"}, 422, "may not begin"),
        ({"name": "a/b"}, 422, "may not contain"),
        ({"name": "counter"}, 409, "already"),
        ({"text": "a\0b"}, 422, "control character"),
        ({"text": "x" * (1024 * 1024 + 1)}, 422, "1024 KiB"),
        ({"format": "word"}, 422, "The format is one of"),
    ],
)
def test_what_was_typed_is_kept(admin: TestApp, fields: dict[str, str], status: int, said: str) -> None:
    form = admin.get("/@@add-document").forms[1]
    good = {"title": "A title", "name": "a-name", "text": "\n\nA <text>\n", "format": "text"}
    typed = good | fields | {"token": form["token"].value}
    page = admin.post("/@@add-document", typed, status=status)
    assert said in page.text
    assert page.html.select(".box.problem")
    for name in good:
        if name != "format" and "\0" not in typed[name] and "\x07" not in typed[name]:
            assert page.forms[1][name].value == typed[name]
    if "format" not in fields:
        assert page.forms[1]["format"].value == "text"
    # and a client is told the same
    answer = admin.post_json("/@@add-document", good | fields, headers=CLIENT, status=status)
    assert said in json.dumps(answer.json["errors"], ensure_ascii=False)
    assert admin.get("/", headers=JSON).json["count"] == 2


def test_creating_by_json(admin: TestApp) -> None:
    answer = admin.post_json("/@@add-document", {"title": "A", "text": "x"}, headers=CLIENT, status=201)
    assert answer.headers["Location"] == "http://localhost/a"
    assert answer.json["revision"] == 1
    answer = admin.post_json("/@@add-folder", {"title": "F"}, headers=CLIENT, status=201)
    assert answer.headers["Location"] == "http://localhost/f/"
    admin.post_json("/f/@@add-document", {"title": "B"}, headers=CLIENT, status=201)
    assert admin.get("/f/b").html.select(".crumbs a")[1].text == "F"


# Editing


def test_editing(admin: TestApp) -> None:
    add(admin, title="A", text="one")
    page = fill(admin, "/a/@@edit", title="B", text="two").submit().follow()
    assert (page.html.h1.text, page.html.article.text.strip()) == ("B", "two")
    assert "revision 2" in page.text
    page = fill(admin, "/a/@@edit").submit().follow()  # nothing changed
    assert "revision 2" in page.text


def test_a_text_comes_back_as_it_was_typed(admin: TestApp) -> None:
    text = "\n\nleading\n\n  </textarea> & <b>\ttab\n\n"
    add(admin, title="A", text=text)
    assert admin.get("/a/@@edit").forms[1]["text"].value == text
    assert admin.get("/a", headers=JSON).json["text"] == text


def stored_text(page: TestResponse) -> str:
    """As a browser has it, which drops the first newline of a textarea."""
    text: str = page.html.select_one("#stored").text
    return text.removeprefix("\n")


def test_two_edits_at_once_lose_neither(admin: TestApp) -> None:
    add(admin, title="A", text="line one\nline two\n")
    mine = fill(admin, "/a/@@edit", text="line one\nmine <b>\n")
    theirs = fill(admin, "/a/@@edit", text="line one\ntheirs\n", title="A2")
    theirs.submit().follow()
    page = mine.submit(status=409)
    assert page.forms[1]["text"].value == "line one\nmine <b>\n"
    assert stored_text(page) == "line one\ntheirs\n"
    assert "The stored title is “A2”" in page.text
    assert "mine &lt;b&gt;</ins>" in page.text
    assert admin.get("/a", headers=JSON).json["text"] == "line one\ntheirs\n"
    merged = page.forms[1]
    merged["text"] = "line one\ntheirs and mine\n"
    page = merged.submit().follow()
    assert "theirs and mine" in page.text
    assert "revision 3" in page.text


def test_who_is_late_twice_is_told_twice(admin: TestApp) -> None:
    add(admin, title="A", text="0")
    mine = fill(admin, "/a/@@edit", text="mine")
    fill(admin, "/a/@@edit", text="1").submit()
    page = mine.submit(status=409)
    fill(admin, "/a/@@edit", text="2").submit()
    page = page.forms[1].submit(status=409)
    assert stored_text(page) == "2"
    assert page.forms[1]["text"].value == "mine"


def test_both_had_the_same_idea(admin: TestApp) -> None:
    add(admin, title="A", text="0")
    form = fill(admin, "/a/@@edit", text="same")
    form.submit().follow()
    assert "revision 2" in form.submit().follow().text  # also a form sent twice


def test_late_and_wrong_at_once(admin: TestApp) -> None:
    add(admin, title="A", text="0")
    mine = fill(admin, "/a/@@edit", text="mine", title="")
    fill(admin, "/a/@@edit", text="1").submit()
    page = mine.submit(status=409)
    assert "A title is needed" in page.text
    assert page.forms[1]["text"].value == "mine"


def test_editing_by_json(admin: TestApp) -> None:
    add(admin, title="A", text="0")
    answer = admin.post_json("/a/@@edit", {"text": "1", "revision": 1}, headers=CLIENT)
    assert (answer.json["title"], answer.json["text"], answer.json["revision"]) == ("A", "1", 2)
    answer = admin.post_json("/a/@@edit", {"text": "2", "revision": 1}, headers=CLIENT, status=409)
    assert answer.json["stored"]["text"] == "1"
    assert answer.json["yours"]["text"] == "2"
    for revision in [None, "", "x", "-1", "1" * 30]:
        fields = {"text": "2"} | ({} if revision is None else {"revision": revision})
        answer = admin.post_json("/a/@@edit", fields, headers=CLIENT, status=422)
        assert "revision" in answer.json["errors"]


def test_renaming(admin: TestApp) -> None:
    add(admin, title="A", text="0")
    page = fill(admin, "/a/@@rename", name="b c", title="B").submit().follow()
    assert page.request.path == "/b%20c"
    assert page.html.h1.text == "B"
    admin.get("/a", status=404)
    page = fill(admin, "/b%20c/@@rename", name="counter").submit(status=409)
    assert page.forms[1]["name"].value == "counter"
    page = fill(admin, "/b%20c/@@rename", name="_x").submit(status=422)
    assert "may not begin" in page.text
    form = fill(admin, "/b%20c/@@rename", name="late")
    fill(admin, "/b%20c/@@edit", text="1").submit()
    page = form.submit(status=409)
    assert page.forms[1].submit().follow().request.path == "/late"  # now on the new revision


def test_deleting(admin: TestApp) -> None:
    fill(admin, "/@@add-folder", title="F").submit()
    add(admin, "/f/", title="A")
    page = admin.get("/f/@@delete")
    assert "everything in it will be gone: 1 item" in page.text
    form = fill(admin, "/f/a/@@delete")
    fill(admin, "/f/a/@@edit", text="saved in the meantime").submit()
    form.submit(status=409)
    assert admin.get("/f/a")
    assert fill(admin, "/f/a/@@delete").submit().follow().request.path == "/f/"
    admin.get("/f/a", status=404)
    fill(admin, "/f/@@delete").submit()
    admin.get("/f/", status=404)


@pytest.mark.parametrize("address", ["/", "/counter/"])
@pytest.mark.parametrize("view", ["rename", "delete"])
def test_what_stays(admin: TestApp, address: str, view: str) -> None:
    admin.get(f"{address}@@{view}", status=403)
    admin.post(f"{address}@@{view}", {"revision": "1", "name": "x"}, headers=CLIENT, status=403)
    assert admin.get("/counter")


# Forms that come from elsewhere


FORMS = ["/@@add-document", "/@@add-folder", "/@@upload", "/a/@@edit", "/a/@@rename", "/a/@@delete"]


@pytest.mark.parametrize("address", FORMS)
@pytest.mark.parametrize("token", [None, "", "forged", "stolen"])
def test_a_form_needs_its_token(admin: TestApp, address: str, token: str | None) -> None:
    add(admin, title="A")
    fields = {"title": "X", "name": "x", "revision": "1", "text": "x"}
    if token == "stolen":  # of another site, or another login
        token = admin.get("/@@add-document").forms[1]["token"].value.replace(".", "x.", 1)
    if token is not None:
        fields["token"] = token
    admin.post(address, fields, status=403)
    # what a page of another site can have a browser send, credentials and all
    body = "&".join(f"{name}={value}" for name, value in fields.items())
    admin.post(address, body, headers={"Content-Type": "text/plain"}, status=415)
    assert admin.get("/", headers=JSON).json["count"] == 3
    assert admin.get("/a", headers=JSON).json["revision"] == 1


def test_a_form_that_was_open_for_long_loses_nothing(admin: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    form = fill(admin, "/@@add-document", title="A", text="long thought about")
    later = time.time() + tokens.MAX_AGE + 5
    monkeypatch.setattr(time, "time", lambda: later)
    page = form.submit(status=422)
    assert "open for too long" in page.text
    assert page.forms[1]["text"].value == "long thought about"
    assert page.forms[1].submit().follow().html.h1.text == "A"


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/x-www-form-urlencoded", b"title=%ff", 400),
        ("application/x-www-form-urlencoded", b"\xff=x", 400),
        ("application/x-www-form-urlencoded", b"a=b&" * 1100, 413),
        ("application/x-www-form-urlencoded", b"title=" + b"x" * (9 * 1024 * 1024), 413),
        ("application/json", b"{", 400),
        ("application/json", b"[1]", 400),
        ("application/json", b'{"title": {}}', 400),
        ("application/json", b'{"title": true}', 400),
        ("application/json", b"\xff", 400),
        ("application/json", b"[" * 100_000, 400),
        ("application/json", b'{"title": "\\ud800"}', 400),
        ("application/json", b'{"title": "a", "name": "\\udcff"}', 400),
        ("application/json", b'{"title": "a", "text": "\\ud800"}', 400),
        ("application/json", b'{"token": "\\ud800"}', 400),
        ("application/json", b'{"title": [null]}', 400),
        ("application/json", b'{"title": 1.5}', 400),
        ("application/json", b'{"title": ' + b"9" * 5000 + b"}", 400),
        ("text/xml", b"<x/>", 415),
        ("multipart/form-data", b"x", 400),
        ("multipart/form-data; boundary=x", b"--x\r\nnonsense", 400),
        ("multipart/form-data; boundary=x", b"", 400),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="title"\r\n\r\n\xff\r\n--x--\r\n',
            400,
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 1100 + b"--x--\r\n",
            413,
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="a' + b"a" * 20_000 + b'"\r\n\r\n\r\n--x--\r\n',
            413,
        ),
    ],
)
def test_bodies_that_are_no_form(admin: TestApp, content_type: str, body: bytes, status: int) -> None:
    """S15"""
    admin.post("/@@add-document", body, headers={**CLIENT, "Content-Type": content_type}, status=status)
    assert admin.get("/", headers=JSON).json["count"] == 2


def test_an_empty_post_is_refused(admin: TestApp) -> None:
    admin.post("/@@add-document", status=403)
    admin.post("/@@add-document", headers=CLIENT, status=422)


# Files

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def upload(
    app: TestApp, address: str, *uploads: tuple[str, bytes], status: int = 303, **fields: str
) -> TestResponse:
    form = app.get(f"{address}@@upload").forms[1]
    fields["token"] = form["token"].value
    return app.post(
        f"{address}@@upload",
        fields,
        upload_files=[("file", name, data) for name, data in uploads],
        status=status,
    )


@pytest.fixture(params=["pages", "blobs"])
def owner(request: pytest.FixtureRequest, make_app: Callable[..., TestApp], tmp_path: Path) -> TestApp:
    """Somebody logged in, on a database with and without blobs."""
    uri = f"file://{tmp_path}/Data.fs"
    app = make_app(uri if request.param == "pages" else f"{uri}?blobstorage_dir={tmp_path}/blobs")
    app.authorization = ("Basic", ("admin", "correct horse"))
    return app


def test_uploading_and_downloading(owner: TestApp) -> None:
    data = bytes(range(256)) * 3000
    upload(owner, "/", ("a.png", PNG), ("größe 1.bin", data), ("empty", b""))
    picture = owner.get("/a.png")
    assert (picture.body, picture.content_type) == (PNG, "image/png")
    assert picture.headers["Content-Disposition"].startswith("inline;")
    file = owner.get("/gr%C3%B6%C3%9Fe%201.bin")
    assert file.body == data
    assert file.headers["Content-Disposition"] == (
        "attachment; filename=\"gr__e 1.bin\"; filename*=UTF-8''gr%C3%B6%C3%9Fe%201.bin"
    )
    assert file.headers["X-Content-Type-Options"] == "nosniff"
    assert file.headers["ETag"] == f'"{hashlib.sha256(data).hexdigest()}"'
    assert owner.get("/empty").body == b""
    info = owner.get("/gr%C3%B6%C3%9Fe%201.bin", headers=JSON).json
    assert (info["size"], info["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert "750.0 KiB" in owner.get("/gr%C3%B6%C3%9Fe%201.bin/@@info").text


def test_parts_of_a_download(owner: TestApp) -> None:
    data = bytes(range(256)) * 3000
    upload(owner, "/", ("a.bin", data))
    whole = owner.get("/a.bin")
    assert whole.headers["Accept-Ranges"] == "bytes"
    for spec, part in [("0-0", data[:1]), ("500000-600000", data[500000:600001]), ("-5", data[-5:])]:
        answer = owner.get("/a.bin", headers={"Range": f"bytes={spec}"}, status=206)
        assert answer.body == part
        assert answer.content_length == len(part)
    assert owner.get("/a.bin", headers={"Range": "bytes=9999999-"}, status=416).headers["Content-Range"]
    fresh, stale = whole.headers["ETag"], '"other"'
    assert owner.get("/a.bin", headers={"Range": "bytes=0-9", "If-Range": fresh}, status=206).body == data[:10]
    assert owner.get("/a.bin", headers={"Range": "bytes=0-9", "If-Range": stale}, status=200).body == data
    assert owner.get("/a.bin", headers={"If-None-Match": fresh}, status=304).body == b""
    assert owner.get("/a.bin", headers={"If-Modified-Since": whole.headers["Last-Modified"]}, status=304)
    head = owner.head("/a.bin")
    assert (head.body, head.headers["Content-Length"]) == (b"", str(len(data)))


@pytest.mark.parametrize(
    "name", ["x.html", "x.svg", "x.js", "x.xml", "x.pdf", "x.xhtml", "x.css", "x", "x.png.html", "x.txt"]
)
def test_an_upload_is_never_run(admin: TestApp, name: str) -> None:
    """S7"""
    upload(admin, "/", (name, b"<script>alert(1)</script>"))
    file = admin.get(f"/{name}")
    assert file.headers["Content-Disposition"].startswith("attachment;")
    assert file.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in file.headers["Content-Security-Policy"]


def test_a_name_with_a_path_loses_the_path(admin: TestApp) -> None:
    upload(admin, "/", ("C:\\Users\\me\\a.txt", b"1"), ("../../etc/b.txt", b"2"))
    assert admin.get("/a.txt").body == b"1"
    assert admin.get("/b.txt").body == b"2"


def test_of_several_files_all_or_none_are_stored(admin: TestApp) -> None:
    page = upload(admin, "/", ("a.txt", b"1"), ("counter", b"2"), status=409)
    assert "counter: this folder already has an item of this name" in page.text
    admin.get("/a.txt", status=404)
    page = upload(admin, "/", ("a.txt", b"1"), ("_b", b"2"), status=422)
    admin.get("/a.txt", status=404)
    assert "Please choose a file" in upload(admin, "/", status=422).text


def test_replacing_a_file(admin: TestApp) -> None:
    upload(admin, "/", ("a.txt", b"1"))
    upload(admin, "/", ("a.txt", b"2"), status=409)
    upload(admin, "/", ("a.txt", b"2"), replace="1")
    assert admin.get("/a.txt").body == b"2"
    upload(admin, "/", ("counter", b"2"), status=409, replace="1")


def test_uploading_by_a_client(admin: TestApp) -> None:
    answer = admin.post("/@@upload", {"file": Upload("a.txt", b"1")}, headers=CLIENT, status=201)
    assert answer.json["files"][0]["url"] == "http://localhost/a.txt"


def test_what_is_too_large(make_app: Callable[..., TestApp], monkeypatch: pytest.MonkeyPatch) -> None:
    admin = make_app(max_body=2000)
    admin.authorization = ("Basic", ("admin", "correct horse"))
    upload(admin, "/", ("a.txt", b"x" * 2001), status=413)
    monkeypatch.setattr(files, "MAX_UPLOAD", 1000)
    page = upload(admin, "/", ("a.txt", b"x" * 1001), status=413)
    assert page.html.select(".wrong")
    admin.get("/a.txt", status=404)


def test_large_uploads_go_through_the_disk(make_app: Callable[..., TestApp]) -> None:
    owner = make_app(max_memory=100_000)
    owner.authorization = ("Basic", ("admin", "correct horse"))
    data = bytes(range(256)) * 2000
    upload(owner, "/", ("a.bin", data))
    assert owner.get("/a.bin").body == data
    form = owner.get("/@@upload").forms[1]
    fields = {"token": form["token"].value, "replace": "x" * 100_001}
    owner.post("/@@upload", fields, upload_files=[("file", "b.bin", b"")], status=413)


def test_of_a_field_that_comes_repeatedly_the_first_counts(admin: TestApp) -> None:
    body = "title=First&title=Second&text=x"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = admin.post("/@@add-document", body, headers={**CLIENT, **kind}, status=201)
    assert answer.json["title"] == "First"


def test_a_document_shows_the_picture_beside_it(admin: TestApp) -> None:
    fill(admin, "/@@add-folder", title="F").submit()
    upload(admin, "/f/", ("a.png", PNG))
    add(admin, "/f/", title="index", name="index.md", text="![picture](a.png)")
    for address in ["/f/index.md", "/f/"]:
        (image,) = admin.get(address).html.select("article img")
        assert image["src"] == "a.png"


# Searching


def test_searching(admin: TestApp) -> None:
    add(admin, title="Straße", text="Viele <b>Wörter</b> stehen hier.")
    fill(admin, "/@@add-folder", title="F").submit()
    add(admin, "/f/", title="Other", text="Auch hier steht STRASSE, und mehr.")
    page = admin.get("/@@search", {"q": "strasse"})
    assert [a.text for a in page.html.select(".results a")] == ["Straße", "Other"]  # titles first
    assert page.html.select("mark")[0].text == "STRASSE"
    assert page.forms[0]["q"].value == "strasse"
    page = admin.get("/@@search", {"q": "hier mehr"})
    assert [a.text for a in page.html.select(".results a")] == ["Other"]
    page = admin.get("/f/@@search", {"q": "hier"})
    assert "1 result in “F”" in " ".join(page.html.main.text.split())
    page = admin.get("/@@search", {"q": "<script>"})
    assert "Nothing was found" in page.text
    assert "<script>" not in page.text
    fill(admin, "/f/other/@@edit", text="nichts").submit()
    assert "Nothing was found" in admin.get("/@@search", {"q": "mehr"}).text
    assert "type what you are looking for" in admin.get("/@@search").text


def test_many_results(admin: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SHOWN", 2)
    for number in range(3):
        admin.post("/@@add-document", {"title": f"doc {number}"}, headers=CLIENT)
    answer = admin.get("/@@search", {"q": "doc"}, headers=JSON).json
    assert (len(answer["results"]), answer["more"]) == (2, True)


@pytest.mark.parametrize(
    "query", ["q=%ff", "q=" + "x" * 300, "q=" + "+".join("abcdefghijklm"), "q=x&" * 100, "q=" + "x" * 10**6]
)
def test_searches_that_are_none(anybody: TestApp, query: str) -> None:
    assert anybody.get(f"/@@search?{query}", status="4*").status_int in (400, 414)


# The counter


def test_the_counter(anybody: TestApp) -> None:
    assert anybody.post("/counter/@@next").text == "1"
    assert anybody.post("/counter/@@next").content_type == "text/plain"
    assert anybody.post("/counter/@@next", headers=JSON).json == {"value": 3}
    assert anybody.get("/counter").forms[1].submit(headers=HTML).html.select_one(".number").text == "4"
    assert anybody.get("/counter", headers=JSON).json["value"] == 4
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        answer = anybody.request("/counter/@@next", method=method, status=405)
        assert answer.headers["Allow"] == "OPTIONS, POST"
    assert anybody.get("/counter", headers=JSON).json["value"] == 4


# Errors


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/<script>", 404),
        ("/__class__", 404),
        ("/_items", 404),
        ("/secret", 404),
        ("/users", 404),
        ("/title", 404),
        ("/counter/next", 405),
        ("/counter/value", 404),
        ("/@@nothing", 404),
        ("/a%00b", 400),
        ("/%ff", 400),
        ("/../x", 400),
        ("/%2e%2e/x", 400),
        ("/x" * 10_000, 414),
    ],
)
def test_bad_addresses(anybody: TestApp, path: str, status: int) -> None:
    """S1, S3, S4, S14, S16"""
    page = anybody.get(path, headers=HTML, status=status)
    assert page.content_type == "text/html"
    assert page.html.select("h1")
    assert "<script>" not in page.text
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    answer = anybody.get(path, headers=JSON, status=status)
    assert answer.content_type == "application/problem+json"
    assert answer.json["status"] == status
    assert anybody.get("/")


def test_unknown_methods(anybody: TestApp) -> None:
    for method in ("PUT", "DELETE", "PATCH"):
        answer = anybody.request("/", method=method, headers=HTML, status=405)
        assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"
        assert answer.html.h1.text == "This cannot be done here"


def test_an_error_of_ours_tells_nothing_of_it(
    anybody: TestApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    anybody.get("/")

    def fail(*arguments: object) -> None:
        raise RuntimeError("the secret <cause>")

    monkeypatch.setattr(browse, "describe", fail)
    page = anybody.get("/", headers=HTML, status=500)
    assert "secret" not in page.text
    assert page.html.h1.text == "Something went wrong"
    assert page.html.code.text in caplog.text  # under this id it is found in the log
