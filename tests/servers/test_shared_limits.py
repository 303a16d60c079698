"""Failed logins that processes count together, in a real Redis and a real memcached."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import webob

from pipeline import Pipeline, element
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from servers.fixtures import running
from servers.stores import Memcached, Redis

shared_limits = pytest.importorskip(
    "pipeline.auth.shared_limits", reason="it needs the extra limits: pip install 'wsgi-pipeline[test]'"
)
pytestmark = pytest.mark.servers


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has the clients that a test has made closed at its end; those of a site are open as long as it runs."""
    made: list[Any] = []
    make = shared_limits.storage_from_string

    def keep(*arguments: Any, **options: Any) -> Any:
        made.append(make(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(shared_limits, "storage_from_string", keep)
    yield
    for storage in made:
        storage.storage.close()


@pytest.fixture(params=[Redis, Memcached])
def store(
    request: pytest.FixtureRequest,
    servers_dir: Path,
    clients: None,
    missing: Callable[[str, str], NoReturn],
    need_packages: Callable[..., None],
) -> Iterator[Any]:
    need_packages("redis", "pymemcache")
    with running(request.param, servers_dir, missing) as server:
        yield server


@element
def end() -> Any:
    def end(request: Any, response: Any) -> None:
        response.text = str(request.principal)

    return end


def instance(uri: str, **options: Any) -> Pipeline:
    """What one of several processes has: the store is all that two of them share."""
    check = authenticate(
        check=lambda request, login, password: login if password == "right" else None,
        failures=3,
        limits=uri,
        **options,
    )
    return Pipeline(errors(), check, end())


def ask(app: Pipeline, login: str = "ann", password: str = "wrong", address: str = "192.0.2.1") -> Any:
    header = "Basic " + b64encode(f"{login}:{password}".encode()).decode()
    environ = {"HTTP_AUTHORIZATION": header, "REMOTE_ADDR": address}
    return webob.Request.blank("/", environ).get_response(app)


def test_instances_count_together(store: Any) -> None:
    first, second = instance(store.uri), instance(store.uri)
    assert ask(first).status_int == ask(second).status_int == ask(first, "ANN").status_int == 200
    for app in (first, second):
        refused = ask(app, "Ann", "right", "198.51.100.7")
        assert refused.status_int == 429
        assert 80 < int(refused.headers["Retry-After"]) <= 91, "failures times interval, from the first one on"
        assert ask(app, "ben", "right").status_int == 429, "the address"
    assert ask(second, "ben", "right", "198.51.100.7").text == "ben"


def test_instances_know_an_address_together__S22(store: Any) -> None:
    first, second = instance(store.uri), instance(store.uri)
    assert ask(first, password="right", address="198.51.100.7").text == "ann"
    for number in range(6):
        ask(first, address=f"203.0.113.{number}")
    for app in (first, second, instance(store.uri)):
        assert ask(app, password="right", address="198.51.100.7").text == "ann"
        assert ask(app, password="right", address="198.51.100.8").status_int == 429


def test_instances_count_together_what_a_proxy_hides(store: Any) -> None:
    first, second = instance(store.uri), instance(store.uri)
    for number in range(30):
        assert ask((first, second)[number % 2], f"nobody {number}", address="127.0.0.1").status_int == 200
    for app in (first, second):
        assert ask(app, "ann", "right", "127.0.0.1").status_int == 429
        assert ask(app, "ann", "right", "198.51.100.7").text == "ann"


def test_the_limit_ends(store: Any) -> None:
    app = instance(store.uri, interval=0.4)
    for _ in range(3):
        ask(app)
    assert ask(app, password="right").status_int == 429
    time.sleep(2.5)
    assert ask(instance(store.uri, interval=0.4), password="right").text == "ann"


def test_processes_that_were_forked_count_together(store: Any) -> None:
    """R12: and none uses the connection of its parent."""
    program = """\
import os, sys
from pipeline.auth.shared_limits import SharedLimits
limits = SharedLimits(sys.argv[1], 5, 60)
limits.count(["before"])
children = []
for number in range(4):
    pid = os.fork()
    if not pid:
        for _ in range(50):
            limits.count(["ann", f"child-{number}"])
            assert limits.wait(["nobody"]) == 0
        assert limits.wait([f"child-{number}"]) > 50
        os._exit(0)
    children.append(pid)
assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
assert limits.wait(["ann"]) > 50
print(limits._limiter.storage.get(limits._item("ann").key_for("ann")))
"""
    command = [sys.executable, "-c", program, store.uri]
    answer = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONWARNINGS": "ignore"})
    assert answer.stdout == "200\n", answer.stderr


def test_a_store_that_is_gone_refuses_no_login_and_each_process_counts(
    store: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_limits, "PAUSE", 0.0)
    caplog.set_level(logging.INFO, "pipeline")
    app = instance(store.uri)
    ask(app)
    store.kill()
    began = time.monotonic()
    assert ask(app, password="right", address="198.51.100.7").text == "ann"
    ask(app)
    ask(app)
    assert ask(app, password="right", address="203.0.113.9").status_int == 429, "by its own count"
    assert time.monotonic() - began < 10
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1 and "does not answer" in lines[0]
    store.start()
    assert ask(app, "ben", "right", "198.51.100.7").text == "ben"
    assert "answers again" in caplog.records[-1].getMessage()


@pytest.mark.usefixtures("clients")
def test_the_password_of_the_store_is_not_logged__S25(
    caplog: pytest.LogCaptureFixture, need_packages: Callable[..., None]
) -> None:
    need_packages("redis")
    limits = shared_limits.SharedLimits("redis://user:secret@127.0.0.1:1/0", 3, 90)
    limits.count(["ann"])
    assert "redis://127.0.0.1:1/0 does not answer" in caplog.text and "secret" not in caplog.text
