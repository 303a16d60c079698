"""The suite ``frameworks``: kinds of requests to the whole pipeline of etc/deploy.ini, beside other frameworks.

Valgrind counts the instructions of each request, which are the same whatever else the machine does. Without
valgrind the suite measures microseconds.

This pipeline has all that stands in that ini: an access log (to /dev/null), transaction, session, forms, secure
headers, compression. The others have what is said at their sites, and none of them has a log. No client accepts
compression here. Frameworks of ASGI are called without a server and without a loop, but for files, which they read
in threads.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from bench import request_site
from bench.default import INI
from bench.measure import Contender, Environ, Figure, Result, Table, calls, check, compare
from bench.requests import FIELDS, KINDS, PASSES, SITES, Kind, Site, _cookie, _Root, contenders, pyramid

ROWS = ("page", "table by Jinja2", "query of 3 fields", "POST of 5 fields", "JSON", "redirect", "404 of a browser")
FILES = ("static file of 2 kB", "its 304", "a part of it")
ROWS += ("500", "signed session", *FILES)


def pipeline() -> Site:
    """etc/deploy.ini with the views of the benchmarks."""
    from pipeline.elements import log
    from pipeline.paste import load

    directory = tempfile.mkdtemp(prefix="bench-frameworks-")
    text = INI.read_text("utf-8")
    for old, new in {
        "file = stdout": "file = /dev/null",
        "#traverse\n": "#traverse\nroot = bench.site:root\n",
        "scan = pipeline_demo.views pipeline_demo.users": f"scan = bench.site {' '.join(SCAN)}",
        "check = pipeline_demo:check": "check = bench.request_site:user",
        "sessions = pipeline_demo:sessions\n": "",
        "%(here)s/../var": directory,
    }.items():
        if old not in text:
            raise SystemExit(f"etc/deploy.ini has no {old!r}")
        text = text.replace(old, new)
    ini = Path(directory, "deploy.ini")
    ini.write_text(text, encoding="utf-8")
    app = load(f"config:{ini}")
    # Each second the log looks at its file once. Under valgrind, on a busy machine, a second has few requests.
    vars(log)["time"] = SimpleNamespace(**vars(time) | {"time": partial(float, time.time())})
    session = app.offered["login_session"]
    cookie = session.serializer.dumps(("ann", "a token of the session", 0))
    return Site(app, None, request_site.static.url(_Root(), "style.css"), f"{session.name}={cookie}")


SCAN = ("bench.request_site", "pipeline.publishing.json")


def django() -> Site:
    """Django as ``startproject`` makes it, without what needs its database, and with WhiteNoise."""
    import django as framework
    from django.conf import settings
    from django.core.handlers.wsgi import WSGIHandler
    from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
    from django.urls import path
    from django.views.decorators.csrf import csrf_exempt

    def fail(request: Any) -> Any:
        raise ZeroDivisionError

    def login(request: Any) -> Any:
        request.session["user"] = "ann"
        return HttpResponse("ok")

    def moved(request: Any) -> Any:
        answer = HttpResponseRedirect("/a/b/c")
        answer.status_code = 303
        return answer

    views: dict[str, Callable[[Any], Any]] = {
        "": lambda request: HttpResponse("hello"),
        "table": lambda request: HttpResponse(request_site.table_page()),
        "form": lambda request: HttpResponse("{a} {b} {c}".format_map(request.GET)),
        "post": csrf_exempt(lambda request: HttpResponse(" ".join(request.POST[name] for name in FIELDS))),
        "json": lambda request: JsonResponse(request_site.ITEMS, json_dumps_params={"separators": (",", ":")}),
        "moved": moved,
        "fail": fail,
        "user": lambda request: HttpResponse(f"hello {request.session['user']}"),
        "login": login,
    }

    def routed(view: Callable[[Any], Any]) -> Callable[..., Any]:
        def page(request: Any, a: str, b: str, c: str) -> Any:
            return view(request)

        return csrf_exempt(page) if view is views["post"] else page

    urls = ModuleType("bench_django_urls")
    place = "<str:a>/<str:b>/<str:c>"
    patterns = [path(f"{place}/{name}".rstrip("/"), routed(view)) for name, view in views.items()]
    vars(urls)["urlpatterns"] = patterns
    settings.configure(
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=urls,
        SECRET_KEY="x" * 50,
        SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
        STATIC_URL="/static/",
        STATIC_ROOT=request_site.static.top,
        MIDDLEWARE=[
            "django.middleware.security.SecurityMiddleware",
            "whitenoise.middleware.WhiteNoiseMiddleware",
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.middleware.clickjacking.XFrameOptionsMiddleware",
        ],
    )
    framework.setup()
    app = WSGIHandler()
    return Site(app, cookie=_cookie(app))


class FromAsgi:
    """An application of ASGI as one of WSGI, which adds as little as it can."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.loop = asyncio.new_event_loop()
        self.scopes: dict[tuple[str, ...], dict[str, Any]] = {}

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        told = "HTTP_COOKIE", "HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE", "HTTP_RANGE", "QUERY_STRING"
        key = environ["PATH_INFO"], *(environ.get(name, "") for name in told)
        scope = self.scopes.get(key) or self.scopes.setdefault(key, self._scope(environ))
        body = environ["wsgi.input"].read() if "CONTENT_LENGTH" in environ else b""
        answer: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            answer.append(message)

        running = self.app(scope.copy(), receive, send)
        if environ["PATH_INFO"].startswith("/static"):
            self.loop.run_until_complete(running)
        else:
            try:
                running.send(None)
            except StopIteration:
                pass
            except ZeroDivisionError:  # Starlette raises it again when it has answered
                pass
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer[0]["headers"]]
        start_response(f"{answer[0]['status']} -", headers)
        return [message.get("body", b"") for message in answer[1:]]

    def _scope(self, environ: Environ) -> dict[str, Any]:
        """Return what a server tells of a request."""
        names = {name: name.removeprefix("HTTP_") for name in environ if name.startswith("HTTP_")}
        names |= {name: name for name in ("CONTENT_TYPE", "CONTENT_LENGTH") if name in environ}
        headers = [
            (short.lower().replace("_", "-").encode(), environ[name].encode()) for name, short in names.items()
        ]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": environ["REQUEST_METHOD"],
            "scheme": "http",
            "path": environ["PATH_INFO"],
            "raw_path": environ["PATH_INFO"].encode(),
            "query_string": environ["QUERY_STRING"].encode(),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8080),
            "state": {},
        }


