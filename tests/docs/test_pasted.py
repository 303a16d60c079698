"""The recipes of docs/howto, pasted as readers do it: into a site of ``pipeline new``, which is then used.

A block whose ``:caption:`` is a file is that file of the site, and ``more of FILE`` stands below what the file has.
The lines of an ini go into the sections that they name. What the page tells to delete is deleted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from shutil import rmtree
from urllib.parse import urljoin, urlsplit, urlunsplit

import pytest
from argon2 import PasswordHasher
from webtest import TestApp
from webtest.forms import File, Text, Textarea

from docs.following import Block, blocks
from faults.length import FULL, by_turns, length
from pipeline.auth import passwords
from pipeline.database import forks
from pipeline.paste import load
from pipeline.proving.proof import Proof
from pipeline.publishing.jinja import environment
from pipeline.staging.asked import Asked
from pipeline.testing import log_in, site
from pipeline.tools.new import make

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
FILE = re.compile(r"(?:more of )?([\w./-]+\.(?:py|html|ini))")
NEW = "mysite"
"""The package of a site, if the page names no file of one."""

LISTED = {
    "adopt.rst": "a command, for a site of another framework",
    "backups.rst": "commands",
    "command.rst": "commands",
    "data.rst": "whole inis and programs, which tests/test_docs.py loads and runs",
    "deploy.rst": "commands, and lines for servers",
    "editing.rst": "tests/publishing/test_editing.py runs its package; it has no lines for an ini",
    "elements.rst": "programs",
    "explain.rst": "a command",
    "files.rst": "programs",
    "growing.rst": "several instances, which tests/servers/test_growing.py serves",
    "index.rst": "the table of contents",
    "instances.rst": "commands for several machines",
    "maintenance.rst": "commands and programs",
    "middleware.rst": "programs",
    "models.rst": "programs",
    "mounting.rst": "other frameworks: examples/mount is that site, with tests",
    "operate.rst": "commands",
    "plone.rst": "a site of Plone",
    "porting.rst": "programs, and inis of an old site",
    "prove.rst": "a command",
    "pyramid.rst": "sites of Pyramid: tests/docs/test_pyramid.py serves each of its files",
    "rehearse.rst": "a command, with a whole ini",
    "security.rst": "a whole ini, which tests/test_docs.py loads",
    "stored.rst": "programs",
    "switch.rst": "whole inis, which tests/test_docs.py loads",
    "testing.rst": "tests",
    "traversal.rst": "programs",
    "upgrading.rst": "commands",
    "views.rst": "programs",
    "virtual-hosting.rst": "programs, and lines for servers",
    "zope.rst": "a site of Zope",
    "ztk.rst": "a site of the Zope Toolkit",
}
"""The pages that have no block for a site of ``pipeline new``, with the reason."""


def text_of(page: str) -> str:
    return (HOWTO / page).read_text("utf-8")


def for_a_site(text: str) -> list[Block]:
    """Return the blocks of a page whose caption is a file."""
    return [block for block in blocks(text) if FILE.fullmatch(block.options.get("caption", ""))]


def file_of(block: Block) -> str:
    found = FILE.fullmatch(block.options["caption"])
    assert found is not None
    return found[1]


def package_of(text: str) -> str:
    """Return the package that the files of a page belong to."""
    packages = {path.partition("/")[0] for path in map(file_of, for_a_site(text)) if "/" in path}
    assert len(packages) < 2, f"The files are those of several sites: {packages}"
    return next(iter(packages), NEW)


def paste(text: str, top: Path) -> None:
    """Do with the files of a site what a page says."""
    for sentence in re.findall(r"\b[Dd]elete\s+((?:``[^`]+``(?:,\s+and\s+|\s+and\s+|,\s+)?)+)", text):
        for name in re.findall(r"``([^`]+)``", sentence):
            assert (top / name).exists(), f"A new site has no {name} to delete"
            rmtree(top / name) if (top / name).is_dir() else (top / name).unlink()
    for block in for_a_site(text):
        path = top / file_of(block)
        before = path.read_text("utf-8") if path.exists() else ""
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".ini":
            merge(path, block.code)
        elif block.options["caption"].startswith("more of "):
            assert before, f"line {block.line}: there is no {path.name} that this could stand in"
            path.write_text(f"{before}\n\n{block.code}", "utf-8")
        else:
            path.write_text(block.code, "utf-8")


def merge(path: Path, lines: str) -> None:
    """Put the lines of a page into the sections of an ini that they name."""
    ini = ConfigParser(delimiters=("=",), interpolation=None, default_section="")
    ini.optionxform = str  # type: ignore[assignment, method-assign]
    ini.read(path, "utf-8")
    ini.read_string(lines)
    with path.open("w", encoding="utf-8") as file:
        ini.write(file)


@pytest.fixture
def new(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new site with the package of a page, whose modules other tests do not see."""
    text = text_of(request.getfixturevalue("page"))
    for package in re.findall(r"^\.\. needs: (\w+)$", text, re.MULTILINE):
        pytest.importorskip(package)
    package = package_of(text)
    forget(package)
    list(make(tmp_path / package, package))
    monkeypatch.chdir(tmp_path / package)
    monkeypatch.syspath_prepend(tmp_path / package)
    yield tmp_path / package
    forget(package)


