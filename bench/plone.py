"""Instructions of the interpreter for a request to a Plone site: plain Zope and the pipeline, a process each.

Run in the environment of ``make test-plone``: ``python -m bench.plone``
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "tests"))

LIMIT = 1.01
"""Upper limit of ours by theirs."""
HTML, JSON = {"HTTP_ACCEPT": "text/html"}, {"HTTP_ACCEPT": "application/json"}
ASKED: dict[str, tuple[str, dict[str, str]]] = {
    "page": ("/Plone/about", HTML),
    "front page": ("/Plone", HTML),
    "folder": ("/Plone/folder", HTML),
    "search": ("/Plone/@@search?SearchableText=text", HTML),
    "404": ("/Plone/none", HTML),
    "redirected to the login": ("/Plone/folder/secret", HTML),
    "virtual host": ("/VirtualHostBase/http/www.example.org:80/Plone/VirtualHostRoot/folder/page", HTML),
    "restapi": ("/Plone/about", JSON),
    "image": ("/Plone/folder/picture/@@images/image", HTML),
    "file": ("/Plone/folder/data/@@download/file", HTML),
    "resource": ("/Plone/++resource++plone-logo.svg", HTML),
}
WARM, TIMES = 5, 3


def instructions(ini: str) -> dict[str, int]:
    """Return the instructions of each request to the site of an ini: the least of some, after a few others."""
    from paste.deploy import loadapp

    from bench.zope import take
    from ztk.asking import environ_of

    app = loadapp(f"config:{ini}")
    return {
        name: min([counted(app, take, environ_of("GET", path, headers)) for _ in range(WARM + TIMES)][WARM:])
        for name, (path, headers) in ASKED.items()
    }


def counted(app: Any, take: Any, environ: dict[str, Any]) -> int:
    """Return the instructions of one request."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return note

    sys.settrace(note)
    try:
        take(app, environ)
    finally:
        sys.settrace(None)
    return count


def asked(*arguments: object) -> str:
    """Run Python in the directory of the tests, and return the last line that it prints."""
    path = os.pathsep.join((str(TOP), str(TOP / "tests")))
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *map(str, arguments)],
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path},
        cwd=TOP,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return run.stdout.rstrip().rpartition("\n")[2]


def main() -> int:
    if len(sys.argv) > 1:
        print("\n" + json.dumps(instructions(sys.argv[1])))
        return 0
    failed = False
    with tempfile.TemporaryDirectory(prefix="bench-plone") as directory:
        made = Path(directory) / "instance"
        asked("plone_sites.made_site", made)
        figures = []
        for name in ("plain", "ours"):
            copy = Path(directory) / name
            shutil.copytree(made, copy)
            conf = copy / "etc" / "zope.conf"
            conf.write_text(conf.read_text().replace(str(made), str(copy)))
            figures.append(json.loads(asked("bench.plone", copy / "etc" / f"{name}.ini")))
    theirs, ours = figures
    for name in ASKED:
        failed |= ours[name] > LIMIT * theirs[name]
        print(f"{name:26}{theirs[name]:11,}{ours[name]:11,}{ours[name] / theirs[name]:7.3f}  (at most {LIMIT})")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
