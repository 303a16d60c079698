"""``pipeline adopt`` of the ini that ``mkwsgiinstance`` makes: the same zope.conf, and the same answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zope_sites.compared_site import ZOPE_CONF

INI = """\
[app:zope]
use = egg:Zope#main
zope_conf = %(here)s/zope.conf

[pipeline:main]
pipeline =
    egg:Zope#httpexceptions
    zope

[server:main]
use = egg:waitress#main
host = 127.0.0.1
port = 8080
"""


@pytest.mark.parametrize(("more", "elements"), [("", "log vhost"), ("trusted-proxy 192.0.2.1", "log")])
def test_a_zope_instance_answers_as_before(tmp_path: Path, more: str, elements: str) -> None:
    """Where Zope itself reads the addresses that a proxy sends, they are not taken from it."""
    (tmp_path / "zope.conf").write_text(ZOPE_CONF.format(home=tmp_path, more=more))
    (tmp_path / "zope.ini").write_text(INI)
    command = [sys.executable, "-W", "ignore", "-m", "pipeline"]
    adopt = [*command, "adopt", "zope.ini", "--page", "/", "--page", "/none"]
    ran = subprocess.run(adopt, capture_output=True, text=True, check=False, timeout=100, cwd=tmp_path)
    said = " ".join(ran.stdout.split())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "egg:Zope#httpexceptions left alone or left out: the element zope_request makes the same answers" in said
    written = (tmp_path / "pipeline.ini").read_text()
    assert f"pipeline = {elements} site\n" in written
    assert "[app:site]\nuse = egg:wsgi-pipeline#zope\nzope_conf = %(here)s/zope.conf\n" in written
    checked = subprocess.run([*command, "check", "pipeline.ini"], timeout=100, cwd=tmp_path, check=False)
    assert checked.returncode == 0
