"""``pipeline explain`` of a Plone site: refusals and surprises, each with the step that decided."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def basic(user: str, password: str = "secret-word") -> str:
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


EDITOR, READER, JSON = basic("editor"), basic("reader"), "Accept: application/json"
LOGIN = "redirected to http://localhost:80/Plone/acl_users/credentials_cookie_auth/require..., because "
OF_A_DRAFT = "Manager or Owner or Editor or Reader or Contributor or Site Administrator was needed for "
NOBODY = "and a visitor who is not logged in held Anonymous on "
MODIFY = "plone.app.content.browser.content_status_modify.ContentStatusModifyView"
ROWS: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "a draft": (("GET", "/Plone/folder/secret"), 302, (
        f"{LOGIN}{OF_A_DRAFT}'document_view', {NOBODY}/Plone/folder/secret",)),
    "a missing role": (("GET", "/Plone/folder/secret", READER), 302, (
        f"{LOGIN}{OF_A_DRAFT}'document_view', and 'reader' of /Plone/acl_users held Authenticated, Member on ",)),
    "a wrong password": (("GET", "/Plone/folder/secret", basic("editor", "x")), 302, (
        f"{LOGIN}{OF_A_DRAFT}", "no user of /Plone/acl_users or /acl_users has these credentials")),
    "a permission that one object takes away": (("GET", "/Plone/folder/closed", EDITOR), 302, (
        f"{LOGIN}Manager was needed for 'document_view', and 'editor' of /Plone/acl_users held ",)),
    "a control panel": (("GET", "/Plone/@@overview-controlpanel", EDITOR), 302, (
        f"{LOGIN}Manager or Site Administrator was needed for ", "OverviewControlPanel, and 'editor' of ")),
    "a form to add": (("GET", "/Plone/folder/++add++Document", READER), 302, (
        f"{LOGIN}Manager or Site Administrator or Owner or Contributor was needed for plone.", "'reader'")),
    "a form to edit": (("GET", "/Plone/folder/secret/edit", READER), 302, (
        f"{LOGIN}Manager or Owner or Editor or Site Administrator was needed for ", "/Plone/folder/secret")),
    "management": (("GET", "/Plone/manage_main"), 302, (
        f"{LOGIN}Manager was needed for manage_main of the PloneSite /Plone, {NOBODY}/Plone",)),
    "a user of the site, at the root": (("GET", "/manage_main", EDITOR), 401, (
        "Manager was needed for manage_main of the Application /, ", "no user of /acl_users has these")),
    "a draft, by restapi": (("GET", "/Plone/folder/secret", JSON), 401, (
        f"{OF_A_DRAFT}plone.rest.zcml.ContentGet, {NOBODY}/Plone/folder/secret",)),
    "a service that refuses": (("GET", "/Plone/@users", JSON), 401, (
        "the view plone.rest.zcml.UsersGet raised Unauthorized: You are not authorized",)),
    "a deletion by restapi": (("DELETE", "/Plone/folder/page", JSON), 401, (
        "Manager or Site Administrator or Owner or Editor was needed for plone.rest.zcml.ContentDelete, ",)),
    "a service that is missing": (("GET", "/Plone/@nothing", JSON), 404, (
        "the step '@nothing' from the PloneSite /Plone found nothing (IPublishTraverse adapter plone.rest.",)),
    "an object that is missing": (("GET", "/Plone/folder/none"), 404, (
        "the step 'none' from the Folder /Plone/folder found nothing (IPublishTraverse adapter plone.dexterity.",)),
    "a wrong view": (("GET", "/Plone/about/@@lister"), 404, (
        "the step '@@lister' from the Document /Plone/about found nothing (a view: (none is registered))",)),
    "a type that is missing": (("GET", "/Plone/folder/++add++Nothing", EDITOR), 404, (
        "the step '++add++Nothing' from the Folder /Plone/folder found nothing (the namespace add: ",)),
    "a theme that is missing": (("GET", "/Plone/++theme++none/x.css"), 404, (
        "the step '++theme++none' from the PloneSite /Plone found nothing (the namespace theme: ",)),
    "a view that finds nothing": (("GET", "/Plone/sitemap.xml.gz"), 404, (
        "the view plone.app.layout.sitemap.sitemap.SiteMapView raised NotFound: ",)),
    "a method without a docstring": (("GET", "/Plone/about/setTitle"), 404, (
        "the step 'setTitle' from the Document /Plone/about is refused: ", "has an empty or missing docstring")),
    "a tool": (("GET", "/Plone/portal_catalog"), 403, (
        "the step 'portal_catalog' from the PloneSite /Plone raised Forbidden: ", "marked as not publishable")),
    "a form without a token": (("GET", "/Plone/about/content_status_modify?workflow_action=retract", EDITOR), 403, (
        f"the view {MODIFY} raised Forbidden: Form authenticator is invalid.",)),
    "a number that is none": (("GET", "/Plone/search?b_start:int=none"), 500, (
        "reading the inputs of the request raised ValueError: An integer was expected in the value 'none'",)),
    "a link": (("GET", "/Plone/folder/link"), 302, (
        "the view plone.app.contenttypes.browser.link_redirect_view.LinkRedirectView answered 302",)),
    "an acquired page": (("GET", "/Plone/folder/about"), 200, (
        "the view 'document_view' answered 200; the step 'about' was acquired from /Plone",)),
    "an access rule": (("GET", "/Plone/ruled/some/path"), 200, (
        "the view 'document_view' answered 200; the hook of the Folder /Plone/ruled was called (",
        "NameCaller 'Rule' that calls 'rule'), and the path goes on with about")),
    "a virtual host": (
        ("GET", "/VirtualHostBase/https/www.example.org:443/Plone/VirtualHostRoot/folder/page"), 200, (
        "the hook of the Application / was called (NameCaller 'Virtual Host Monster' that calls ",
        "the path goes on with Plone virtual_hosting / folder page and the site is at https://www.example.org")),
    "a draft of a virtual host": (
        ("GET", "/VirtualHostBase/http/www.example.org:80/Plone/VirtualHostRoot/folder/secret"), 302, (
        "redirected to http://www.example.org/acl_users/credentials_", f"{NOBODY}/Plone/folder/secret")),
    "no theme": (("GET", "/Plone/about", "Host: 127.0.0.1"), 200, (
        "the view 'document_view' answered 200; the theme is off: ", "http://127.0.0.1 is a host without themes")),
    "a page with a theme": (("GET", "/Plone/about"), 200, ("the view 'document_view' answered 200",)),
}  # fmt: skip
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    instance = tmp_path_factory.mktemp("plone") / "instance"
    said("plone_sites.made_site", str(instance))
    asked = [[*row[0], "Accept: text/html"] if JSON not in row[0] else row[0] for row in ROWS.values()]
    found = said("plone_sites.explained_site", str(instance / "etc" / "ours.ini"), text=json.dumps(asked))
    return dict(zip(ROWS, json.loads(found.splitlines()[-1]), strict=True))


def said(module: str, *arguments: str, text: str = "") -> str:
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    tests = Path(__file__).parents[1]
    run = subprocess.run(command, cwd=tests, input=text, capture_output=True, text=True, timeout=400, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


@pytest.mark.parametrize("name", ROWS)
def test_the_first_cause_names_what_decided(explained: dict[str, Any], name: str) -> None:
    _, status, why = ROWS[name]
    found = explained[name]
    first = found["causes"][0]["why"]
    assert int(found["status"][:3]) == status
    assert [part for part in why if part not in first] == [], first


def test_a_page_with_its_theme_has_no_surprise(explained: dict[str, Any]) -> None:
    assert explained["a page with a theme"]["causes"][0]["why"] == "the view 'document_view' answered 200"
