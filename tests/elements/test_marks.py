"""A mark stands in each secret place of a visitor's requests, which pass every element. No stranger reads it (S25).

The elements are those that are installed: one that the ini below does not name fails the test.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import webtest

from pipeline.elements.zodb import close_all
from pipeline.http import debug_key
from pipeline.telling import secrets
from pipeline.telling.descriptions import GROUPS
from pipeline.testing import site

sqlalchemy = pytest.importorskip("sqlalchemy")
for needed in ("zope.component", "zope.event", "prometheus_client", "opentelemetry", "jinja2"):
    pytest.importorskip(needed)
MARK = "mark-7f3c9a"
KEPT_ONE = "keep: /kept: kept"
NUMBERS = count()
OPTIONS = {
    "inspector": "",
    "log": "file = %(here)s/access.log",
    "request_id": "",
    "timing": "header = yes\nmetrics = yes\nspans = yes",
    "vhost": "",
    "shield": "",
    "cors": "origins = *",
    "causal": "keys = %(here)s/keys",
    "retry": "attempts = 2\ndelay = 0",
    "zodb": "uri = file://%(here)s/Data.fs?blobstorage_dir=%(here)s/blobs\nroot = MODULE:root",
    "sql": "url = sqlite:///%(here)s/site.sqlite",
    "events": "",
    "site": "",
    "errors": "",
    "transaction": "",
    "sendfile": "locations =\n    %(here)s/files = /files/",
    "session": "keys = %(here)s/keys",
    "forms": "max_memory = 1000",
    "authenticate": "keys = %(here)s/keys\nby = session basic\ncheck = MODULE:check\nrealm = site\nlimits = memory://",
    "keep": "",
    "traverse": "",
    "base": "",
    "compress": "",
    "coalesce": "",
}
"""The elements of the pipeline, outermost first, and what each is told."""
APPS = {
    "publisher": "scan = MODULE",
    "metrics": "token_file = %(here)s/tokens",
    "openapi": "scan = MODULE\nroot = MODULE:Root",
    "health": "watch = %(here)s/watch",
}
ELSEWHERE = ("zope", "ztk")
"""Their elements need packages of their own: those of Zope, which write what Zope writes."""
INI = f"""\
[composite:main]
use = egg:wsgi-pipeline#switch
branches =
    metrics path=/of/metrics
    openapi path=/of/openapi
    health path=/of/health
default = site

[pipeline:site]
pipeline = {" ".join(OPTIONS)} publisher

