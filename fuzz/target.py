"""The parts that the targets share: the instrumented imports, a small site, and the judge."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["pipeline", "multipart", "webob"]):
    import pipeline.elements.errors
    import pipeline.elements.forms
    import pipeline.elements.retry
    import pipeline.elements.traverse
    import pipeline.elements.vhost
    import pipeline.publisher
    import pipeline.publishing.xmlrpc
    from pipeline import Pipeline, Request, view
    from pipeline.interfaces import PUBLIC, INamespace, INullResource, IXMLRPCRequest
    from pipeline.views import adapter

VAR = Path(__file__).resolve().parents[1] / "var" / "fuzz"
"""The findings: by target, inputs that reach new code; and those that broke the promise."""
SLOWER = 1000
"""How many times as long as a plain input of its length an input may take."""
NOTICEABLE = 0.1
"""Seconds. What takes less is not judged: the collector of garbage may have run."""

Environ = dict[str, Any]
Make = Callable[[bytes], Environ]


class Broken(Exception):
    """The promise does not hold."""


class Folder(dict[str, Any]):
    __parent__: Any = None
    __name__ = ""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(judge_name(name))


def judge_name(name: str) -> str:
    """Return the name of a step; Broken, and so a 500, if it is one that must not be reached (S3, S14)."""
    if not name or name[0] == "_" or name in (".", "..") or not {"\0", "/"}.isdisjoint(name):
        raise Broken(f"reached {name!r}")
    return name


@adapter(Folder, INamespace, name="own")
class Own:
    """A namespace that checks nothing itself."""

    def __init__(self, context: Folder) -> None:
        self.context = context

    def step(self, request: Request, name: str) -> Any:
        return self.context[judge_name(name)]


@adapter(Folder, INullResource)
class New:
    """A PUT of a name that is not there is published on this."""

    def __init__(self, container: Folder) -> None: ...

    def __setattr__(self, attribute: str, name: str) -> None:
        super().__setattr__(attribute, judge_name(name))


ROOT = Folder(a=Folder(b=Folder()))
for name, parent in (("a", ROOT), ("b", ROOT["a"])):
    parent[name].__parent__, parent[name].__name__ = parent, name


@view(context=Folder, methods=("GET", "POST"))
def show(context: Folder, request: Request) -> str:
    return f"{request.absolute_url(context)} {dict(request.form)!r}"


@view(context=Folder, name="edit", methods=("GET", "POST"))
def edit(context: Folder, request: Request) -> str:
    return request.url


@view(context=New, methods=("PUT",))
def put(context: Any, request: Request) -> str:
    return str(context.__name__)


@view(context=Folder, name="echo", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def echo(context: Folder, request: Request, value: Any = 1, start: int = 0) -> Any:
    return [value, list(islice("abc", min(max(start, 0), 3), None))]


@view(context=Folder, methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def call(context: Folder, request: Any, response: Any) -> bytes:
    """Call a method. Without this, ``show`` would answer: it is the view of a folder, for any kind of request."""
    return pipeline.publishing.xmlrpc.call(context, request, response)


SCAN = (__name__, "pipeline.publishing.namespaces", "pipeline.publishing.xmlrpc")


def site(*outer: Any, request_type: Any = None) -> Pipeline:
    return Pipeline(
        *outer,
        pipeline.elements.retry.retry(),
        pipeline.elements.errors.errors(),
        pipeline.elements.forms.forms(max_parts=20, max_memory=2000, max_fields=20, max_header=200),
        pipeline.elements.traverse.traverse(root=lambda: ROOT, request_type=request_type),
        pipeline.publisher.publisher(scan=SCAN),
    )


def environ(path: str = "/", body: bytes = b"", **headers: str) -> Environ:
    """A request. `path` is text as in WSGI, of latin-1."""
    return {
        "REQUEST_METHOD": "POST" if body else "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "localhost",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(body)) if body else "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        **headers,
    }


def judged(app: Any, judge: Callable[[Environ, str, dict[str, str], bytes], None]) -> Any:
    """The app, with a look at what it sends: ``judge`` raises Broken if status, headers and body do not fit."""

    def judged(environ: Environ, start_response: Any) -> Any:
        started: list[Any] = []
        sent = app(environ, lambda status, headers: started.extend((status, headers)))
        body = b"".join(sent)
        if hasattr(sent, "close"):
            sent.close()
        status, headers = started
        judge(environ, status, dict(headers), body)
        start_response(status, headers)
        return [body]

    return judged


def ask(app: Pipeline, environ: Environ) -> float:
    """Judge the answer; return the seconds that it took."""
    statuses: list[str] = []

    def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
        statuses.append(status)

    start = time.process_time()
    body = app(environ, start_response)
    for _ in body:
        pass
    if hasattr(body, "close"):
        body.close()
    seconds = time.process_time() - start
    if len(statuses) != 1 or not "200" <= statuses[0] < "500":
        raise Broken(f"answered {statuses}")
    return seconds


def run(app: Pipeline, make: Make, plain: Callable[[int], bytes], seeds: Iterable[bytes] = ()) -> None:
    """Fuzz ``app`` with the requests that ``make`` makes of bytes; ``plain`` makes the bytes of a plain
    one of some length, and from ``seeds`` the fuzzer starts."""
    usual: dict[int, float] = {}

    def judge(data: bytes) -> None:
        seconds = ask(app, make(data))
        if seconds > NOTICEABLE:
            size = len(data) // 256 + 1
            if size not in usual:
                usual[size] = min(ask(app, make(plain(size * 256))) for _ in range(5))
            if seconds > SLOWER * usual[size]:
                raise Broken(f"took {seconds} seconds, and a plain one of its length {usual[size]}")

    corpus = VAR / Path(sys.argv[0]).stem
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    # Seeds stay: what they show need not be seen in the code that they reach.
    atheris.Setup([sys.argv[0], f"-artifact_prefix={VAR}/", "-keep_seed=1", *sys.argv[1:], str(corpus)], judge)
    atheris.Fuzz()
