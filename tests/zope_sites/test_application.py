"""A Zope site out of an ini: in two lines, and step by step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.interfaces import OptionError
from pipeline.paste import plan
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


CLOSES = """
import sys
from paste.deploy import loadapp
from zope.component import provideHandler
from ZPublisher.interfaces import IPubAfterTraversal
from ztk.asking import ask
app = loadapp("config:" + sys.argv[1])
called = []
def register(event):
    connection = event.request["PARENTS"][-1]._p_jar
    connection.onCloseCallback(lambda: called.append("closed"))
provideHandler(register, (IPubAfterTraversal,))
for _ in range(3):
    print(ask(app, "GET", "/").status, len(called))
"""


def said(code: str, text: str, directory: Path) -> list[str]:
    """The lines that code prints about an ini, in a process of its own."""
    (directory / "zope.conf").write_text(ZOPE_CONF.format(home=directory, more=""))
    ini = directory / "site.ini"
    ini.write_text(text)
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-W", "ignore", "-c", code, str(ini)]
    run = subprocess.run(command, cwd=tests, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.parametrize("text", [IN_TWO_LINES, STEPS], ids=["in two lines", "step by step"])
def test_a_site_is_served_out_of_an_ini(tmp_path: Path, text: str) -> None:
    assert said(ASK, text, tmp_path) == ANSWERS


def test_close_callbacks_run_once_at_the_end_of_a_request(tmp_path: Path) -> None:
    assert said(CLOSES, IN_TWO_LINES, tmp_path) == [f"200 OK {number}" for number in (1, 2, 3)]


def test_the_tools_see_the_elements_of_two_lines(tmp_path: Path) -> None:
    """``show`` and ``check`` read this plan, before anything is loaded."""
    plans = []
    for text in (IN_TWO_LINES, STEPS):
        (tmp_path / "site.ini").write_text(text)
        [chain] = plan(f"config:{tmp_path / 'site.ini'}")
        chain.check_order()
        plans.append([(str(step), step.element is None) for step in chain.steps])
    assert plans[0] == plans[1]
    (tmp_path / "site.ini").write_text(IN_TWO_LINES + "attemps = 3\n")
    with pytest.raises(OptionError, match=r"section \[app:main\].*did you mean 'attempts'"):
        list(plan(f"config:{tmp_path / 'site.ini'}"))


@pytest.mark.parametrize(
    ("more", "taken"),
    [
        ("", 2**30),
        ("<dos_protection>\n  form-disk-limit 3GB\n</dos_protection>", 3 * 2**30),
        ("<dos_protection>\n#  form-disk-limit 1KB\n  form-memory-limit 1MB\n</dos_protection>", 2**30),
    ],
)
@pytest.mark.parametrize("text", [IN_TWO_LINES, STEPS], ids=["in two lines", "step by step"])
def test_the_server_may_send_what_zope_takes(tmp_path: Path, text: str, more: str, taken: int) -> None:
    """``deploy`` and ``check`` read it. A limit of the server that is lower would refuse a large upload."""
    (tmp_path / "zope.conf").write_text(ZOPE_CONF.format(home=tmp_path, more=more))
    (tmp_path / "site.ini").write_text(text)
    [chain] = plan(f"config:{tmp_path / 'site.ini'}")
    assert max(step.facts.max_body or 0 for step in chain.steps) == taken


LOAD = """
import sys
from pathlib import Path
from zc.lockfile import LockFile
from pipeline.tools.check import check_file
held = LockFile(str(Path(sys.argv[1]).with_name("Data.fs.lock")))
findings, _ = check_file(Path(sys.argv[1]), None, [])
print(*(f"{one.level}: {one.what}" for one in findings), sep="\\n")
held.close()
"""


def test_a_database_that_the_running_instance_has_open(tmp_path: Path) -> None:
    found = said(LOAD, IN_TWO_LINES, tmp_path)
    assert "another process has the database open, such as the instance itself. Stop it first" in found[0], found