"""
INI += "\n".join(f"[filter:{name}]\nuse = egg:wsgi-pipeline#{name}\n{told}\n" for name, told in OPTIONS.items())
INI += "\n".join(f"[app:{name}]\nuse = egg:wsgi-pipeline#{name}\n{told}\n" for name, told in APPS.items())
CODE = '''
from pathlib import Path

from persistent.mapping import PersistentMapping
from sqlalchemy import text
from transaction.interfaces import TransientError
from webob import Response
from ZODB.blob import Blob

from pipeline import view


class Root(PersistentMapping):
    pass


def root(database):
    return database.setdefault("app", Root())


def check(request, login, password):
    return login if "mark" in password else None


def secrets_of(request):
    """Touch all that a visitor has sent, as a view may."""
    return [dict(request.cookies), dict(request.form), request.headers.get("Authorization"), dict(request.session)]


@view(context=Root)
def index(context, request):
    return "front"


@view(context=Root, name="own", permission="read")
def own(context, request):
    return f"own page of {request.principal}"


@view(context=Root, name="login", methods=("GET", "POST"))
def login(context, request, password: str = ""):
    request.session["basket"] = password
    request.flash(password)
    return "kept for later"


@view(context=Root, name="basket", methods=("GET", "POST"))
def basket(context, request):
    return f"basket: {request.session.get('basket', '')} {[one for one in request.messages()]}"


@view(context=Root, name="nonce", methods=("GET", "POST"))
def nonce(context, request):
    request.keep = True
    return f'<script nonce="{request.csp_nonce}">1</script>'


@view(context=Root, name="kept", methods=("GET", "POST"))
def kept(context, request):
    request.keep = True
    return f"{request.cookies.get('other', '')} {request.headers.get('X-Api-Key', '')}"


@view(context=Root, name="fails", methods=("GET", "POST"))
def fails(context, request):
    seen = secrets_of(request)
    raise ValueError(f"it fails with {len(seen)} things")


@view(context=Root, name="busy", methods=("GET", "POST"))
def busy(context, request):
    seen = secrets_of(request)
    raise TransientError("another one writes")


@view(context=Root, name="row", methods=("GET", "POST"))
def row(context, request, password: str = ""):
    request.sql.execute(text("insert into missing values (:password)"), {"password": password})


@view(context=Root, name="stored", methods=("GET", "POST"))
def stored(context, request, password: str = ""):
    request.sql.execute(text("create table if not exists users (password text)"))
    request.sql.execute(text("insert into users values (:password)"), {"password": password})
    context[request.principal or "none"] = password
    blob = context[f"{request.principal}-blob"] = Blob()
    with blob.open("w") as file:
        file.write(password.encode())
    return "stored"


@view(context=Root, name="breaks", methods=("GET", "POST"))
def breaks(context, request):
    def blocks():
        yield b"the first block"
        raise OSError("the disk is gone")

    seen = secrets_of(request)
    return Response(app_iter=blocks())


@view(context=Root, name="wrong", methods=("POST",))
def wrong(context, request, password: int):
    return str(password)


@view(context=Root, name="file", methods=("GET", "POST"), permission="read")
def file(context, request):
    return (Path(__file__).with_name("files") / "private.txt").open("rb")
'''


def test_each_element_is_in_the_pipeline() -> None:
    points = [point for group in GROUPS for point in entry_points(group=group)]
    ours = {point.name for point in points if point.value.startswith("pipeline.")}
    assert {name for name in ours if not name.startswith(ELSEWHERE)} == {*OPTIONS, *APPS}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a site, its keys, and a file that its views send to those who may read it."""
    name = f"marked_elements_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(CODE)
    (tmp_path / "site.ini").write_text(INI.replace("MODULE", name))
    (tmp_path / "files").mkdir()
    for file, text in (("keys", f"{MARK}{'k' * 32}\n"), ("tokens", f"{MARK}-token-of-prometheus-and-no-other\n")):
        (tmp_path / file).touch(0o600)
        (tmp_path / file).write_text(text)
    (tmp_path / "files" / "private.txt").touch(0o600)
    (tmp_path / "files" / "private.txt").write_text(f"private {MARK}")
    (tmp_path / "watch").mkdir(0o700)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(debug_key, "_key", None)
    monkeypatch.setenv(debug_key.VARIABLE, "d" * 40)
    yield tmp_path
    close_all()
    secrets.is_plain.cache_clear()  # a control has taken all names for plain ones
    sys.modules.pop(name, None)


FORM = {"password": MARK}
PATHS = ("", "own", "login", "basket", "nonce", "kept", "fails", "busy", "row", "stored", "breaks", "wrong", "file")
HIDDEN = {"Authorization": "Basic YW5uOm1hcmstN2YzYzlh", "X-Api-Key": MARK}
"""The user ann, by the mark as password."""


def asked(app: webtest.TestApp, method: str, path: str, **more: Any) -> Any:
    """Ask once, whatever the answer is, also one that breaks off."""
    try:
        return app.request(path, method=method, expect_errors=True, **more)
    except OSError as error:
        return error


def as_ann(app: webtest.TestApp) -> list[Any]:
    """Send the mark in each place that is secret, to each view."""
    app.set_cookie("other", MARK)
    answers = []
    for path in (*PATHS, "missing"):
        for _ in range(3):  # what is kept is kept at the second or third request
            answers.append(asked(app, "GET", f"/{path}", headers=HIDDEN))
        urlencoded = {"body": f"password={MARK}".encode(), "content_type": "application/x-www-form-urlencoded"}
        answers.append(asked(app, "POST", f"/{path}", headers=HIDDEN, **urlencoded))
        json = {"body": f'{{"password": "{MARK}"}}'.encode(), "content_type": "application/json"}
        answers.append(asked(app, "POST", f"/{path}", headers=HIDDEN, **json))
        broken = {"body": f'{{"password": "{MARK}"'.encode(), "content_type": "application/json"}
        answers.append(asked(app, "POST", f"/{path}", headers=HIDDEN, **broken))
        file = ("file", "a.txt", f"{MARK} {'x' * 3000}".encode())
        kind, body = app.encode_multipart([("password", MARK)], [file])
        answers.append(asked(app, "POST", f"/{path}", headers=HIDDEN, body=body, content_type=kind))
    return answers


