"""The files that each deploy target writes for the same sites, and its commands, are those that were looked at.

``written/TARGET.txt`` has all files of a plain site, and for each of the others the lines that differ from it.
After a change that is meant: PIPELINE_WRITTEN=1 make test, and look at the difference.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from difflib import unified_diff
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.deploying import site as site_module
from pipeline.deploying.site import Site, Tls
from pipeline.deploying.target import GROUP, deployment_of, targets, templates
from pipeline.interfaces import ConfigurationError, Facts

WRITTEN = Path(__file__).parent / "written"
TLS = Tls("/etc/tls/cert.pem", "/etc/tls/key.pem", ["www.example.com", "example.com"], "0.0.0.0:80", "")
STEP = SimpleNamespace(where="[filter:one]", source=SimpleNamespace(inis=[]), strings={})


HYPERCORN = '''"""Hypercorn, with threads."""

PROGRAM = ("hypercorn", "pip install hypercorn", "hypercorn")
'''


def facts(**told: Any) -> list[Any]:
    """Return the steps of a site with one element, which has these facts."""
    return [(STEP, Facts(**told))]


def sites(root: Path) -> dict[str, dict[str, Any]]:
    """Return the choices by which sites differ from a plain one, by a name for each."""
    server = root / "server"
    mark = f"{server}/run/draining"
    data = facts(writes=(f"{root}/var/Data.fs",), shares_figures=True)
    return {
        "plain": {},
        "below a path": {"prefix": "/app", "health": "/app/@@health"},
        "one process": {"workers": 1, "threads": 8, "leftovers": [f"{server}/run/a"], "writable": [f"{root}/var"]},
        "with figures": {"facts": facts(shares_figures=True, distrusts=lambda peer, name: "")},
        "drained": {"drain": 15, "mark": mark, "leftovers": [mark], "health": "/@@health"},
        "with variables": {"variables": {"db": "postgresql://u:p@db/x"}, "servers": ["db:5432", "127.0.0.1:6379"]},
        "rehearsed": {"rehearse": f"{root}/log/access.json"},
        "with TLS": {"host": "0.0.0.0", "port": 443, "tls": TLS},
        "behind proxies": {"proxies": ["10.0.0.0/8", "192.0.2.1"]},
        "of two instances": {"upstreams": ["10.0.0.1:8080", "10.0.0.2:8080"], "health": "/@@health"},
        "with files": {"locations": {f"{root}/static": "/-files/"}, "facts": facts(user_headers=["X-SSO-User"])},
        "by Granian": {"behind": "granian"},
        "by uWSGI": {"behind": "uwsgi", "prefix": "/app", "health": "/@@health"},
        "by systemd": {"behind": "systemd"},
        "embedded": {"embedded": True},
        "on IPv6": {"host": "::1", "ini": f"{root}/site.ini#wiki"},
        "with much": {
            "workers": 3, "prefix": "/app", "drain": 5, "mark": mark, "leftovers": [mark, f"{server}/run/a"],
            "variables": {"a": "b"}, "facts": data, "servers": ["db:5432"], "health": "/app/@@health",
            "writable": [f"{root}/var"], "rehearse": f"{root}/log/access.json",
        },
    }


def texts(target: str, site: Site, root: Path) -> Mapping[str, str]:
    """Return what is written, and the commands, without the names of this machine."""
    deployment = deployment_of(target, site)
    commands = "".join(f"{verb:6} {command}\n" for verb, command in deployment.commands)
    names = {str(root): "/srv/wiki", sys.executable: "/srv/venv/bin/python", sys.prefix: "/srv/venv"}
    names[f"python:{sys.version_info.major}.{sys.version_info.minor}"] = "python:3.x"

    def plain(text: str) -> str:
        for name, shown in names.items():
            text = text.replace(name, shown)
        return text

    found = {**deployment.files, "(commands)": commands}
    return {name: plain(text) for name, text in sorted(found.items())}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a site; the machine is one that has every server."""
    for name in ("target", "apache", "nginx"):
        monkeypatch.setattr(f"pipeline.deploying.{name}.need_program", lambda name, *more: f"/usr/sbin/{name}")
    for name in ("apache", "mod_wsgi_express"):
        monkeypatch.setattr(f"pipeline.deploying.{name}.need_readable_by_apache", lambda site: None)
    for name in ("apache.mod_wsgi", "mod_python.mod_python"):
        module = Path(f"/usr/lib/apache2/modules/{name.rpartition('.')[2]}.so")
        monkeypatch.setattr(f"pipeline.deploying.{name}", lambda module=module: module)
    monkeypatch.setattr("pipeline.deploying.apache.getpwnam", lambda name: SimpleNamespace(pw_gid=33))
    monkeypatch.setattr("pipeline.deploying.mod_python.sysconfig.get_path", lambda name: "/srv/venv/lib")
    monkeypatch.setattr("pipeline.deploying.nginx.http2", lambda program: "line")
    monkeypatch.setattr("pipeline.deploying.nginx.module_line", lambda program: "load_module /m/stream.so;")
    monkeypatch.setattr("pipeline.deploying.nginx.has_user", lambda name: True)
    monkeypatch.setattr("pipeline.deploying.nginx.can_give", lambda group: True)
    monkeypatch.setattr("pipeline.deploying.nginx.getgrgid", lambda number: SimpleNamespace(gr_name="own"))
    monkeypatch.setattr("pipeline.deploying.nginx.os.geteuid", lambda: 0)
    monkeypatch.setattr("pipeline.deploying.systemd.shutil.which", lambda name: "/usr/bin/systemd-analyze")
    monkeypatch.setattr("pipeline.deploying.uwsgi.listen_queue", lambda: 1024)
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "__init__.py").touch()
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "requirements.txt").write_text("wiki==2.5 --hash=sha256:0\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "wiki"\nversion = "2.5"\n')
    (tmp_path / "site.ini").write_text("[app:main]\n")
    return tmp_path


def plain_site(root: Path) -> Site:
    return Site(
        ini=f"{root}/site.ini", variables={}, directory=root / "server", host="127.0.0.1",
        port=8080, prefix="", workers=2, threads=4, behind="gunicorn", embedded=False,
        user="www-data", group="www-data", max_body=104923136, health="/", writable=[],
        leftovers=[], servers=[], locations={}, facts=[],
    )


@pytest.mark.parametrize("target", targets())
def test_what_is_written(target: str, root: Path) -> None:
    usual = plain_site(root)
    plain = texts(target, usual, root)
    parts = [f"===== {name} =====\n{text}" for name, text in plain.items()]
    for name, choices in sites(root).items():
        if name in ("plain", "with TLS" if target == "mod_python" else ""):
            continue
        other = texts(target, usual._replace(**choices), root)
        for file in sorted({*plain, *other}):
            before, after = (one.get(file, "").splitlines() for one in (plain, other))
            lines = [*unified_diff(before, after, lineterm="", n=0)][2:]
            if lines:
                parts.append("\n".join([f"===== {file}, {name} =====", *lines, ""]))
    found = "".join(parts)
    file = WRITTEN / f"{target}.txt"
    if os.environ.get("PIPELINE_WRITTEN"):
        file.write_text(found)
    assert found == file.read_text()


def test_a_target_from_outside(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of docs/howto/deploy.rst: a package with templates, and no function."""
    package = root / "our_servers" / "hypercorn"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(HYPERCORN)
    (package / "hypercorn.toml.j2").write_text("bind = {{ site.address | json }}\n")
    (package / "wsgi.py.j2").write_text('{% include "shared/wsgi.py.j2" %}\n')
    (package / "commands.j2").write_text("start {{ program }} -c {{ site.directory }}/hypercorn.toml\n")
    (package / "left-out.j2").write_text("{% if site.prefix %}\nprefix\n{% endif %}\n")
    monkeypatch.syspath_prepend(str(root))
    point = EntryPoint("hypercorn", "our_servers.hypercorn", GROUP)
    monkeypatch.setattr("pipeline.deploying.target.entry_points", lambda group: [point])
    monkeypatch.setattr("pipeline.deploying.target.targets", cache(targets.__wrapped__))
    monkeypatch.setattr("pipeline.deploying.target.templates", cache(templates.__wrapped__))
    deployment = deployment_of("hypercorn", plain_site(root))
    assert deployment.commands == [("start", f"/usr/sbin/hypercorn -c {root}/server/hypercorn.toml")]
    assert deployment.files["hypercorn.toml"] == 'bind = "127.0.0.1:8080"\n'
    assert sorted(deployment.files) == ["hypercorn.toml", "wsgi.py"]


def test_a_missing_server_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_module, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"the module granian is missing in .*: pip install"):
        site_module.need_program("granian", "pip install granian", "granian")
