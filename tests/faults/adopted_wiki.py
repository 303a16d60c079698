"""A site in the pipeline that ``pipeline adopt`` has written, killed and in conflict.

``python adopted_wiki.py JOB``, in the directory of the site. JOB is a file in JSON:

=========  ==========================================================================================
ini        the ini to load. The app is loaded once, and each process that serves it is a fork, so that
           fifty kills take seconds
kills      how often the server is killed while it is written to
conflicts  how many further attempts of ``retry`` are waited for, before the kills
longest    seconds after which no more conflicts are waited for; 60 without it
writers    how many users write at the same time
processes  how many processes serve, with four threads in all
login      path and fields of the form that a user logs in by
write      path and fields of the form that stores one write; ``{id}`` is the id of the write
stored     a command that prints each id that the database has, one on a line. It runs when the last
           server is dead
=========  ==========================================================================================

Prints JSON: figures, and what the ledger finds.
"""

from __future__ import annotations

import gc
import http.client
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import waitress

from pipeline.adopting.asking import hidden_fields
from pipeline.elements.retry import Start
from pipeline.paste import load
from pipeline.testing import Ledger

sys.path.insert(0, str(Path.cwd()))
fork = multiprocessing.get_context("fork")
conflicts = fork.Value("i", 0)
Fields = Mapping[str, str]


def count_attempts() -> None:
    """Count what ``retry`` tries again, in all processes."""
    restore = Start.restore

    def counted(*arguments: Any) -> None:
        with conflicts.get_lock():
            conflicts.value += 1
        restore(*arguments)

    Start.restore = counted  # type: ignore[method-assign]


class Editor:
    """A user who is logged in, with the cookies of a browser and the hidden fields of the forms."""

    def __init__(self, port: int, job: Mapping[str, Any]) -> None:
        self.port = port
        self.cookies: dict[str, str] = {}
        self.hidden: dict[str, str] = {}
        self.path, self.fields = job["write"]
        path, fields = job["login"]
        self.see(path)
        status, _, _ = self.ask("POST", path, {**fields, **self.hidden})
        assert status in (302, 303), status
        self.see(self.path)

    def see(self, path: str) -> None:
        """Ask for a page with a form, and keep its hidden fields."""
        status, _, page = self.ask("GET", path.format(id="x"))
        assert status == 200, (path, status)
        self.hidden = hidden_fields(page.encode("latin-1"))

    def write(self, id: str) -> tuple[int, str]:
        """Send one write; return the status, 0 if the connection was cut, and the header X-Outcome.

        A form that comes again, with the reason why it was not taken, is a 400.
        """
        fields = {name: value.format(id=id) for name, value in self.fields.items()}
        status, outcome, _ = self.ask("POST", self.path.format(id=id), {**self.hidden, **fields})
        return 400 if status == 200 else status, outcome

    def ask(self, method: str, path: str, fields: Fields | None = None) -> tuple[int, str, str]:
        """Return the status, 0 if the connection was cut, the header X-Outcome, and the body."""
        body = urlencode(fields) if fields is not None else None
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            page = answer.read().decode("latin-1")
        except (OSError, http.client.HTTPException):
            return 0, "", ""
        finally:
            connection.close()
        for cookie in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer.status, answer.getheader("X-Outcome", ""), page


def forget_connections() -> None:
    """Have a fork open its own connections, where a site has opened some when it was loaded."""
    if "sqlalchemy" in sys.modules:
        engine = sys.modules["sqlalchemy"].engine.Engine
        for one in gc.get_objects():
            if isinstance(one, engine):
                one.dispose(close=False)


def served(app: Any, listener: socket.socket, processes: int) -> list[int]:
    """Serve the app in forks, with four threads in all; return the process ids."""
    pids = []
    for _ in range(processes):
        if (pid := os.fork()) == 0:
            try:
                forget_connections()
                waitress.serve(app, sockets=[listener], threads=4 // processes, _quiet=True)
            finally:
                os._exit(1)
        pids.append(pid)
    return pids


def kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def write(editor: Editor, ledger: Ledger, lock: threading.Lock, stop: threading.Event) -> None:
    """Store writes until told to stop."""
    while not stop.is_set():
        with lock:
            id = f"W{ledger.send()}"
        status, outcome = editor.write(id)
        with lock:
            ledger.answered(id[1:], status, outcome)
        if not status:
            time.sleep(0.002)


def writing(editors: list[Editor], ledger: Ledger) -> Any:
    """Begin to write with each editor; return what ends it."""
    stop, lock = threading.Event(), threading.Lock()
    threads = [threading.Thread(target=write, args=(editor, ledger, lock, stop)) for editor in editors]
    for thread in threads:
        thread.start()

    def end() -> None:
        stop.set()
        for thread in threads:
            thread.join()

    return end


def main(job: Mapping[str, Any]) -> None:
    count_attempts()
    app = load(f"config:{Path(job['ini']).absolute()}")
    listener = socket.create_server(("127.0.0.1", 0))
    ledger, chance = Ledger(), random.Random(7)
    pids = served(app, listener, job["processes"])
    editors = [Editor(listener.getsockname()[1], job) for _ in range(job["writers"])]
    begin, ends = time.monotonic(), time.monotonic() + job.get("longest", 60)
    end = writing(editors, ledger)
    while conflicts.value < job["conflicts"] and time.monotonic() < ends:
        time.sleep(0.05)
    end()
    in_conflict, found = ledger.counts(), conflicts.value
    for _ in range(job["kills"]):
        end = writing(editors, ledger)
        time.sleep(chance.uniform(0.02, 0.2))
        kill(pids)
        pids = served(app, listener, job["processes"])
        end()
    kill(pids)
    read = subprocess.run(job["stored"], stdout=subprocess.PIPE, text=True, check=True)
    figures = {
        "kills": job["kills"],
        "conflicts": found,
        "conflicts with the kills": conflicts.value,
        "in_conflict": in_conflict,
        "all": ledger.counts(),
        "lost": ledger.judge([line[1:] for line in read.stdout.split() if line.startswith("W")]),
        "seconds": round(time.monotonic() - begin),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text("utf-8")))
