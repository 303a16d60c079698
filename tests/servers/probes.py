"""What is asked of each server: each probe returns "good", or what the server does instead in a few words."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import socket
import threading
import time
from ast import literal_eval
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple, Self

GOOD = "good"
PROBES: dict[str, Callable[[Target], str]] = {}
"""By what the table calls them, in its order."""
BODY = bytes(range(256)) * 300
MEGABYTE = bytes(range(256)) * 4096
LOGIN = "Basic " + b64encode(b"admin:secret").decode()


class Target(NamedTuple):
    """Where the site is."""

    port: int
    prefix: str = ""

    def head(self, method: str, path: str, *headers: str, version: str = "HTTP/1.1") -> bytes:
        lines = [f"{method} {self.prefix}{path} {version}", f"Host: 127.0.0.1:{self.port}", *headers, "", ""]
        return "\r\n".join(lines).encode("latin-1")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def ask(self, method: str, path: str, *headers: str, body: bytes = b"", version: str = "HTTP/1.1") -> Answer:
        """One request on a connection of its own."""
        with closing(self.connect()) as connection:
            connection.sendall(self.head(method, path, *headers, version=version) + body)
            return read(connection, method)


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes
    whole: bool


def read(connection: socket.socket, method: str = "GET") -> Answer:
    """Read an answer to its end."""
    response = http.client.HTTPResponse(connection, method=method)
    try:
        response.begin()
        body = response.read()
    except http.client.IncompleteRead as error:
        return Answer(response.status, response.headers, error.partial, False)
    except (http.client.HTTPException, OSError) as error:
        return Answer(0, http.client.HTTPMessage(), str(error).encode(), False)
    finally:
        response.close()
    return Answer(response.status, response.headers, body, True)


def chunked(body: bytes, size: int = 10_000) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def echoed(answer: Answer, body: bytes) -> str:
    """Whether the view has seen the body."""
    if answer.status != 200:
        return f"{answer.status or 'no answer'}"
    length, digest = answer.body.decode().split()
    if digest == hashlib.sha256(body).hexdigest():
        return GOOD
    return "arrives empty" if length == "0" else "arrives in part"


def probe(name: str) -> Callable[[Callable[[Target], str]], Callable[[Target], str]]:
    def decorate(function: Callable[[Target], str]) -> Callable[[Target], str]:
        PROBES[name] = function
        return function

    return decorate


@probe("GET")
def get(target: Target) -> str:
    answer = target.ask("GET", "/")
    return GOOD if answer.status == 200 and b"<h1" in answer.body and answer.whole else str(answer.status)


@probe("HEAD")
def head(target: Target) -> str:
    with closing(target.connect()) as connection:
        connection.sendall(target.head("HEAD", "/", "Connection: close"))
        answer = b""
        while block := connection.recv(65536):
            answer += block
    start, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in start.partition(b"\r\n")[0]:
        return start.decode("latin-1")[:40]
    return "a body is sent" if body else GOOD


@probe("POST with a length")
def post(target: Target) -> str:
    return echoed(target.ask("POST", "/@@echo", f"Content-Length: {len(BODY)}", body=BODY), BODY)


@probe("POST in chunks")
def post_chunked(target: Target) -> str:
    return echoed(target.ask("POST", "/@@echo", "Transfer-Encoding: chunked", body=chunked(BODY)), BODY)


@probe("PUT in chunks, read back")
def put_chunked(target: Target) -> str:
    text = b"# A page\n\n" + b"A line of text that is stored.\n" * 3000
    headers = ("Transfer-Encoding: chunked", f"Authorization: {LOGIN}", "Content-Type: text/markdown")
    answer = target.ask("PUT", "/probe.md", *headers, body=chunked(text))
    if answer.status not in (201, 204):
        return f"{answer.status or 'no answer'}"
    found = target.ask("GET", "/probe.md")
    lines = found.body.count(b"A line of text that is stored.")
    return {3000: GOOD, 0: "arrives empty"}.get(lines, "arrives in part")


CHUNKED = "Transfer-Encoding: chunked"
CHUNK = b"6\r\nA page\r\n"
BROKEN_CHUNKS = {
    "a first size ZZ": (CHUNKED, b"ZZ\r\nA page\r\n0\r\n\r\n"),
    "a later size ZZ": (CHUNKED, CHUNK + b"ZZ\r\nA page\r\n0\r\n\r\n"),
    "a negative size": (CHUNKED, CHUNK + b"-6\r\nA page\r\n0\r\n\r\n"),
    "a missing CRLF": (CHUNKED, b"6\r\nA page" + CHUNK + b"0\r\n\r\n"),
    "an end between chunks": (CHUNKED, CHUNK),
    "an end in a chunk": (CHUNKED, CHUNK + b"6\r\nA p"),
}
"""A header and a body that is malformed or breaks off, by what is wrong with it."""
BROKEN_LENGTHS = {
    "an early end": ("Content-Length: 60", b"A page"),
    "no body": ("Content-Length: 6", b""),
    "a word": ("Content-Length: six", b"A page"),
    "a negative length": ("Content-Length: -6", b"A page"),
    "two lengths": ("Content-Length: 6\r\nContent-Length: 3", b"A page"),
    "two lengths in one": ("Content-Length: 6, 3", b"A page"),
}


def broken_bodies(target: Target, bodies: dict[str, tuple[str, bytes]]) -> str:
    """PUT each body on a page of its own, and end the connection after it. No page may be another one then."""
    login, before = f"Authorization: {LOGIN}", b"The text before."
    pages = {name: f"/broken-{number}.md" for number, name in enumerate(bodies)}
    for name, page in pages.items():
        made = target.ask("PUT", page, f"Content-Length: {len(before)}", login, body=before)
        if made.status not in (201, 204):
            return f"{made.status} for a good one"
        header, body = bodies[name]
        with closing(target.connect()) as connection:
            connection.sendall(target.head("PUT", page, header, login) + body)
            connection.shutdown(socket.SHUT_WR)
            read(connection, "PUT")
    time.sleep(1)  # a server may close the connection before the site has read the body
    stored = [name for name, page in pages.items() if before not in target.ask("GET", page).body]
    return f"stores {', '.join(stored)}" if stored else GOOD


@probe("chunks that are malformed or cut: refused")
def broken_chunks(target: Target) -> str:
    return broken_bodies(target, BROKEN_CHUNKS)


@probe("lengths that are malformed or too long: refused")
def broken_lengths(target: Target) -> str:
    return broken_bodies(target, BROKEN_LENGTHS)


@probe("10 MB up")
def large_up(target: Target) -> str:
    body = MEGABYTE * 10
    return echoed(target.ask("POST", "/@@echo", f"Content-Length: {len(body)}", body=body), body)


@probe("10 MB down")
def large_down(target: Target) -> str:
    for path in ("/@@large", "/@@file"):
        answer = target.ask("GET", path)
        if answer.status != 200 or answer.body != MEGABYTE * 10:
            return f"{path}: {answer.status}, {len(answer.body)} bytes"
    return GOOD


def shown(target: Target, path: str, *headers: str) -> tuple[str, str, str, str] | str:
    answer = target.ask("GET", f"/@@show{path}", *headers)
    return literal_eval(answer.body.decode()) if answer.status == 200 else str(answer.status or "no answer")


@probe("``%2F`` in a path")
def slash(target: Target) -> str:
    found = shown(target, "/a%2Fb")
    if isinstance(found, str):
        return found
    return {"/a/b": GOOD, "/a%2Fb": "stays %2F"}.get(found[1], found[1])


@probe("a path in UTF-8")
def utf8(target: Target) -> str:
    found = shown(target, "/caf%C3%A9")
    return GOOD if found[1] == "/caf\xc3\xa9" else str(found)


@probe("a path that is not UTF-8")
def not_utf8(target: Target) -> str:
    answer = target.ask("GET", "/@@show/caf%E9")
    return GOOD if answer.status == 400 else str(answer.status)


@probe("one header twice")
def twice(target: Target) -> str:
    found = shown(target, "", "X-Two: 1", "X-Two: 2")
    words = {"1,2": GOOD, "1, 2": GOOD, "1": "the first one arrives", "2": "the last one arrives"}
    return words.get(found[2], f"{found[2]!r}")


@probe("a header beyond ASCII")
def beyond_ascii(target: Target) -> str:
    found = shown(target, "", "X-Text: caf\xe9")
    if isinstance(found, str):
        return found
    return {"caf\xe9": GOOD, "": "arrives empty", "None": "is dropped"}.get(str(found[3]), f"{found[3]!r}")


@probe("16,000 bytes of cookies")
def cookies(target: Target) -> str:
    """The answer to a POST, which is committed then, has four cookies of ``session``, and they come back."""
    answer = target.ask("POST", "/@@cookies", "Content-Length: 0")
    if answer.status != 200:
        return f"{answer.status or 'no answer'} to those of the site"
    sent = [cookie.partition(";")[0] for cookie in answer.headers.get_all("Set-Cookie", [])]
    if [len(cookie) for cookie in sent] != [4003] * 4:
        return f"{len(sent)} of the site's arrive"
    back = target.ask("POST", "/@@cookies", f"Cookie: {'; '.join(sent)}", "Content-Length: 0")
    return GOOD if back.body == b"16018" else f"{back.status} to those of a browser"


@probe("two Hosts: 400")
def two_hosts(target: Target) -> str:
    answer = target.ask("GET", "/", "Host: www.example.com")
    return GOOD if answer.status == 400 else str(answer.status)


@probe("Content-Length with Transfer-Encoding: 400, closed")
def smuggling(target: Target) -> str:
    with closing(target.connect()) as connection:
        headers = ("Content-Length: 4", "Transfer-Encoding: chunked")
        connection.sendall(target.head("POST", "/@@echo", *headers) + chunked(b"abcd"))
        answer = read(connection, "POST")
        words = f"{'refused' if answer.status >= 400 else 'served'} ({answer.status})"
        connection.settimeout(3)
        try:
            connection.sendall(target.head("GET", "/"))
            more = connection.recv(1000)
        except TimeoutError:
            more = b"?"
        except OSError:
            more = b""
    if more:
        return f"{words}, and kept"
    return GOOD if answer.status == 400 else f"{words}, and closed"


def expect(target: Target, *headers: str) -> str:
    with closing(target.connect()) as connection:
        length = f"Content-Length: {len(BODY)}"
        connection.sendall(target.head("POST", "/@@echo", length, "Expect: 100-continue", *headers))
        connection.settimeout(2)
        try:
            first = connection.recv(25, socket.MSG_PEEK)
        except TimeoutError:
            first = b""
        if first.startswith(b"HTTP/1.1 100"):
            while not first.endswith(b"\r\n\r\n"):
                first = connection.recv(1)[-1:] if first.startswith(b"HTTP/1.1 100") else first + connection.recv(1)
        elif first:
            return f"{read(connection, 'POST').status}"
        connection.settimeout(20)
        connection.sendall(BODY)
        found = echoed(read(connection, "POST"), BODY)
    return found if first else "no 100 Continue"


@probe("Expect: 100-continue")
def expect_alone(target: Target) -> str:
    return expect(target)


@probe("Expect with Connection: close")
def expect_close(target: Target) -> str:
    return expect(target, "Connection: close")


@probe("blocks arrive as they are made")
def blocks(target: Target) -> str:
    with closing(target.connect()) as connection:
        connection.sendall(target.head("GET", "/@@blocks", "Connection: close"))
        times = []
        while connection.recv(65536):
            times.append(time.monotonic())
    return GOOD if times and times[-1] - times[0] > 0.4 else "held back"


@probe("a stream that fails is seen to fail")
def broken(target: Target) -> str:
    answer = target.ask("GET", "/@@broken", "Connection: close")
    if answer.status == 500 or answer.status == 502:
        return GOOD
    return "looks complete" if answer.whole else GOOD


@probe("an exception is a page")
def exception(target: Target) -> str:
    answer = target.ask("GET", "/@@boom")
    return GOOD if answer.status == 500 and answer.whole and answer.body else str(answer.status)


@probe("a login by HTTP basic")
def login(target: Target) -> str:
    refused = target.ask("GET", "/@@add-document", "Authorization: Basic YWRtaW46bm90")
    allowed = target.ask("GET", "/@@add-document", f"Authorization: {LOGIN}")
    return GOOD if (refused.status, allowed.status) == (401, 200) else f"{refused.status}, {allowed.status}"


@probe("conditional and range requests")
def conditional(target: Target) -> str:
    same = target.ask("GET", "/@@file", 'If-None-Match: "large"')
    part = target.ask("GET", "/@@file", "Range: bytes=256-511")
    found = (same.status, same.body, part.status, part.body)
    return GOOD if found == (304, b"", 206, bytes(range(256))) else f"{same.status}, {part.status}"


@probe("HTTP/1.0")
def old(target: Target) -> str:
    answer = target.ask("GET", "/", version="HTTP/1.0")
    return GOOD if answer.status == 200 and answer.whole else str(answer.status)


@probe("clients that leave")
def leave(target: Target) -> str:
    for path in ("/@@large", "/@@blocks", "/@@file"):
        with closing(target.connect()) as connection:
            connection.sendall(target.head("GET", path))
            connection.recv(1000)
    return get(target)


@probe("``/++vh++`` from outside")
def virtual_host(target: Target) -> str:
    answer = target.ask("GET", "/++vh++http:evil.example:80/++/")
    return GOOD if answer.status in (400, 403, 404) and b"evil" not in answer.body else str(answer.status)


@probe("``X-Forwarded-Proto`` from outside")
def forwarded_scheme(target: Target) -> str:
    """A visitor whose address the site does not trust chooses no scheme of links, by any header of those known."""
    headers = ("X-Forwarded-Proto: https", "X-Forwarded-Protocol: ssl", "X-Forwarded-Ssl: on")
    with closing(socket.create_connection(("127.0.0.1", target.port), 20, ("127.0.0.2", 0))) as connection:
        connection.sendall(target.head("GET", "/", *headers, "Connection: close"))
        home = read(connection)
    if home.status == 400:  # gunicorn, to headers that contradict that of nginx
        return GOOD
    links = links_of(home)
    if home.status != 200 or not links:
        return f"{home.status}, {len(links)} links"
    return "is believed" if any(link.startswith("https://127.0.0.1") for link in links) else GOOD


def links_of(answer: Answer) -> list[str]:
    """Return the links of a page that name a scheme."""
    return [link for link in answer.body.decode().split('href="')[1:] if link.startswith("http")]


def at_a_prefix(target: Target) -> str:
    """Links and redirects stay below the prefix and keep the port."""
    home = target.ask("GET", "/")
    links = links_of(home)
    if home.status != 200 or not all(
        link.startswith(f"http://127.0.0.1:{target.port}{target.prefix}/") for link in links
    ):
        return f"{home.status}, {[link[:50] for link in links[:2]]}"
    answer = target.ask("GET", "/docs")
    place = answer.headers["Location"] or ""
    right = (f"http://127.0.0.1:{target.port}{target.prefix}/docs/", f"{target.prefix}/docs/")
    return GOOD if place in right else f"{answer.status} {place}"


class Threads:
    """Threads that send requests, from the beginning to the end of a ``with`` block."""

    def __init__(self, *sending: Callable[[], object]) -> None:
        self.stopping = threading.Event()
        """Set at the end of the block. Then the functions return."""
        self.threads = [threading.Thread(target=send) for send in sending]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()


PAUSE = 0.05
"""Seconds between two requests of a client: the processor is for the server, which starts anew."""


class Load(Threads):
    """Clients that ask which process answers, until they are told to stop."""

    def __init__(self, target: Target, clients: int, method: str = "GET") -> None:
        super().__init__(*[self.ask] * clients)
        self.target = target
        self.method = method
        self.answers: list[str] = []
        """The process, or what went wrong: "no answer" on a connection, "cut" where one ends early, its status, or
        the error's class."""

    def ask(self) -> None:
        while not self.stopping.is_set():
            try:
                answer = self.target.ask(self.method, "/@@process", "Connection: close", "Content-Length: 0")
                if answer.whole:
                    said = answer.body.decode() if answer.status == 200 else f"status {answer.status}"
                else:
                    said = "cut" if answer.status else "no answer"
                self.answers.append(said)
            except OSError as error:
                self.answers.append(type(error).__name__)
            time.sleep(PAUSE)

    def processes(self, since: int = 0) -> set[str]:
        """Return the processes that have answered, but for the first ``since`` answers."""
        return set(filter(str.isdecimal, self.answers[since:]))


LONG = {"/@@nap": 6, "/@@blocks": 48, "/@@file": 10 * 2**20, "/@@stream?megabytes=10": 10 * 2**20}
"""The bytes of an answer that takes its time, of blocks that do, of a file, and of a stream."""


def slowly(target: Target, into: dict[str, str]) -> list[threading.Thread]:
    """Read the long answers slowly, each by a thread; say in ``into`` whether each came whole."""

    def read_it(path: str) -> None:
        into[path] = "is cut"
        with contextlib.suppress(OSError), closing(socket.socket()) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            connection.settimeout(20)
            connection.connect(("127.0.0.1", target.port))
            connection.sendall(target.head("GET", path, "Connection: close"))
            response = http.client.HTTPResponse(connection)
            response.begin()
            size = 0
            with contextlib.suppress(http.client.HTTPException), closing(response):
                while block := response.read(65536):
                    size += len(block)
                    time.sleep(0.01)
                if response.status == 200 and size == LONG[path]:
                    into[path] = GOOD

    readers = [threading.Thread(target=read_it, args=(path,)) for path in LONG]
    for reader in readers:
        reader.start()
    return readers
