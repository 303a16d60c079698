"""A site out of its zope.conf: each in a process of its own, since ZCML is for the whole process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONF = """site-definition {}
<zodb>
  <mappingstorage/>
</zodb>
<eventlog>
  <logfile>
    path STDERR
  </logfile>
</eventlog>
"""
ZCML = '<configure xmlns="http://namespaces.zope.org/zope"/>'


def run(directory: Path, code: str) -> str:
    (directory / "site.zcml").write_text(ZCML)
    for name in ("zope.conf", "other.conf"):
        (directory / name).write_text(CONF.format(directory / "site.zcml"))
    (directory / "bad.conf").write_text("nonsense")
    code = f"from pipeline.ztk.site import database, load\n{code}"
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False).stderr


def test_a_zope_conf_is_loaded_once(tmp_path: Path) -> None:
    assert run(tmp_path, "assert load('zope.conf') is load('./zope.conf') is database()") == ""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("load('missing.conf')", "there is no file"),
        ("load('bad.conf')", "is not a valid zope.conf"),
        ("load('zope.conf'); load('other.conf')", "a process can have one Zope site"),
        ("database()", "give ztk_publisher the option zope_conf"),
    ],
)
def test_what_cannot_be_loaded_is_said(code: str, said: str, tmp_path: Path) -> None:
    assert said in run(tmp_path, code)


def test_a_site_joins_the_pipeline_around_it(tmp_path: Path) -> None:
    ini = "[pipeline:main]\npipeline = log site\n[filter:log]\nuse = egg:wsgi-pipeline#log\n"
    ini += "[app:site]\nuse = egg:wsgi-pipeline#ztk\nzope_conf = %(here)s/zope.conf\n"
    (tmp_path / "deploy.ini").write_text(ini)
    code = (
        "from paste.deploy import loadapp\n"
        f"app = loadapp('config:{tmp_path}/deploy.ini')\n"
        "names = [contract.name for contract in app.linked]\n"
        "assert names == ['log', 'retry', 'zodb', 'ztk_request', 'ztk_errors', 'transaction', 'ztk_authenticate',"
        " 'ztk_traverse', 'ztk_publisher'], names\n"
    )
    assert run(tmp_path, code) == ""


def test_an_option_that_is_unknown_is_refused(tmp_path: Path) -> None:
    ini = "[app:main]\nuse = egg:wsgi-pipeline#ztk\nzope_conf = %(here)s/zope.conf\nattempt = 3\n"
    (tmp_path / "deploy.ini").write_text(ini)
    code = f"from paste.deploy import loadapp\nloadapp('config:{tmp_path}/deploy.ini')"
    assert "ztk has no option 'attempt'; did you mean 'attempts'?" in run(tmp_path, code)