def forget(package: str) -> None:
    """Forget the modules of a site: others of the same name are to be imported."""
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
    environment.cache_clear()


VALUES = {"born": "1970", "to": "ann@example.com"}
"""The values of fields that do not take every word, by the names of the fields."""
ELSEWHERE = {"GET /@@login is answered 500"}
"""What fails here, since it needs a server that tests/auth/test_oidc.py starts: the provider of oidc.rst."""
USER, PASSWORD = "ann", "correct horse"
"""The user of each page that has a login."""


def local(page: str, link: str) -> str:
    """Return the path and the query of a link of a page; for a link to another site, those of the first page."""
    found = urlsplit(urljoin(f"http://localhost{page}", link))
    return urlunsplit(("", "", found.path, found.query, "")) if found.netloc == "localhost" else "/"


def visit(visitor: TestApp, seen: set[str]) -> Iterator[str]:
    """Follow the links of a site from its first page, and send each form that has a field. Yield what is wrong.

    seen  gets the paths that were seen, and the forms
    """
    pages = ["/"]
    while pages:
        path = pages.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = visitor.get(path, status="*")
        if answer.status_int >= 400:
            yield f"GET {path} is answered {answer.status}"
        if answer.location:
            pages.append(local(path, answer.location))
        if "html" not in (answer.content_type or ""):
            continue
        pages += [local(path, link["href"]) for link in answer.html.find_all("a", href=True)]
        # Searches are last: they shall find something.
        for form in sorted(answer.forms.values(), key=lambda form: form.method.upper() == "GET"):
            typed = [field for name, field in form.field_order if isinstance(field, (Text, Textarea, File))]
            for field in typed:
                is_file = isinstance(field, File)
                typing = ("tea.txt", b"Hot water", "text/plain") if is_file else VALUES.get(field.name, "tea")
                field.value = field.value or typing
            sent = f"{form.method} {local(path, form.action)}"
            if not typed or sent in seen:
                continue
            seen.add(sent)
            told = form.submit(status="*")
            if told.status_int >= 400:
                yield f"{sent} is answered {told.status}"
            if told.location:
                pages.append(local(path, told.location))


def logged_in(top: Path) -> TestApp | None:
    """Return a visitor of a site, who is logged in as ann if the page says how. None if another site logs in."""
    ini = ConfigParser(interpolation=None)
    ini.read(top / "site.ini", "utf-8")
    visitor = site(top / "development.ini")
    if not ini.has_section("filter:authenticate"):
        return visitor
    if api := sys.modules.get(f"{top.name}.api"):
        visitor.authorization = ("Bearer", api.make_token(USER))
        return visitor
    if not ini.has_option("filter:authenticate", "check"):
        return None
    return log_in(visitor, USER, PASSWORD)


def judged(top: Path) -> list[str]:
    """Use a site as a visitor does, and judge it with what this visitor has stored. Return what is wrong."""
    seen: set[str] = set()
    visitor = logged_in(top)
    wrong = list(visit(visitor, seen)) if visitor else []
    modules = {path.stem for path in (top / top.name).glob("*.py")} - {"__init__"}
    unused = [f"{top.name}.{name}" for name in sorted(modules) if f"{top.name}.{name}" not in sys.modules]
    wrong += [f"{name} is not imported: which section of the ini names it?" for name in unused]
    load(f"config:{top / 'production.ini'}")
    forks.close_all()
    proof = Proof(str(top / "development.ini"), user=USER, allow=["localhost:25"])
    with proof.loaded():
        runs = [(request, proof.afresh(request)) for request in proof.requests]
        failed = {f"{request} is answered {run.status}" for request, run in runs if (run.status or 500) >= 500}
        wrong += sorted(failed - ELSEWHERE)
        proof.requests += [Asked("GET", path) for path in sorted(seen) if path.startswith("/")]
        found = proof.links().report.found
    return [*wrong, *(f"{one.request}: {one.what}, from {one.where}" for one in found)]


PAGES = sorted(path.name for path in HOWTO.glob("*.rst"))
PASTED = [page for page in PAGES if page not in LISTED]


