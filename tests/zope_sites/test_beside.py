"""New views of a Zope site, beside its old ones: one ini, one database, the users and the policy of the site."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from OFS.Folder import Folder
from zExceptions import BadRequest

from pipeline import Request
from pipeline.zope.items import step
from zope_sites.compared_site import ZOPE_CONF
from zope_sites.test_explain import basic, told

INI = """
[composite:main]
use = egg:wsgi-pipeline#switch
branches =
    new view=yes
    new header.Host=www.example.org
default = old

[app:old]
use = egg:wsgi-pipeline#zope
zope_conf = %(here)s/zope.conf

[pipeline:new]
pipeline = vhost retry zodb errors transaction zope_items publisher

[filter:vhost]
use = egg:wsgi-pipeline#vhost
allowed_hosts = *
hosts = www.example.org = /f1

[filter:zodb]
use = egg:wsgi-pipeline#zodb
db = pipeline.zope:database
zope_conf = %(here)s/zope.conf
root = Application

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = zope_sites.beside_views
""" + "".join(
    f"[filter:{name}]\nuse = egg:wsgi-pipeline#{name}\n"
    for name in ("retry", "errors", "transaction", "zope_items")
)
EDITOR, ADMIN = basic("editor"), basic("admin")
ASKED = [
    (("GET", "/f1/report"), "200 http://localhost:80/f1 None None ['Anonymous'] None"),
    (("GET", "/f1/report", EDITOR), "200 private http://localhost:80/f1 editor editor ['Authenticated', 'Editor"),
    (("GET", "/f1/report", ADMIN), "200 private http://localhost:80/f1 admin admin ['Authenticated', 'Manager'] 1"),
    (("GET", "/f1/@@managed"), "401 basic"),
    (("GET", "/f1/@@asks"), "401 basic"),  # by the status of its response
    (("GET", "/f1/@@managed", EDITOR), "403 "),
    (("GET", "/f1/@@managed", ADMIN), "200 private http://localhost:80/f1 admin"),
    (("GET", "/f1/f2/note/seen"), "200 note in f2"),
    (("GET", "/f1/f2/note/text"), "404 "),  # an attribute, and no view
    (("GET", "/f1/f2/note/f1/report"), "404 "),  # nothing is acquired on the way
    (("GET", "/f2/report", "Host: www.example.org"), "200 http://www.example.org/f2 None"),
    (("GET", "/f1/f2/report", "Host: www.example.org"), "404 "),
    (("GET", "/f1/@@who", EDITOR), "200 editor"),  # an old view
    (("POST", "/f1/f2/report"), "401 basic"),
    (("GET", "/f1/f2/page"), "200 <p>Folder f2</p>"),
    (("POST", "/f1/f2/report", ADMIN), "303 private http://localhost:80/f1/f2/page"),
    (("GET", "/f1/f2/page", ADMIN), "200 <p>Renamed</p>"),  # what the new view has stored
    (("GET", "/f1/f2/report"), "401 basic"),  # a view that names no permission needs "View", which is gone now
    (("GET", "/f1/f2/report", EDITOR), "403 "),
    (("GET", "/f1/f2/report", ADMIN), "200 private "),
]


def test_a_new_view_has_the_objects_the_users_and_the_policy_of_the_site(tmp_path: Path) -> None:
    found = told("asked", INI, [one for one, _ in ASKED], tmp_path)
    expected = [wanted for _, wanted in ASKED]
    assert [one[: len(wanted)] for one, wanted in zip(found, expected, strict=True)] == expected


def test_the_ini_is_in_order_and_loads_by_itself(tmp_path: Path) -> None:
    (tmp_path / "zope.conf").write_text(ZOPE_CONF.format(home=tmp_path, more=""))
    (tmp_path / "site.ini").write_text(INI)
    command = [sys.executable, "-W", "ignore", "-m", "pipeline", "check", str(tmp_path / "site.ini")]
    run = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("name", ["@home", "+44", "a@b", "@", "+", "++", "plain", "@@plain", "++view++plain"])
def test_an_item_is_found_by_each_name_that_zope_gives(name: str) -> None:
    """Zope keeps the names that begin with @@ and ++ for views, and gives one that begins with @ or + to items."""
    folder = Folder()
    try:
        folder._setObject(name, Folder(name))
    except BadRequest:
        folder._setOb(name, Folder(name))
        folder._objects += ({"id": name, "meta_type": Folder.meta_type},)
    parents = [folder]
    is_marked = name.startswith("@@") or name == "++view++plain"
    assert step(Request({}), parents, name) is not is_marked
    assert parents[0].getId() == ("" if is_marked else name)
