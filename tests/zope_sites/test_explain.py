"""``pipeline explain`` of a Zope site: the step that decided, the roles, the user, the hook."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.http import debug_key
from zope_sites.compared_site import ZOPE_CONF
from zope_sites.test_application import IN_TWO_LINES, STEPS


def basic(user: str, password: str = "secret") -> str:
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


ROWS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "a missing login": (
        ("GET", "/f1/@@private"),
        401,
        "Manager was needed for zope_sites.compared_site.Plain, and a visitor who is not logged in held "
        "Anonymous on /f1",
    ),
    "a missing role": (
        ("GET", "/f1/@@private", basic("editor")),
        401,
        "Manager was needed for zope_sites.compared_site.Plain, and 'editor' of /f1/acl_users held "
        "Authenticated, Editor, Owner on /f1",
    ),
    "a wrong password": (
        ("GET", "/f1/@@private", basic("editor", "wrong")),
        401,
        "Manager was needed for zope_sites.compared_site.Plain, and a visitor who is not logged in held "
        "Anonymous on /f1; no user of /f1/acl_users or /acl_users has these credentials",
    ),
    "a user of another folder": (
        ("GET", "/@@private", basic("editor")),
        401,
        "Manager was needed for zope_sites.compared_site.Plain, and a visitor who is not logged in held "
        "Anonymous on /; no user of /acl_users has these credentials",
    ),
    "a method with a permission": (
        ("GET", "/f1/manage_main"),
        401,
        "Manager was needed for manage_main of the Folder /f1, and a visitor who is not logged in held "
        "Anonymous on /f1",
    ),
    "a login form": (
        ("GET", "/doc/@@private"),
        302,
        "redirected to http://localhost/login_form, because Manager was needed for "
        "zope_sites.compared_site.Plain, and a visitor who is not logged in held Anonymous on /doc",
    ),
    "a view that refuses": (
        ("GET", "/f1/@@refuse"),
        401,
        "the view zope_sites.compared_site.Refuse raised Unauthorized: not you, and a visitor who is not "
        "logged in held Anonymous on /f1",
    ),
    "an object that is missing": (
        ("GET", "/f1/missing"),
        404,
        "the step 'missing' from the Folder /f1 found nothing (its __getitem__)",
    ),
    "a misspelt name": (
        ("GET", "/f1/f2/nte"),
        404,
        "the step 'nte' from the Folder /f1/f2 found nothing (its __getitem__)",
    ),
    "a view for other objects": (
        ("GET", "/f1/@@for_notes"),
        404,
        "the step '@@for_notes' from the Folder /f1 found nothing: the view ForNotes of that name is for "
        "Note, which the Folder /f1 is not",
    ),
    "a method that is not published": (
        ("GET", "/f1/f2/note/hidden"),
        404,
        "the step 'hidden' from the Note /f1/f2/note is refused: The object at "
        "http://localhost:80/f1/f2/note/hidden has an empty or missing docstring",
    ),
    "a name of the program": (
        ("GET", "/f1/f2/note/_secret"),
        404,
        "the step '_secret' from the Note /f1/f2/note is refused: Object name begins with an underscore "
        "at: http://localhost:80/f1/f2/note/_secret",
    ),
    "a name that Zope refuses": (
        ("GET", "/aq_base"),
        404,
        "the path is refused: aq_base",
    ),
    "a resource that is missing": (
        ("GET", "/++resource++none.css"),
        404,
        "the step '++resource++none.css' from the Application / found nothing (the namespace resource: "
        "Zope2.App.traversing.resource",
    ),
    "a traverser that knows no such name": (
        ("GET", "/dynamic/none"),
        404,
        "the step 'none' from the Dynamic /dynamic found nothing (__bobo_traverse__ of Dynamic)",
    ),
    "a traverser that fails": (
        ("GET", "/dynamic/lost"),
        500,
        "the step 'lost' from the Dynamic /dynamic raised Lost: lost",
    ),
    "a hook that redirects": (
        ("GET", "/hooked/@@plain?away=1"),
        302,
        "a hook of the Hooked /hooked redirects to http://elsewhere.example/ "
        "(Hooked.__before_publishing_traverse__)",
    ),
    "a view that redirects": (
        ("GET", "/f1/@@go_away"),
        302,
        "the view zope_sites.compared_site.GoAway raised a redirect to http://elsewhere.example/x",
    ),
    "a view that fails": (
        ("GET", "/f1/@@error"),
        500,
        "the view zope_sites.compared_site.Error raised AttributeError: 'RequestContainer' object has no "
        "attribute 'no_such_name'",
    ),
    "an acquired object": (
        ("GET", "/f1/f2/f3/note"),
        200,
        "the view zope_sites.compared_site.Note.index_html answered 200; the step 'note' was acquired "
        "from /f1/f2",
    ),
    "an object that a traverser acquires": (
        ("GET", "/adapted/f1/@@plain"),
        200,
        "the view zope_sites.compared_site.Plain answered 200; the step 'f1' was acquired from /",
    ),
    "a template": (
        ("GET", "/f1/@@templated"),
        200,
        "the view 'templated' answered 200",
    ),
    "a template for others": (
        ("GET", "/f1/@@managed"),
        401,
        "Manager was needed for 'managed', and a visitor who is not logged in held Anonymous on /f1",
    ),
    "a number that is none": (
        ("GET", "/f1/@@form?n:int=none"),
        500,
        "reading the inputs of the request raised ValueError: An integer was expected in the value 'none'",
    ),
    "an access rule": (
        ("GET", "/ruled/some/page"),
        200,
        "the view zope_sites.compared_site.Plain answered 200; the hook of the Folder /ruled was called "
        "(NameCaller 'Rule' that calls 'rule'), and the path goes on with @@plain",
    ),
    "a virtual host": (
        ("GET", "/VirtualHostBase/http/www.example.org:80/f1/VirtualHostRoot/@@where"),
        200,
        "the view zope_sites.compared_site.Where answered 200; the hook of the Application / was called "
        "(NameCaller 'Virtual Host Monster' that calls 'virtual_hosting'), and the path goes on with f1 "
        "virtual_hosting / @@where and the site is at http://www.example.org; the step 'virtual_hosting' "
        "was acquired from /",
    ),
    "a traverser of its own": (
        ("GET", "/dynamic/made1"),
        200,
        "the view zope_sites.compared_site.Made.index_html answered 200",
    ),
    "a page of a user": (
        ("GET", "/f1/@@who", basic("editor")),
        200,
        "the view zope_sites.compared_site.Who answered 200",
    ),
}


WATCHED = {
    "step by step": STEPS.replace("= retry zodb", "= inspector retry zodb errors")
    + "[filter:inspector]\nuse = egg:wsgi-pipeline#inspector\n"
    + "[filter:errors]\nuse = egg:wsgi-pipeline#errors\ndebug = on\n",
    "in two lines": """
