"""The suite ``startup``: loading etc/deploy.ini until it could serve, beside importing what it is made of.

Fresh processes, in turn, which find the bytecode of all modules compiled. Time is that within the process, from its
first statement on: what the interpreter takes to start is the same for all. Memory is what is resident in the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import Figure, Result, flat

INI = Path(__file__).resolve().parent.parent / "etc" / "deploy.ini"

IMPORTING = "import webob, paste.deploy, zope.interface, waitress, ZODB, BTrees, jinja2, nh3"
LOADING = """\
from paste.deploy import loadserver
from pipeline.paste import load
app = load("config:{ini}", zodb_uri="{uri}", session_keys="{directory}/keys")
server = loadserver("config:{ini}", global_conf={{"http_port": "0"}})
"""
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
began = perf_counter()
{code}
took = perf_counter() - began
with open("/proc/self/status") as status:
    print("found", took, next(line.split()[1] for line in status if line.startswith("VmRSS")))
"""


def startup(rounds: int = 15, seconds: float = 0) -> Result:
    directory = tempfile.mkdtemp()
    uri = f"file://{directory}/Data.fs?blobstorage_dir={directory}/blobs"
    subprocess.run([sys.executable, "-m", "pipeline_demo.site", uri], check=True, stderr=subprocess.DEVNULL)
    loading = LOADING.format(ini=INI, uri=uri, directory=directory)
    programs = {
        "importing alone": IMPORTING,
        "etc/deploy.ini, ready": loading,
        "etc/deploy.ini, first page answered": loading + ANSWERING,
    }
    for code in programs.values():  # what is compiled on first use is compiled then
        ended(code, directory)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, code in programs.items():
            found[name].append(ended(code, directory))
    times = {name: Figure.of(time for time, _ in pairs) for name, pairs in found.items()}
    sizes = {name: Figure.of(size for _, size in pairs) for name, pairs in found.items()}
    return {
        "time": flat("From a fresh process until it could serve", times, "importing alone", "ms"),
        "memory": flat("And the memory that is resident then", sizes, "importing alone", "MiB"),
    }


def ended(code: str, directory: str) -> tuple[float, float]:
    """Milliseconds and MiB of a fresh process that runs this; its bytecode is kept below the directory."""
    command = [sys.executable, "-W", "ignore", "-c", MEASURED.format(code=code)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = f"{directory}/bytecode"
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode or "found" not in ran.stdout:
        raise SystemExit(f"it failed to start:\n{ran.stderr}")
    took, kib = ran.stdout.rpartition("found ")[2].split()
    return float(took) * 1_000, float(kib) / 1_024