@pytest.mark.parametrize("page", PASTED)
def test_a_page_makes_a_site_whose_links_and_forms_work(page: str, new: Path) -> None:
    text = text_of(page)
    assert for_a_site(text), f"No block of {page} has a file as its caption, and it is not listed"
    paste(text, new)
    assert "\n".join(judged(new)) == ""


SLOWEST = ("faults", "crash", "pairs")
"""The judges that try each point of a request: but for a run of full length, they get one that stores something."""
KNOWN = {
    "oidc.rst": ("it is answered 500, since ConnectionError was raised by", "socket.connect 127.0.0.1:8081"),
    "mail.rst": ("S12: four times the length of a value",),
}
"""What is found and stays. The provider of oidc.rst is asked and not there (see ELSEWHERE). Python's parser of the
header To takes some seven times as long for four times the length, and eight times are a finding: it comes in some
runs."""
NOT_COVERED = {"oidc.rst": "the provider is not there", "passkeys.rst": "the device of a user is not there"}
"""The pages whose logins cannot succeed here, with the reason. tests/auth has both."""


@pytest.mark.slow
@pytest.mark.parametrize("page", by_turns(PASTED))
def test_prove_finds_nothing_in_the_site_of_a_page(
    page: str, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All judges, on what a visitor has stored before."""
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    monkeypatch.setattr(passwords, "_NOBODY", passwords._hash_of_nothing())
    paste(text_of(page), new)
    if visitor := logged_in(new):
        list(visit(visitor, set()))
    forks.close_all()
    proof = Proof(str(new / "development.ini"), users=[USER, "bob"], allow=["localhost:25"])
    with proof.loaded():
        assert proof.report.is_covered or page in NOT_COVERED, proof.report.text()
        proof.links().attack().sequences(length(20, None)).growth()
        if not FULL:
            storing = [one for one in proof.requests if proof.afresh(one) and proof.has_stored]
            proof.requests = storing[:1]
        for judge in SLOWEST:
            getattr(proof, judge)()
    found = [f"{one.what}: {one.request} {one.plan}, at {one.where}" for one in proof.report.found]
    assert [one for one in found if not any(known in one for known in KNOWN.get(page, ()))] == []


def test_the_list_has_only_pages_without_such_blocks() -> None:
    assert set(LISTED) <= set(PAGES)
    assert [page for page in LISTED if for_a_site(text_of(page))] == ["editing.rst", "pyramid.rst"]


OTHERS = {
    ("authentication.rst", "limits = redis:"): "a store for several processes, which would have to run",
    ("authentication.rst", "by = header"): "a proxy that logs in",
    ("errors.rst", "reporter = "): "an account at a service",
    ("headers.rst", "tiles.example.com"): "a whole ini, which tests/test_docs.py loads",
    ("jobs.rst", "[Timer]"): "the files of a timer of systemd",
    ("json-api.rst", "branches = openapi"): "tests/publishing/test_api.py has it in the place of [app:main]",
    ("serving.rst", "[server:main]"): "several processes, which need another database than that of a new site",
    ("serving.rst", "[app:health]"): "it listens on a port; a new site has the rest of it",
    ("templates.rst", "request.take_messages()"): "a new site has it",
}
"""The other inis and templates of pages that are pasted, each by a word of it, with the reason. Programs are run by
tests/test_docs.py."""


def test_each_ini_and_template_of_a_pasted_page_has_its_file_or_a_reason() -> None:
    rest = [
        (page, block)
        for page in PASTED
        for block in blocks(text_of(page))
        if block.language in ("ini", "html+jinja") and block not in for_a_site(text_of(page))
    ]
    words = {page: [word for name, word in OTHERS if name == page] for page in PASTED}
    assert [(page, block.line) for page, block in rest if not any(word in block.code for word in words[page])] == []
    assert len(OTHERS) == len(rest), "A reason is not needed any more"


@pytest.mark.parametrize(
    ("page", "old", "fault", "finding"),
    [
        ("crud.rst", 'request.absolute_url(member, "delete")', '"@@delete"', "POST /@@delete: .* is answered 404"),
        ("crud.rst", '(member, "edit")', '(member, "change")', "GET /1/change is answered 404"),
        ("oidc.rst", "scan = mysite\n", "scan = mysite.views\n", "mysite.oidc is not imported"),
        ("search.rst", "    from html import escape\n", "", "GET /@@search.*500"),
    ],
)
def test_control_a_fault_of_a_page_is_found(page: str, old: str, fault: str, finding: str, new: Path) -> None:
    text = text_of(page)
    assert text.count(old) == 1
    paste(text.replace(old, fault), new)
    assert re.search(finding, "\n".join(judged(new)))
