"""What runs now, read from the stacks; and what a probe makes of it."""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from waitress.server import create_server

from asking import ask
from pipeline import Pipeline, Request, Response, element
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.traverse import traverse
from pipeline.health import Watch
from pipeline.publisher import publisher
from pipeline.running import process
from pipeline.running.instance import DRAINING, State, is_draining, processes, state_of, verdict
from pipeline.running.stacks import Stacks, connections_waiting
from pipeline.views import Views


class Gate:
    """Views that wait until they are let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.threads: list[threading.Thread] = []
        gate = self

        def waits(context: Any, request: Request) -> str:
            gate.open.wait(20)
            return "done"

        class Waits:
            def __init__(self, context: Any, request: Request) -> None:
                pass

            def __call__(self) -> str:
                gate.open.wait(20)
                return "done"

        @element(outside={"errors": "it waits, too"})
        def slowly(next: Any) -> Any:
            def slowly(request: Any, response: Response) -> None:
                request.principal = "ada"
                if request.environ["PATH_INFO"] == "/element":
                    gate.open.wait(20)
                next(request, response)

            return slowly

        end = publisher()
        self.app = Pipeline(retry(), slowly(), errors(), traverse(root=dict), end)
        views: Views = self.app.published
        views.add(waits, None, "waits", ("GET",), None, None)
        views.add(Waits, None, "of_a_class", ("GET",), None, None)

    def begin(self, path: str, stacks: Stacks) -> dict[str, Any]:
        """Ask for a path in a thread, and return what is told of it."""
        thread = threading.Thread(target=ask, args=(self.app, path), daemon=True)
        self.threads.append(thread)
        thread.start()
        end = time.monotonic() + 60
        while True:
            found = [one for one in stacks.requests() if one["thread"] == thread.ident]
            if found and any("in Event.wait" in line for line in found[0]["stack"]):
                return found[0]
            assert time.monotonic() < end
            time.sleep(0.005)

    def end(self) -> None:
        self.open.set()
        for thread in self.threads:
            thread.join(10)
        self.threads.clear()
        self.open.clear()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.end()


def test_each_request_with_the_element_and_the_view_that_it_is_in(gate: Gate) -> None:
    stacks = Stacks()
    found = [gate.begin(path, stacks) for path in ("/@@waits?key=k&q=x", "/@@of_a_class", "/element")]
    assert [(one["element"], one["view"].rpartition(".")[2], one["path"], one["user"]) for one in found] == [
        ("publisher", "waits", "/@@waits?key=(masked)&q=x", "ada"),
        ("publisher", "Waits", "/@@of_a_class", "ada"),
        ("slowly", "", "/element", "ada"),
    ]
    assert all(any("in Event.wait" in line for line in one["stack"]) for one in found)
    assert [one["path"] for one in stacks.requests()] == [one["path"] for one in found], "the longest first"
    gate.end()
    assert stacks.requests() == []


def test_the_next_request_of_a_thread_begins_anew(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its object may lie at the place where the last one lay. Looking keeps no request alive."""
    now = [0.0]
    monkeypatch.setattr("pipeline.running.stacks.time", SimpleNamespace(monotonic=lambda: now[0]))
    stacks = Stacks()
    gate.begin("/@@waits", stacks)
    now[0] += 5
    [one] = stacks.requests()
    assert one["seconds"] == 5
    kept = [reference for reference, _ in stacks.seen.values()]
    gate.end()
    gc.collect()
    assert [reference() for reference in kept] == [None]
    assert gate.begin("/@@waits", stacks)["seconds"] == 0


def test_how_much_waitress_and_the_kernel_hold_back(gate: Gate) -> None:
    stacks = Stacks()
    server: Any = create_server(gate.app, listen="127.0.0.1:0", threads=2, map={})
    address = f"http://127.0.0.1:{server.effective_port}/@@waits"

    def run() -> None:
        with suppress(OSError):  # it is closed while it waits for its sockets
            server.run()

    gate.threads.append(threading.Thread(target=run, daemon=True))
    visitors = [threading.Thread(target=lambda: urlopen(address, timeout=20).close()) for _ in range(5)]
    for thread in (*gate.threads, *visitors):
        thread.start()
    end = time.monotonic() + 60
    while len(stacks.requests()) < 2 or stacks.held < 3:
        assert time.monotonic() < end, (stacks.requests(), stacks.held)
        time.sleep(0.01)
    assert (stacks.threads, stacks.held) == (2, 3)
    gate.open.set()
    for thread in visitors:
        thread.join(10)
    server.close()
    before = connections_waiting()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clients = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        assert connections_waiting() - before == (3 if sys.platform == "linux" else 0)
        for client in clients:
            client.close()


