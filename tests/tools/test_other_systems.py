"""Windows and macOS are for development: without the modules of Linux everything imports, and an ini is checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

WITHOUT = """
import os, pkgutil, signal, sys
from importlib import import_module
import hupper.ipc  # it has code of its own for Windows

for name in ("pwd", "grp", "fcntl", "resource", "termios"):
    sys.modules[name] = None
for name in ("fork", "register_at_fork", "geteuid", "getuid", "getegid", "getgroups", "chown", "fchown"):
    delattr(os, name)
for name in ("SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "setitimer", "alarm"):
    delattr(signal, name)

import pipeline
from pipeline.tools.command import main

ON_LINUX = ("pipeline.running.process", "pipeline.serving.on_gunicorn")
OF_ZOPE = ("pipeline.toolkit", "pipeline.ztk", "pipeline.zope")
for module in pkgutil.walk_packages(pipeline.__path__, "pipeline.", onerror=lambda name: None):
    if not module.name.startswith(ON_LINUX + OF_ZOPE):
        import_module(module.name)
print(main(["check", sys.argv[1]]), main(["deploy", "nginx", sys.argv[1], "server"]))
"""
"""Takes away what Windows does not have, and imports every module."""


def test_an_ini_is_checked_without_what_linux_alone_has(tmp_path: Path) -> None:
    (tmp_path / "some_views.py").write_text(
        "from pipeline import view\n@view(context=dict)\ndef index(context, request):\n    return 'here'\n"
    )
    ini = tmp_path / "site.ini"
    ini.write_text(
        "[pipeline:main]\npipeline = egg:wsgi-pipeline#errors traverse publisher\n"
        "[app:publisher]\nuse = egg:wsgi-pipeline#publisher\nscan = some_views\n"
        "[filter:traverse]\nuse = egg:wsgi-pipeline#traverse\nroot = builtins:dict\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT, ini], capture_output=True, text=True, timeout=100
    )
    assert done.stderr == (
        "pipeline deploy: it writes configurations for Linux: run it on the machine that serves the site\n"
    )
    assert done.stdout.endswith("0 1\n")