def as_a_stranger(app: webtest.TestApp) -> Iterator[tuple[str, str]]:
    """Yield path and whole answer of each page, as another browser sees it."""
    for path in (*PATHS, "missing", "of/metrics", "of/openapi", "of/health", "++inspect++/"):
        for headers in ({}, {"Accept": "application/json"}, {"Accept-Encoding": "gzip"}):
            answer = asked(app, "GET", f"/{path}", headers=headers)
            yield f"/{path}", str(answer) if isinstance(answer, OSError) else f"{answer.headerlist} {answer.text}"


def as_prometheus(app: webtest.TestApp) -> Iterator[tuple[str, str]]:
    token = {"Authorization": f"Bearer {MARK}-token-of-prometheus-and-no-other"}
    yield "the metrics", asked(app, "GET", "/of/metrics", headers=token).text


def as_the_developer(app: webtest.TestApp) -> Iterator[tuple[str, str]]:
    """Yield the pages of the inspector, with each request that it has noted: one may show them to others."""
    key = {"Cookie": f"{debug_key.COOKIE}={'d' * 40}"}
    first = asked(app, "GET", "/++inspect++/", headers=key)
    assert first.status_int == 200
    yield "the inspector", first.text
    found = {f"/++inspect++/{number}" for number in re.findall(r'href="(\d+)"', first.text)}
    assert len(found) > 10
    for address in found:
        yield address, asked(app, "GET", address, headers=key).text


def readable(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the files that others may read, in directories that they may enter."""
    for path in directory.iterdir():
        if path.stat().st_mode & (0o011 if path.is_dir() else 0o044) == 0:
            continue
        if path.is_dir():
            yield from readable(path)
        else:
            yield f"{path.name} {path.stat().st_mode & 0o777:o}", path.read_bytes().decode("latin-1")


def leaks(directory: Path, caplog: pytest.LogCaptureFixture, *without: str) -> list[str]:
    """Ask as ann, and return where others find what was hers.

    without  elements that are left out
    """
    ini = directory / "site.ini"
    elements = " ".join(name for name in OPTIONS if name not in without)
    ini.write_text(ini.read_text().replace(" ".join(OPTIONS), elements))
    app = site(ini)
    with caplog.at_level(logging.DEBUG):
        answers = as_ann(app)
        app.reset()
        elsewhere = [*as_a_stranger(app), *as_prometheus(app), *as_the_developer(app)]
    seen = [answer for answer in answers if not isinstance(answer, OSError)]
    assert any(MARK in answer.text for answer in seen), "ann has seen her own"
    assert {answer.status_int for answer in seen} > {200, 400, 404, 500, 503}
    texts = [*elsewhere, *readable(directory)]
    texts += [(f"log {record.name}", f"{record.getMessage()} {record.exc_text or ''}") for record in caplog.records]
    pages = [answer.text for answer in seen] + [text for where, text in elsewhere if where == "/nonce"]
    nonces = [nonce for page in pages for nonce in re.findall(r'nonce="([^"]+)"', page)]
    assert len(nonces) > 6
    found = [where for where, text in texts if MARK in text]
    return found if len(nonces) == len(set(nonces)) else [*found, "a nonce is sent twice"]


@pytest.mark.once
def test_a_mark_is_read_by_its_owner_alone__S25_S26(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert leaks(here, caplog) == []
    assert KEPT_ONE not in caplog.text


@pytest.mark.once
def test_a_mark_is_in_no_page_that_is_kept__S26(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is kept inside of ``site``, which has a hook of its own for each request."""
    assert leaks(here, caplog, "site") == []
    assert KEPT_ONE in caplog.text


def with_parameters(*given: Any, **options: Any) -> Any:
    return sqlalchemy.create_engine(*given, **{**options, "hide_parameters": False})


CONTROLS: dict[str, tuple[str, Any, str]] = {
    "a file that its database has made": ("pipeline.database.sql_databases.make_file", str, "site.sqlite 644"),
    "values of a statement": ("pipeline.database.sql_databases.create_engine", with_parameters, "log pipeline"),
    "no name is that of a secret": ("pipeline.telling.secrets.is_secret", lambda name: None, "/++inspect++/"),
    "a page is kept": ("pipeline.elements.keep.reasons", lambda *asked: (), "a nonce is sent twice"),
}


@pytest.mark.once
@pytest.mark.parametrize("fault", CONTROLS)
def test_control_a_fault_that_is_put_back_is_found(
    fault: str, here: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, replaced, expected = CONTROLS[fault]
    monkeypatch.setattr(name, replaced)
    assert [where for where in leaks(here, caplog, "site") if where.startswith(expected)]
