"""New views of a Zope Toolkit site, beside its old ones: one ini, one database, the views moved one at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WIKI = Path(__file__).parents[2] / "examples" / "grok"
INI = """
[composite:main]
use = egg:wsgi-pipeline#switch
branches =
    new view=yes
default = old

[app:old]
use = egg:wsgi-pipeline#ztk
zope_conf = %(here)s/zope.conf

[pipeline:new]
pipeline = retry zodb errors transaction site traverse publisher

[filter:zodb]
use = egg:wsgi-pipeline#zodb
db = pipeline.ztk:database
zope_conf = %(here)s/zope.conf
root = Application

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = ztk.beside_views
""" + "".join(
    f"[filter:{name}]\nuse = egg:wsgi-pipeline#{name}\n"
    for name in ("retry", "errors", "transaction", "site", "traverse")
)
ASK = """
import sys
from paste.deploy import loadapp
from webob import Request
app = loadapp("config:" + sys.argv[1])
for method, path in (("GET", "/wiki"), ("GET", "/wiki/titles"), ("POST", "/wiki/titles"), ("GET", "/wiki/new"),
                     ("GET", "/wiki/titles"), ("GET", "/wiki/search?words=made")):
    answer = Request.blank(path, method=method, headers={"Sec-Fetch-Site": "same-origin"}).get_response(app)
    told = ("Made by a new view." in answer.text, ">New</a>" in answer.text)
    print(answer.status_int, *told, repr(answer.text[:30]))
"""




def printed(code: str, ini: str, directory: Path) -> list[str]:
    """Return the lines that code prints about an ini, in a process of its own."""
    (directory / "var").mkdir()
    (directory / "etc").symlink_to(WIKI / "etc")
    (directory / "beside.ini").write_text(ini.replace("%(here)s", "etc"))
    tests = Path(__file__).parents[1]
    path = [str(WIKI / "src"), str(tests), os.environ.get("PYTHONPATH", "")]
    environ = {**os.environ, "PYTHONPATH": ":".join(filter(None, path))}
    command = [sys.executable, "-W", "ignore", "-c", code, str(directory / "beside.ini")]
    run = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.splitlines()


WITH_USERS = INI.replace(
    "transaction site traverse", "transaction site authenticate traverse"
).replace("scan = ", "scan = pipeline.ztk.users ") + """
[filter:authenticate]
use = egg:wsgi-pipeline#authenticate
check = pipeline.ztk.users:no_passwords
policy = pipeline.ztk.users:SitePolicy
placeful = true
"""
ASK_AS = """
import sys
from base64 import b64encode
from paste.deploy import loadapp
from webob import Request
app = loadapp("config:" + sys.argv[1])
for path in ("who", "seen", "manage"):
    for user in (None, "editor:secret", "editor:wrong", None):
        headers = {"Authorization": "Basic " + b64encode(user.encode()).decode()} if user else {}
        answer = Request.blank("/wiki/" + path, headers=headers).get_response(app)
        print(path, answer.status_int, answer.headers.get("WWW-Authenticate", answer.text))
"""


def test_a_new_view_has_the_principals_and_the_policy_of_the_site(tmp_path: Path) -> None:
    anonymous, editor = "200 None False", "200 grokwiki.editor True"
    refused = '401 basic realm="Zope"'
    assert printed(ASK_AS, WITH_USERS, tmp_path) == [
        *(f"who {told}" for told in (anonymous, editor, anonymous, anonymous)),
        *(f"seen {told}" for told in (anonymous, editor, anonymous, anonymous)),
        *(f"manage {told}" for told in (refused, editor, refused, refused)),
    ]


def test_a_new_view_and_the_old_ones_see_what_the_other_has_stored(tmp_path: Path) -> None:
    lines = printed(ASK, INI, tmp_path)
    assert [line.split(" ", 3)[:3] for line in lines] == [
        ["200", "False", "False"],  # an old view
        ["200", "False", "False"],  # the new one
        ["303", "False", "False"],  # which adds a page
        ["200", "True", "False"],  # that an old view shows
        ["200", "False", "False"],
        ["200", "False", "True"],  # and that the catalog of the local site has
    ]
    assert lines[4].endswith("'New, Start'")