def fastapi() -> Site:
    """FastAPI with the sessions and the files of Starlette."""
    import fastapi as framework
    from fastapi import Request
    from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
    from fastapi.staticfiles import StaticFiles
    from starlette.middleware.sessions import SessionMiddleware

    app = framework.FastAPI()
    app.add_middleware(SessionMiddleware, secret_key="x" * 40)
    place = "/{u}/{v}/{w}"

    @app.get(place, response_class=HTMLResponse)
    async def page(u: str, v: str, w: str) -> str:
        return "hello"

    @app.get(f"{place}/table", response_class=HTMLResponse)
    async def table(u: str, v: str, w: str) -> str:
        return request_site.table_page()

    @app.get(f"{place}/form", response_class=HTMLResponse)
    async def form(u: str, v: str, w: str, a: str, b: str, c: str) -> str:
        return f"{a} {b} {c}"

    async def post(request: Any, u: str, v: str, w: str) -> Any:
        sent = await request.form()
        return HTMLResponse(" ".join(str(sent[name]) for name in FIELDS))

    async def json(u: str, v: str, w: str) -> Any:
        return JSONResponse(request_site.ITEMS)

    async def moved(u: str, v: str, w: str) -> Any:
        return RedirectResponse("/a/b/c", 303)

    async def fail(u: str, v: str, w: str) -> str:
        raise ZeroDivisionError

    async def user(request: Any, u: str, v: str, w: str) -> Any:
        return HTMLResponse(f"hello {request.session['user']}")

    async def login(request: Any, u: str, v: str, w: str) -> str:
        request.session["user"] = "ann"
        return "ok"

    for view in (post, user, login):
        view.__annotations__["request"] = Request
    for view in (json, moved, fail, user, login, post):
        view.__annotations__.pop("return")
        method = app.post if view is post else app.get
        method(f"{place}/{view.__name__}")(view)
    app.mount("/static", StaticFiles(directory=request_site.static.top))
    served = FromAsgi(app)
    return Site(served, cookie=_cookie(served))


def litestar() -> Site:
    """Litestar with its files; its sessions need a further package."""
    from litestar import Litestar, MediaType, Request, get, post
    from litestar.response import Redirect
    from litestar.static_files import create_static_files_router

    place = "/{u:str}/{v:str}/{w:str}"

    async def page(u: str, v: str, w: str) -> str:
        return "hello"

    async def table(u: str, v: str, w: str) -> str:
        return request_site.table_page()

    async def form(u: str, v: str, w: str, a: str, b: str, c: str) -> str:
        return f"{a} {b} {c}"

    async def json(u: str, v: str, w: str) -> dict[str, Any]:
        return request_site.ITEMS

    async def fail(u: str, v: str, w: str) -> str:
        raise ZeroDivisionError

    async def moved(u: str, v: str, w: str) -> Any:
        return Redirect("/a/b/c", status_code=303)

    async def sent(u: str, v: str, w: str, request: Any) -> str:
        fields = await request.form()
        return " ".join(fields[name] for name in FIELDS)

    for view in (page, table, form, json, fail, moved, sent):
        words = {"str": str, "Any": Any, "dict[str, Any]": dict}
        view.__annotations__ = {name: words[kind] for name, kind in view.__annotations__.items()}
    sent.__annotations__["request"] = Request
    moved.__annotations__["return"] = Redirect
    html = {"media_type": MediaType.HTML}
    handlers = [
        get(place, **html)(page),
        get(f"{place}/table", **html)(table),
        get(f"{place}/form", **html)(form),
        get(f"{place}/json")(json),
        get(f"{place}/fail", **html)(fail),
        get(f"{place}/moved", status_code=303)(moved),
        post(f"{place}/post", status_code=200, **html)(sent),
        create_static_files_router(path="/static", directories=[request_site.static.top]),
    ]
    return Site(FromAsgi(Litestar(handlers, openapi_config=None)))