[pipeline:main]
pipeline = inspector zope
[filter:inspector]
use = egg:wsgi-pipeline#inspector
[app:zope]
use = egg:wsgi-pipeline#zope
zope_conf = %(here)s/zope.conf
""",
}


def told(how: str, ini: str, asked: list[Any], directory: Path) -> Any:
    """Return what is told of requests to the site."""
    (directory / "zope.conf").write_text(ZOPE_CONF.format(home=directory, more=""))
    (directory / "site.ini").write_text(ini)
    command = [sys.executable, "-W", "ignore", "-m", "zope_sites.explained_site", how, str(directory)]
    environ = {**os.environ, debug_key.VARIABLE: "k" * 40}
    tests = Path(__file__).parents[1]
    given = json.dumps(asked)
    run = subprocess.run(
        command, cwd=tests, input=given, env=environ, capture_output=True, text=True, timeout=200, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    asked = [arguments for arguments, _, _ in ROWS.values()]
    found = told("explained", WATCHED["in two lines"], asked, tmp_path_factory.mktemp("explained"))
    return dict(zip(ROWS, found, strict=True))


@pytest.mark.parametrize("name", ROWS)
def test_the_first_cause_names_what_decided(explained: dict[str, Any], name: str) -> None:
    _, status, why = ROWS[name]
    found = explained[name]
    assert int(found["status"][:3]) == status
    assert found["causes"][0]["why"].startswith(why)


def test_behind_middleware_the_steps_are_told_as_well(tmp_path: Path) -> None:
    """Such as the access log of Paste in the site's own ini, which ``pipeline adopt`` leaves there."""
    ini = WATCHED["in two lines"].replace("inspector zope", "vhost egg:Zope#httpexceptions zope")
    ini += "[filter:vhost]\nuse = egg:wsgi-pipeline#vhost\n"
    arguments, status, why = ROWS["a login form"]
    [found] = told("explained", ini, [arguments], tmp_path)
    assert (int(found["status"][:3]), found["causes"][0]["why"]) == (status, why)
    assert [step["name"] for step in found["traversal"] if step["name"] != "(hook)"] == ["", "doc", "@@private"]