def test_a_slow_request_is_logged_while_it_runs_and_again_at_twice_the_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = object.__new__(process.Process)
    made.slow, made.noted = 10.0, {}
    where = {"view": "v", "element": "", "user": "", "stack": ["a", "b"]}
    request = {"thread": 1, "method": "GET", "path": "/", **where}
    with caplog.at_level(logging.WARNING, "pipeline"):
        for seconds in (1.0, 9.5, 10.2, 10.7, 19.0, 20.5, 0.5, 9.0, 10.1):
            made._log_slow([{**request, "seconds": seconds}])
            for thread in threading.enumerate():
                if thread.name == "pipeline-slow":
                    thread.join()
        made.slow = 0
        made._log_slow([{**request, "seconds": 1000.0}])
    logged = [text for text in caplog.messages if text.startswith("slow:")]
    assert [text.split()[6] for text in logged] == ["10.2", "20.5", "10.1"]
    assert logged[0] == "slow: GET / has run for 10.2 s, in v, user -\n  a\n  b"


@pytest.mark.parametrize("whose", ["of another user", "writable by others"])
def test_a_directory_of_others_is_not_used__S25(
    whose: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user could take the instance out by a mark, or have a file made by a link."""
    monkeypatch.setenv(DRAINING, "")
    monkeypatch.delenv(DRAINING)
    if whose == "of another user":
        monkeypatch.setattr("pipeline.running.process.os.geteuid", lambda: tmp_path.stat().st_uid + 4_000)
        if tmp_path.stat().st_uid == 0:
            os.chown(tmp_path, 12345, -1)
    else:
        tmp_path.chmod(0o1777)
    (tmp_path / "draining").touch()
    process.start(str(tmp_path), "", 0, 0)
    assert [file.name for file in tmp_path.iterdir()] == ["draining"]
    assert not is_draining()
    assert "other users may write there" in caplog.text


def test_a_directory_that_cannot_be_used_stops_no_site(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    Watch(str(tmp_path / "file" / "watch"), "", 10.0, 0).start()
    assert "pipeline top does not see this process" in caplog.text
    assert processes(str(tmp_path / "none")) == []


def told(*seconds: float, threads: int | None = 2, slow: float = 10.0) -> dict[str, Any]:
    requests = [{"seconds": one, "method": "GET", "path": "/", "view": "v", "element": "e"} for one in seconds]
    return {"pid": 7, "threads": threads, "slow": slow, "requests": requests}


@pytest.mark.parametrize(
    ("process", "word"),
    [
        (told(), "ready"),
        (told(60.0), "ready"),
        (told(60.0, 3.0), "busy"),
        (told(60.0, 11.0), "hangs"),
        (told(60.0, 11.0, slow=0), "busy"),
        (told(60.0, 60.0, threads=None), "ready"),
        ({"pid": 7}, "hangs"),
    ],
)
def test_the_state_of_a_process(process: dict[str, Any], word: str) -> None:
    assert state_of(process).word == word
    assert str(state_of(process)).startswith(f"process 7 {word}")


READY, BUSY, HANGS = (State(1, word, "") for word in ("ready", "busy", "hangs"))


@pytest.mark.parametrize(
    ("states", "draining", "alive", "ready"),
    [
        ([READY, READY], False, True, True),
        ([BUSY, BUSY], False, True, True),
        ([HANGS, READY], False, True, True),
        ([HANGS, HANGS], False, False, False),
        ([READY, READY], True, True, False),
        ([], False, False, False),
    ],
)
def test_what_a_probe_says(states: list[State], draining: bool, alive: bool, ready: bool) -> None:
    assert verdict("/alive", states, draining)[0] is alive
    assert verdict("/ready", states, draining)[0] is ready
    text = verdict("/", states, draining)[1]
    first, *lines = text.split("\n")
    assert first == ("draining" if draining else "ready" if ready else "not ready") and len(lines) == len(states)
