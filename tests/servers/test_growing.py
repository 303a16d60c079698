"""The steps of docs/howto/growing.rst in small: three instances on replicas behind nginx, a cache in front that is
told what has changed, and two databases by host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, NoReturn
from urllib.parse import urlencode

import pytest
import webob
from persistent.mapping import PersistentMapping
from waitress.server import create_server
from webob.exc import HTTPBadRequest

from faults.load import Answer, Client
from faults.serving import SQL_ORDER, TABLES, three
from pipeline import Pipeline, testing, view
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.paste import load
from pipeline.publisher import publisher
from servers.base import Server, find
from servers.deployed import TOP
from servers.fixtures import running
from servers.nginx import Nginx
from servers.standby import replicated
from test_docs import blocks

pytestmark = pytest.mark.timeout(180)

PAGE = TOP / "docs" / "howto" / "growing.rst"
WRITES = 200


@pytest.mark.servers
def test_three_instances_on_two_replicas_behind_nginx(
    servers_dir: Path, tmp_path: Path, missing: Callable[[str, str], NoReturn], need_packages: Callable[..., None]
) -> None:
    """Every request may be answered by another instance, from another replica, and none misses an own write."""
    need_packages("psycopg2", "sqlalchemy", "zope.sqlalchemy")
    with ExitStack() as stack:
        primary, replicas = stack.enter_context(replicated(servers_dir, missing, [TABLES], (0, 500)))
        options = {
            "causal": {"keys": str(tmp_path / "keys")},
            "sql": {"read_urls": " ".join(one.url("site") for one in replicas)},
        }
        order = SQL_ORDER.replace("retry", "causal retry")
        sites = stack.enter_context(three(tmp_path, primary.url("site"), order, **options))
        nginx = stack.enter_context(running(Nginx, servers_dir, missing, upstreams=[site.port for site in sites]))
        client = Client(nginx.port)
        stack.callback(client.close)
        told: dict[str, str] = {}
        unseen = without = 0
        for number in range(WRITES):
            wrote = client.ask("POST", f"/@@write?id={number}", b"")
            assert wrote.status == 200, wrote
            without += client.ask("GET", f"/@@has?id={number}").body == b"0"
            told["X-Written"] = wrote.headers["x-written"]
            unseen += client.ask("GET", f"/@@has?id={number}", headers=told).body == b"0"
    assert without, "the replica that is behind was never read"
    assert unseen == 0


class Varnish(Server):
    """Varnish in front of a site, with a configuration of the page."""

    def __init__(self, directory: Path, configuration: str) -> None:
        self.program = find("varnishd", "apt install varnish")
        super().__init__(directory)
        self.file = directory / "default.vcl"
        self.file.write_text(configuration)

    def command(self) -> list[str | Path]:
        listens = ["-a", f"127.0.0.1:{self.port}", "-n", self.directory / "work", "-s", "default,8m", "-j", "none"]
        return [self.program, "-F", "-f", self.file, *listens]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The code of the page, as a module that a site can scan."""
    module = ModuleType("growing_site")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(PAGE, "python"):
        exec(compile(block.code, str(PAGE), "exec"), module.__dict__)
    yield module


class Waitress:
    """A site in a thread of this process."""

    def __init__(self, app: Any) -> None:
        self.server = create_server(app, host="127.0.0.1", port=0)
        self.port: int = self.server.effective_port
        self.thread = Thread(target=self.server.run, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.pull_trigger()
        self.server.close()
        self.thread.join(10)


@pytest.mark.servers
@pytest.mark.parametrize("purges", [True, False])
def test_a_cache_in_front_is_told_what_has_changed(
    purges: bool, page: ModuleType, servers_dir: Path, missing: Callable[[str, str], NoReturn], request: Any
) -> None:
    """Without the message the old page is found: the cache does keep it."""
    block, _ = blocks(PAGE, "text")  # the other one is of haproxy
    app = site_of(page, f"memory://growing-{purges}")
    site = Waitress(app)
    request.addfinalizer(site.close)
    configuration = block.code.replace("8080", str(site.port))
    with running(Varnish, servers_dir, missing, configuration=configuration) as varnish:
        page.CACHES[:] = [f"127.0.0.1:{varnish.port}"] if purges else []
        reader = Client(varnish.port)
        request.addfinalizer(reader.close)

        def post(path: str, text: str) -> Answer:
            body = urlencode({"text": text}).encode()
            return reader.ask("POST", path, body, {"Content-Type": "application/x-www-form-urlencoded"})

        assert post("/edit", "first").status == 200
        assert [reader.ask("GET", "/").body for _ in range(2)] == [b"first"] * 2
        assert post("/edit", "second").status == 200
        assert reader.ask("GET", "/").body == (b"second" if purges else b"first")
        kept = reader.ask("GET", "/").headers["x-varnish"].split()
        assert len(kept) == 2, "the answer is one that Varnish has kept"
        assert post("/fail", "third").status == 400
        assert reader.ask("GET", "/").headers["x-varnish"].split()[1] == kept[1], "it is the same one"


def site_of(page: ModuleType, uri: str) -> Pipeline:
    """The views of the page, and one that fails after it has said what to purge."""

    @view(context=page.Article, name="fail", methods=("POST",))
    def fail(article: Any, request: Any, text: str) -> None:
        page.edit(article, request, text)
        raise HTTPBadRequest("it is not stored")

    fail.__module__ = page.__name__
    page.fail = fail
    article = zodb(uri=uri, root=lambda root: root.setdefault("article", page.Article()))
    return Pipeline(
        retry(), article, errors(), transaction(), forms(), traverse(), publisher(scan=(page.__name__,))
    )


def test_hosts_have_databases_of_their_own(tmp_path: Path) -> None:
    [block] = (block for block in blocks(PAGE, "ini") if block.name == "hosts.ini")
    ini = tmp_path / "hosts.ini"
    ini.write_text(block.code.replace("#publisher", f"#publisher\nscan = {__name__}"))
    app = load(f"config:{ini}")
    for host in ("red.example.com", "blue.example.com:8080"):
        visitor = testing.site(app)
        for count in ("1", "2"):
            assert visitor.post("/count", extra_environ={"HTTP_HOST": host}).text == count
    assert webob.Request.blank("/", base_url="http://green.example.com").get_response(app).status_int == 404


@view(context=PersistentMapping, name="count", methods=("POST",))
def count(root: PersistentMapping, request: Any) -> str:
    root["number"] = root.get("number", 0) + 1
    return str(root["number"])