def test_each_step_is_told_with_how_it_was_found(explained: dict[str, Any]) -> None:
    def steps(name: str) -> list[tuple[str, str]]:
        return [(step["name"], step["answered_by"].partition(" (/")[0]) for step in explained[name]["traversal"]]

    hook = "NameCaller 'Virtual Host Monster' that calls 'virtual_hosting'"
    begin = [("", "the root"), ("(hook)", hook), ("f1", "__bobo_traverse__ of Application: an item")]
    assert steps("an acquired object") == [
        *begin,
        ("f2", "an item"),
        ("f3", "an item"),
        ("note", "acquired from /f1/f2"),
        ("index_html", "an attribute of Note"),
    ]
    assert steps("a page of a user") == [*begin, ("@@who", "a view: zope_sites.compared_site.Who")]
    last = explained["a page of a user"]["traversal"][-1]["result"]
    assert last.endswith("; no role was needed; asked by 'editor' of /f1/acl_users")


def test_the_place_of_a_cause_is_in_the_code_of_the_site(explained: dict[str, Any]) -> None:
    for name in ("a missing role", "a view for other objects", "a hook that redirects", "a view that fails"):
        assert "/tests/zope_sites/" in explained[name]["causes"][0]["where"], name
    assert "Did you mean 'note'?" in explained["a misspelt name"]["causes"][0]["remedy"]


@pytest.mark.parametrize("kind", WATCHED)
def test_the_pages_of_the_developer_tell_what_explain_tells(tmp_path: Path, kind: str) -> None:
    """Zope answers most errors itself. The page of debug mode is for those that it raises."""
    pages = told("shown", WATCHED[kind], [arguments for arguments, _, _ in ROWS.values()], tmp_path)
    for name, (_, inspected, listed) in zip(ROWS, pages, strict=True):
        (_, path, *_), status, why = ROWS[name]
        assert f" Why {why}" in inspected.replace("<", "").replace(">", ""), name
        assert "answered by the root" in inspected or name in BEFORE_THE_WALK, name
        assert (f"GET {path} {status}" in listed) == (status >= 400), name
    page, _, _ = pages[[*ROWS].index("a view that fails")]
    assert ("Traversal /: the Application / answered by the root" in page) == (kind == "step by step")
    assert (ROWS["a view that fails"][2] in page) == (kind == "step by step")


BEFORE_THE_WALK = ("a number that is none", "a name that Zope refuses")


@pytest.mark.parametrize("ini", [IN_TWO_LINES, STEPS], ids=["in two lines", "step by step"])
def test_views_lists_the_browser_pages_for_a_kind_of_object(tmp_path: Path, ini: str) -> None:
    kinds = ["zope_sites.compared_site:Note", "OFS.Folder:Folder"]
    notes, folders = (
        {view["name"]: view for publisher in found for view in publisher["views"]}
        for found in told("listed", ini, kinds, tmp_path)
    )
    for name, function, permission, file in (
        ("for_notes", "zope_sites.explained_site.ForNotes", "Public, everyone can access", "explained_site.py, "),
        ("private", "zope_sites.compared_site.Plain", "View management screens", "compared_site.py, "),
        ("managed", f"{tmp_path}/templated.pt", "View management screens", "templated.pt"),
    ):
        view = notes[name]
        assert (view["function"], view["permission"]) == (function, permission)
        assert file in view["where"]
    assert notes["for_notes"]["path"] == "{Note}/@@for_notes"
    assert "for_notes" not in folders and "private" in folders
