"""Older versions of a document, a preview while it is edited, messages, and the order of a folder."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from webtest import TestApp, TestResponse

from pipeline_demo import models
from pipeline_demo.models import MAX_VERSIONS, Document
from pipeline_demo.views import browse

JSON = {"Accept": "application/json"}
CLIENT = {**JSON, "X-Requested-With": "test"}


def fill(app: TestApp, address: str, **fields: str) -> Any:
    form = app.get(address).forms[1]
    for name, value in fields.items():
        form[name] = value
    return form


def add(app: TestApp, title: str = "Tea", text: str = "green") -> TestResponse:
    return fill(app, "/@@add-document", title=title, text=text).submit().follow()


def message_of(page: TestResponse) -> list[str]:
    return [found.text for found in page.html.select(".box.done")]


# Messages


def test_each_change_tells_what_it_did_once(admin: TestApp) -> None:
    page = add(admin)
    assert message_of(page) == ["The document was made."]
    assert message_of(admin.get("/tea")) == []
    assert message_of(fill(admin, "/tea/@@edit", text="black").submit().follow()) == ["Saved."]
    assert message_of(fill(admin, "/tea/@@rename", name="tee").submit().follow()) == ["Renamed."]
    assert message_of(fill(admin, "/tee/@@delete").submit().follow()) == ["“Tea” was deleted."]
    assert message_of(fill(admin, "/@@add-folder", title="F").submit().follow()) == ["The folder was made."]
    assert admin.cookies == {}, "nothing is left"


def test_a_program_gets_no_message(admin: TestApp) -> None:
    answer = admin.post("/@@add-document", {"title": "A"}, headers=CLIENT, status=201)
    assert "Set-Cookie" not in answer.headers


def test_a_visitor_without_a_message_gets_no_cookie(anybody: TestApp) -> None:
    anybody.get("/")
    assert "Set-Cookie" not in anybody.get("/").headers and anybody.cookies == {}


# Preview


def test_a_preview_stores_nothing(admin: TestApp) -> None:
    form = fill(admin, "/@@add-document", title="Tea", text="*green*")
    page = form.submit("preview")
    assert page.html.select_one(".trial .text em").text == "green"
    assert (page.forms[1]["title"].value, page.forms[1]["text"].value) == ("Tea", "*green*")
    admin.get("/tea", status=404)
    assert page.forms[1].submit().follow().html.h1.text == "Tea"

    page = fill(admin, "/tea/@@edit", text="**black**").submit("preview")
    assert page.html.select_one(".trial strong").text == "black"
    assert admin.get("/tea", headers=JSON).json["revision"] == 1
    page.forms[1].submit().follow()
    assert admin.get("/tea", headers=JSON).json["text"] == "**black**"


def test_a_preview_with_problems_shows_them(admin: TestApp) -> None:
    page = fill(admin, "/@@add-document", title="", text="x").submit("preview", status=422)
    assert page.html.select(".wrong") and not page.html.select(".trial")


def test_a_preview_runs_no_script__S7(admin: TestApp) -> None:
    page = fill(admin, "/@@add-document", title="T", text="<script>alert(1)</script>").submit("preview")
    assert "<script" not in str(page.html.select_one(".trial"))


# History


def test_the_history_of_a_document(admin: TestApp) -> None:
    add(admin, text="one\ntwo\nthree")
    assert "There is no older version" in admin.get("/tea/@@history").text
    fill(admin, "/tea/@@edit", text="one\n2\nthree").submit()
    fill(admin, "/tea/@@edit", title="Black tea", text="one\n2\nthree\nfour").submit()
    page = admin.get("/tea/@@history")
    assert [link.text for link in page.html.select(".items a")] == [
        "Revision 3, the current one",
        "Revision 2",
        "Revision 1",
    ]
    assert all("admin" in item.text for item in page.html.select(".items li"))
    page = page.click("Revision 1")
    lines = page.html.select_one(".difference").text.split("\n")
    assert [line for line in lines if line.startswith(("+", "\N{MINUS SIGN}"))] == [
        "\N{MINUS SIGN}two",
        "+2",
        "+four",
    ]
    assert "The title was “Tea”." in page.text
    page = page.forms[1].submit().follow()
    assert message_of(page) == ["Revision 1 is the current one again."]
    data = admin.get("/tea", headers=JSON).json
    assert (data["title"], data["text"], data["revision"]) == ("Tea", "one\ntwo\nthree", 4)
    data = admin.get("/tea/@@history", headers=JSON).json
    assert [(one["revision"], one["author"]) for one in data["versions"]] == [
        (3, "admin"),
        (2, "admin"),
        (1, "admin"),
    ]


def test_a_version_is_not_restored_over_a_newer_change(admin: TestApp) -> None:
    add(admin)
    fill(admin, "/tea/@@edit", text="black").submit()
    form = admin.get("/tea/@@history?revision=1").forms[1]
    fill(admin, "/tea/@@edit", text="white").submit()
    page = form.submit(status=409)
    assert "changed by another author" in page.text
    assert admin.get("/tea", headers=JSON).json["text"] == "white"


def test_only_authors_see_older_versions(admin: TestApp) -> None:
    add(admin)
    fill(admin, "/tea/@@edit", text="black").submit()
    form = admin.get("/tea/@@history?revision=1").forms[1]
    admin.get("/tea/@@history?revision=7", status=404)
    admin.get("/tea/@@history?revision=x", status=400)
    fields = {"restore": "1", "revision": "2"}
    admin.post("/tea/@@history", fields, status=403)  # without a token
    admin.post("/tea/@@history", {**fields, "restore": "5", "token": form["token"].value}, status=404)
    admin.authorization = None
    admin.get("/tea/@@history", status=401)
    assert "History" not in admin.get("/tea").text


def test_only_the_last_versions_are_kept() -> None:
    document = Document("T", "0")
    for number in range(1, MAX_VERSIONS + 5):
        document.edit("T", str(number), "text", "ann")
    assert len(document.versions) == MAX_VERSIONS
    assert (document.versions[0].text, document.versions[-1].text) == (str(number - 1), str(number - MAX_VERSIONS))
    assert (document.versions[0].author, document.author) == ("ann", "ann")


def test_showing_a_document_loads_no_older_version(connection: Any, stored_site: Any) -> None:
    stored_site["a"] = document = Document("T", "0")
    document.edit("T", "1", "text")
    connection.transaction_manager.commit()
    connection.cacheMinimize()
    assert document.text == "1"
    assert document.versions[0]._p_changed is None, "it is a ghost"
    assert document.versions[0].text == "0"


# The order of a folder


@pytest.fixture
def ordered(admin: TestApp, monkeypatch: pytest.MonkeyPatch) -> TestApp:
    """Three items, the last one made first."""
    admin.get("/")  # makes the site
    now = models.now()
    for number, title in enumerate(["Cup", "Bowl", "Ashtray"]):
        monkeypatch.setattr(models, "now", lambda number=number: now + timedelta(days=number + 1))
        kind = "@@add-folder" if title == "Bowl" else "@@add-document"
        fill(admin, f"/{kind}", title=title).submit()
    return admin


def names(app: TestApp, query: str = "") -> list[str]:
    return [item["name"] for item in app.get(f"/{query}", headers=JSON).json["items"]]


def test_a_folder_is_sorted_as_asked(ordered: TestApp) -> None:
    assert names(ordered) == ["ashtray", "bowl", "counter", "cup", "index.md"]
    assert names(ordered, "?sort=newest")[:3] == ["ashtray", "bowl", "cup"]
    assert names(ordered, "?sort=kind") == ["bowl", "counter", "ashtray", "cup", "index.md"]
    ordered.get("/?sort=other", status=400)
    page = ordered.get("/").click("Newest first")
    assert page.request.query_string == "sort=newest"
    assert [link.text for link in page.html.select(".orders [aria-current]")] == ["Newest first"]


def test_the_pages_of_a_sorted_folder(ordered: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "PAGE", 2)
    page = ordered.get("/?sort=newest")
    assert page.click("Next").request.query_string == "sort=newest&page=2"
    assert ordered.get("/?sort=newest", headers=JSON).json["next"].endswith("/?sort=newest&page=2")
    assert ordered.get("/", headers=JSON).json["next"].endswith("/?page=2")


def test_a_large_folder_is_sorted_by_title(ordered: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "MAX_SORTED", 3)
    assert names(ordered, "?sort=newest") == names(ordered)
    assert "Newest first" not in ordered.get("/").text
