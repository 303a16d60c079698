"""The site of etc/deploy.ini answers with ``keep`` as it does without, whatever happens to its database."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from webob import Request
from webtest import TestApp

from pipeline.database.zodb_pools import _pools
from pipeline.elements.keep import KeepRequest
from pipeline.elements.zodb import close_all
from pipeline.paste import load
from pipeline.testing import log_in
from pipeline_demo.models import Document, Folder
from pipeline_demo.users import add_member, set_password

from .conftest import PASSWORD

DEPLOY = Path(__file__).resolve().parents[2] / "etc" / "deploy.ini"
ANSWERS = 2_000
PATHS = ["/", "/docs/", "/docs/d0", "/sub/", "/docs/d1", "/docs/sub/", "/club/", "/docs/d0/@@history", "/club/c0"]
PATHS += ["/docs/@@search?text=word", "/docs/?sort=newest", "/docs/d2", "/docs/sub/d3", "/search?text=changed"]
PATHS += ["/@@login", "/docs/@@add-document", "/nothing", "/docs/d1/@@edit", "/docs", "/counter"]
HOSTS = ["www.example.com", "docs.example.com"]
TOKENS = re.compile(r'name="token" value="[^"]*"|value="[^"]*" name="token"|name="csrf_token" value="[^"]*"')
HEADERS = {"HTTP_ACCEPT": "text/html"}, {"HTTP_ACCEPT_ENCODING": "gzip"}, {"HTTP_ACCEPT": "application/json"}


def site_of(directory: Path, keeps: bool) -> Any:
    """The site, with two hosts that see different folders."""
    text = DEPLOY.read_text()
    if keeps:
        text = text.replace(" traverse base", " keep traverse base")
        text += "\n[filter:keep]\nuse = egg:wsgi-pipeline#keep\nverify = 7\n"
    ini = directory / f"{'kept' if keeps else 'plain'}.ini"
    ini.write_text(text)
    uri = f"file://{directory}/Data.fs?blobstorage_dir={directory}/blobs"
    keys = str(directory / "keys")
    return load(f"config:{ini}", zodb_uri=uri, session_keys=keys, sites=f"{HOSTS[1]} = /docs")


def said(answer: Any) -> tuple[Any, ...]:
    """An answer without its tokens; ``keep`` adds an ETag to an answer without one."""
    ignored = {"etag", "set-cookie"}
    headers = sorted((name, value) for name, value in answer.headerlist if name.lower() not in ignored)
    body = answer.body if "Content-Encoding" in answer.headers else TOKENS.sub("", answer.text)
    cookies = sorted(value.partition("=")[0] for value in answer.headers.getall("Set-Cookie"))
    return answer.status, headers, body, cookies


class World:
    """What happens to the site between the requests."""

    def __init__(self, db: Any, chance: random.Random) -> None:
        self.db, self.chance = db, chance
        self.number = 0

    def change(self) -> None:
        """Make one change at random: an edit, a new or a deleted page, a title, or a grant."""
        self.number += 1
        with self.db.transaction() as connection:
            site = connection.root()["site"]
            folder = self.chance.choice([site["docs"], site["docs"]["sub"], site["club"]])
            pages = [item for item in folder.items() if isinstance(item, Document)]
            kind = self.chance.randrange(5)
            if kind == 0:
                self.chance.choice(pages).edit("Title", f"changed word {self.number}", "markdown", "admin")
            elif kind == 1:
                folder[f"new{self.number}"] = Document(f"New {self.number}", "a word")
            elif kind == 2 and len(pages) > 3:
                del folder[self.chance.choice([item.__name__ for item in pages if item.__name__.startswith("new")])]
            elif kind == 3:
                folder.title = f"Folder {self.number}"
            else:
                grants = dict(folder.__grants__ or {})
                grants["berta"] = set() if grants.get("berta") else {"edit", "view"}
                folder.__grants__ = grants


def prepare(db: Any) -> None:
    with db.transaction() as connection:
        site = connection.root()["site"]
        set_password(site, "berta", PASSWORD)
        for name in ("docs", "club"):
            site[name] = Folder(name)
        site["docs"]["sub"] = Folder("sub")
        for number in range(3):
            site["docs"][f"d{number}"] = Document(f"D {number}", "# A heading\n\nA word. " * 30)
        site["docs"]["sub"]["d3"] = Document("D 3", "a word")
        site["club"]["c0"] = Document("C 0", "a word of the club")
        add_member(site["club"], "carl", PASSWORD)


def logged_in(app: Any, who: str) -> TestApp:
    client = log_in(TestApp(app), who, PASSWORD)
    client.get("/")  # it has the message of the login
    return client


@pytest.mark.once
@pytest.mark.timeout(300)
def test_the_answers_are_the_same(
    tmp_path: Path, known_password: str, no_documentation: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeepRequest, "keep", 600)  # as if each view said so
    (tmp_path / "keys").touch(0o600)
    (tmp_path / "keys").write_text("k" * 32)
    plain, kept = site_of(tmp_path, False), site_of(tmp_path, True)
    TestApp(plain).get("/")
    [db] = [pool.db for uri, pool in _pools.items() if str(tmp_path) in uri]
    prepare(db)
    chance = random.Random(14)
    world = World(db, chance)
    apps: dict[str, TestApp] = {"": TestApp(plain), **{who: logged_in(plain, who) for who in ("admin", "berta")}}
    different: list[str] = []
    statuses: Counter[str] = Counter()
    for number in range(ANSWERS):
        if chance.random() < 0.02:
            world.change()
        if chance.random() < 0.005:  # a session ends, and another begins
            who = chance.choice(["admin", "berta"])
            apps[who].post("/@@logout", {}, expect_errors=True)
            apps[who] = logged_in(plain, who)
        who = chance.choice(list(apps))
        path = PATHS[int(len(PATHS) * chance.random() ** 2)]
        environ = {"HTTP_HOST": HOSTS[chance.random() < 0.3], **HEADERS[int(3 * chance.random() ** 2)]}
        if not who and path.startswith("/club") and environ["HTTP_HOST"] == HOSTS[0] and chance.random() < 0.5:
            environ["HTTP_AUTHORIZATION"] = "Basic Y2FybDpjb3JyZWN0IGhvcnNl"
        cookies = "; ".join(f"{name}={value}" for name, value in apps[who].cookies.items())
        method = "HEAD" if chance.random() < 0.1 else "GET"
        answers = []
        for app in (plain, kept):
            environ["HTTP_COOKIE"] = cookies
            answers.append(Request.blank(path, environ=environ, method=method).get_response(app))
        statuses[answers[0].status] += 1
        if said(answers[0]) != said(answers[1]):
            different.append(f"{number} {method} {path} {who} {environ}: {said(answers[0])} {said(answers[1])}")
    counts = kept.offered["kept_pages"].counts
    print(f"{ANSWERS} answers:", sorted(statuses.items()), sorted(counts.items()))
    close_all()
    assert different[:3] == []
    assert counts["different"] == 0
    assert counts["sent again"] > 0.05 * ANSWERS and len(statuses) >= 4
    assert world.number and counts["kept"]
