"""Clients: threads that send requests over real sockets and enter in the ledger what became of them."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from servers.base import wait_until

CUT, REFUSED = 0, -1


class Answer(NamedTuple):
    """What a client saw. ``status`` is CUT where the connection was, and REFUSED where there was none."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float
    at: float


class Client:
    """One connection to a site, opened again when it was cut."""

    def __init__(self, port: int, timeout: float = 30) -> None:
        self.port = port
        self.timeout = timeout
        self.connection: http.client.HTTPConnection | None = None

    def ask(
        self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send one request, once: nothing is sent again by itself."""
        started = time.monotonic()
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
                self.connection.connect()
        except OSError as error:
            self.close()
            now = time.monotonic()
            return Answer(REFUSED, {}, repr(error).encode(), now - started, now)
        try:
            self.connection.request(method, target, body, headers or {})
            with self.connection.getresponse() as response:
                data = response.read()
                names: dict[str, str] = {}
                for name, value in ((name.lower(), value) for name, value in response.getheaders()):
                    names[name] = f"{names[name]}\n{value}" if name in names else value  # a line for each cookie
                status = response.status
                if response.will_close:
                    self.close()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            status, names, data = CUT, {}, repr(error).encode()
        now = time.monotonic()
        return Answer(status, names, data, now - started, now)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def get(port: int, target: str, timeout: float = 30) -> Answer:
    """One GET on a connection of its own."""
    client = Client(port, timeout)
    try:
        return client.ask("GET", target, headers={"Connection": "close"})
    finally:
        client.close()


def post(port: int, target: str, body: bytes | None = None, timeout: float = 30) -> Answer:
    client = Client(port, timeout)
    try:
        return client.ask("POST", target, body, headers={"Connection": "close"})
    finally:
        client.close()


class Load:
    """Threads that each call ``work(client, thread, number)`` again and again, until stopped.

    with Load(port, 8, work) as load:
        time.sleep(10)
    load.answers
    """

    def __init__(
        self,
        port: int | Callable[[int], int],
        threads: int,
        work: Callable[[Client, int, int], Answer],
        pause: float = 0,
    ) -> None:
        self.port = port if callable(port) else lambda thread: port
        self.work = work
        self.pause = pause
        self.answers: list[Answer] = []
        self.failures: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(threads)
        ]

    def _run(self, thread: int) -> None:
        client = Client(self.port(thread))
        try:
            for number in itertools.count():
                if self._stop.is_set():
                    break
                answer = self.work(client, thread, number)
                self.answers.append(answer)
                pause = self.pause if answer.status == 200 else max(self.pause, 0.02)
                if pause:
                    self._stop.wait(pause)
        except BaseException as error:  # a bug of the experiment
            self.failures.append(error)
        finally:
            client.close()

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        if self.failures and error[0] is None:
            raise self.failures[0]

    def wait_for_success(self, since: float, seconds: float = 30) -> float:
        """When the first answer with status 200 came after ``since`` (both of time.monotonic)."""

        def success() -> float:
            return next((a.at for a in reversed(self.answers) if a.status == 200 and a.at > since), 0.0)

        wait_until(success, seconds, "a request succeeds", 0.005)
        return min(answer.at for answer in self.answers[:] if answer.status == 200 and answer.at > since)


def percentile(values: list[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0
