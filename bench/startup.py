"""The suite ``startup``: loading etc/deploy.ini until it could serve, and its first page, beside other frameworks
and beside importing what it is made of.

Fresh processes, in turn, which find the bytecode of all modules compiled. Time is that within the process, from its
first statement on: what the interpreter takes to start is the same for all. Memory is what is resident. A server
loads the templates as well ("served"). The pages of Flask and of Pyramid are made by one template of Jinja2,
without a database, a log and a user.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from bench.measure import Figure, Result, flat

INI = Path(__file__).resolve().parent.parent / "etc" / "deploy.ini"

IMPORTING = "import webob, paste.deploy, zope.interface, waitress, ZODB, BTrees, jinja2, nh3, markdown_it"
LOADING = """\
from paste.deploy import loadserver
from pipeline.paste import load
app = load("config:{ini}", zodb_uri="{uri}", session_keys="{directory}/keys")
server = loadserver("config:{ini}", global_conf={{"http_port": "0"}})
"""
SERVING = """\
from paste.deploy import loadserver
from pipeline.loading.site import application_of
app = application_of("{ini}", zodb_uri="{uri}", session_keys="{directory}/keys")
server = loadserver("config:{ini}", global_conf={{"http_port": "0"}})
"""
FLASK = """\
import flask, waitress
app = flask.Flask("site", template_folder="{directory}")
app.route("/")(lambda: flask.render_template("page.html", title="A page"))
"""
PYRAMID = """\
import jinja2, waitress
from pyramid.config import Configurator
from pyramid.response import Response
made = jinja2.Environment(loader=jinja2.FileSystemLoader("{directory}"), autoescape=True)
config = Configurator()
config.add_route("page", "/")
config.add_view(lambda request: Response(made.get_template("page.html").render(title="A page")), route_name="page")
app = config.make_wsgi_app()
"""
TEMPLATE = "<h1>{{ title }}</h1>{% for one in range(3) %}<p>{{ one }}</p>{% endfor %}"
ANSWERING = """\
from wsgiref.util import setup_testing_defaults
environ = {}
setup_testing_defaults(environ)
status = []
page = b"".join(app(environ, lambda *answer: status.extend(answer)))
if status[0] != "200 OK" or b"<h1" not in page:
    raise SystemExit(f"it answered {status} {page[:200]!r}")
"""
MEASURED = """\
from time import perf_counter
def told(took):
    with open("/proc/self/status") as status:
        print("found", took, next(line.split()[1] for line in status if line.startswith("VmRSS")))
began = perf_counter()
LOAD
told(perf_counter() - began)
began = perf_counter()
ANSWER
told(perf_counter() - began)
"""


def startup(rounds: int = 15, seconds: float = 0) -> Result:
    directory = tempfile.mkdtemp()
    Path(directory, "page.html").write_text(TEMPLATE, encoding="utf-8")
    uri = f"file://{directory}/Data.fs?blobstorage_dir={directory}/blobs"
    subprocess.run([sys.executable, "-m", "pipeline_demo.site", uri], check=True, stderr=subprocess.DEVNULL)
    peers = {name: code for name, code in (("Flask", FLASK), ("Pyramid", PYRAMID)) if find_spec(name.lower())}
    loading = {"importing alone": IMPORTING, "etc/deploy.ini": LOADING, "etc/deploy.ini served": SERVING, **peers}
    programs = {
        name: MEASURED.replace("LOAD", code.format(ini=INI, uri=uri, directory=directory)).replace(
            "ANSWER", "" if code is IMPORTING else ANSWERING
        )
        for name, code in loading.items()
    }
    for code in programs.values():  # what is compiled on first use is compiled then
        ended(code, directory)
    found: dict[str, list[list[float]]] = {}
    for _ in range(rounds):
        for name, code in programs.items():
            for what, values in zip((f"{name}, ready", f"{name}, first page"), ended(code, directory), strict=True):
                found.setdefault(what, []).append(values)
    found = {what.replace("alone, ready", "alone"): each for what, each in found.items() if "alone, f" not in what}
    times = {name: Figure.of(time for time, _ in pairs) for name, pairs in found.items()}
    sizes = {name: Figure.of(size for _, size in pairs) for name, pairs in found.items()}
    return {
        "time": flat("Until a fresh process could serve, and its first page", times, "importing alone", "ms"),
        "memory": flat("And the memory that is resident then", sizes, "importing alone", "MiB"),
    }


def ended(code: str, directory: str) -> list[list[float]]:
    """Milliseconds and MiB of a fresh process that runs this, of each part; its bytecode is kept below the
    directory."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = f"{directory}/bytecode"
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    told = [line.split() for line in ran.stdout.splitlines() if line.startswith("found ")]
    if ran.returncode or len(told) != 2:
        raise SystemExit(f"it failed to start:\n{ran.stderr}")
    return [[float(took) * 1_000, float(kib) / 1_024] for _, took, kib in told]