def whitenoise() -> Site:
    """WhiteNoise by itself, around an application of WSGI, for files alone."""
    from whitenoise import WhiteNoise

    def app(environ: Environ, start_response: Any) -> Iterable[bytes]:
        raise LookupError(environ["PATH_INFO"])

    return Site(WhiteNoise(app, root=request_site.static.top, prefix="static"))


FULL = "Pyramid + tm + retry"
PEERS = {"pipeline": pipeline, FULL: partial(pyramid, "pyramid_tm", "pyramid_retry")}
PEERS |= {name: SITES[name] for name in ("Falcon", "wheezy.web", "Flask")} | {"Django": django, "FastAPI": fastapi}
PEERS |= {"Litestar": litestar, "WhiteNoise": whitenoise}


def _answers(name: str, made: Contender) -> bool:
    """Return whether a framework can do this, and say so if it cannot."""
    try:
        check(made)
    except (SystemExit, Exception) as error:
        print(f"{name} is left out: {error!r:.300}")
        return False
    return True


def _found(names: tuple[str, ...]) -> list[str]:
    """Return the names of the frameworks that are installed."""
    modules = {name: name.lower().partition(" ")[0].partition(".")[0] for name in PEERS}
    return [name for name in PEERS if (not names or name in names) and find_spec(modules[name])]


def _made(name: str, make: Callable[[], Site]) -> dict[str, Contender]:
    """Return the contenders of a framework, by the name of the row. No client accepts compression."""
    kinds = {row: KINDS_HERE[row] for row in (FILES if make is whitenoise else ROWS)}
    made = contenders(name, make(), kinds)
    for one in made.values():
        del one.request["HTTP_ACCEPT_ENCODING"]
    return {row: one for row, one in made.items() if _answers(f"{name}: {row}", one)}


def frameworks(rounds: int = 100, seconds: float = 0.004, names: tuple[str, ...] = ()) -> Result:
    found = _found(names)
    title = "The pipeline of etc/deploy.ini, in process"
    if shutil.which("valgrind") is not None:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            counted = dict(zip(found, pool.map(_counted, found), strict=True))
        rows = {row: {name: of[row] for name, of in counted.items() if row in of} for row in ROWS}
        return {"frameworks": Table(title, "thousand instructions", rows)}
    logging.disable(logging.CRITICAL)
    made = {name: _made(name, PEERS[name]) for name in found}
    taken: dict[str, dict[str, list[float]]] = {row: {} for row in ROWS}
    for _ in range(PASSES):
        for row, times in taken.items():
            contending = [of[row] for of in made.values() if row in of]
            for name, figure in compare(contending, -(-rounds // PASSES), seconds).items():
                times.setdefault(name, []).extend(figure.rounds)
    figures = {row: {name: Figure.of(each) for name, each in times.items()} for row, times in taken.items()}
    return {"frameworks": Table(title, "µs", figures)}


MARK = "sched_yield"
"""Function of the C library at whose calls valgrind begins to count anew. Nothing else calls it here."""
WARM, COUNTED = 100, 200
"""Requests before those that are counted, and those."""


def _counted(name: str) -> dict[str, Figure]:
    """Return thousands of instructions for a request, by the name of the row, counted in one process."""
    with tempfile.TemporaryDirectory(prefix="bench-counts-") as directory:
        out = Path(directory, "out")
        command = ["valgrind", "--tool=callgrind", f"--dump-before={MARK}", "--combine-dumps=yes"]
        command += [f"--callgrind-out-file={out}", sys.executable, "-m", "bench.frameworks", name]
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        ran = subprocess.run(command, capture_output=True, text=True, env=environment)
        if ran.returncode:
            raise SystemExit(f"{name}: {ran.stderr}")
        counts = [int(count) for count in re.findall(r"^totals: ([0-9]+)$", out.read_text(), re.MULTILINE)]
    rows = re.findall(r"^row: (.*)$", ran.stdout, re.MULTILINE)
    for line in ran.stdout.splitlines():
        if "is left out" in line:
            print(line)
    values = [count / COUNTED / 1_000 for count in counts[1::2]]
    return {row: Figure(value, value) for row, value in zip(rows, values, strict=True)}


def main(name: str, *rows: str) -> None:
    """Make requests of each row, or of these. Valgrind runs this."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for row, one in _made(name, PEERS[name]).items():
        if rows and row not in rows:
            continue
        print(f"row: {row}", flush=True)
        call = calls(one.app, one.request)
        for _ in range(WARM):
            call()
        gc.collect()
        gc.disable()
        os.sched_yield()
        for _ in range(COUNTED):
            call()
        os.sched_yield()
        gc.enable()


KINDS_HERE = KINDS | {
    "table by Jinja2": Kind("/a/b/c/table", None),
    "a part of it": Kind("/static/style.css", request_site.STYLE[:100], "206"),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
