"""A Zope site out of an ini: in two lines, and step by step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zope_sites.compared_site import ZOPE_CONF

IN_TWO_LINES = """
[app:main]
use = egg:wsgi-pipeline#zope
zope_conf = %(here)s/zope.conf
"""
STEPS = """
[pipeline:main]
pipeline = retry zodb zope_path zope_request transaction zope_errors zope_traverse zope_publisher
[filter:zodb]
use = egg:wsgi-pipeline#zodb
db = pipeline.zope:database
manager = pipeline.toolkit.manager:ImplicitManager
root = Application
[app:zope_publisher]
use = egg:wsgi-pipeline#zope_publisher
zope_conf = %(here)s/zope.conf
""" + "".join(
    f"[filter:{name}]\nuse = egg:wsgi-pipeline#{name}\n"
    for name in ("retry", "zope_path", "zope_request", "transaction", "zope_errors", "zope_traverse")
)
ASK = """
import sys
from paste.deploy import loadapp
from ztk.asking import ask
app = loadapp("config:" + sys.argv[1])
for path in ("/", "/none", "/%ff", "/manage_main", "/m%C3%BC"):
    answer = ask(app, "GET", path)
    print(answer.status, dict(answer.headers).get("WWW-Authenticate", ""))
"""
ANSWERS = [
    "200 OK ",
    "404 Not Found ",
    "400 Bad Request ",
    '401 Unauthorized basic realm="Zope", charset="UTF-8"',
    "404 Not Found ",
]


@pytest.mark.parametrize("text", [IN_TWO_LINES, STEPS], ids=["in two lines", "step by step"])
def test_a_site_is_served_out_of_an_ini(tmp_path: Path, text: str) -> None:
    (tmp_path / "zope.conf").write_text(ZOPE_CONF.format(home=tmp_path, more=""))
    ini = tmp_path / "site.ini"
    ini.write_text(text)
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-W", "ignore", "-c", ASK, str(ini)]
    run = subprocess.run(command, cwd=tests, capture_output=True, text=True, timeout=100)
    assert run.stdout.splitlines() == ANSWERS, run.stderr
