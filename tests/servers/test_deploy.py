"""``pipeline deploy``: what it writes, what it prints, and what it refuses before it writes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.interfaces import ConfigurationError
from pipeline.tools import deploy
from pipeline.tools.command import main
from pipeline.tools.deploy import apache, site

INI = str(Path(__file__).resolve().parents[2] / "etc" / "deploy.ini")
PRODUCTION = INI.replace("deploy.ini", "production.ini")


@pytest.fixture(autouse=True)
def everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written does not depend on what this machine has; tests/servers/test_matrix.py runs it."""
    for module in ("apache", "gunicorn", "granian", "lighttpd", "mod_wsgi_express", "nginx", "uwsgi"):
        monkeypatch.setattr(f"pipeline.tools.deploy.{module}.need_program", lambda name, remedy: f"/usr/bin/{name}")
    for module in ("gunicorn", "granian", "fastcgi"):
        monkeypatch.setattr(f"pipeline.tools.deploy.{module}.need_module", lambda name, remedy: None)
    monkeypatch.setattr(apache, "mod_wsgi", lambda: Path("/usr/lib/apache2/modules/mod_wsgi.so"))
    monkeypatch.setattr(apache, "MODULES", Path(__file__).parent)
    monkeypatch.setattr(Path, "exists", lambda path, exists=Path.exists: path.suffix == ".so" or exists(path))
    for module in (apache, deploy):
        monkeypatch.setattr(module, "need_readable", lambda path, user: None)


def written(tmp_path: Path, target: str, *options: str, ini: str = INI) -> dict[str, str]:
    if ini in (INI, PRODUCTION):  # near the directory that is written: a container is built in one that has both
        etc = shutil.copytree(Path(ini).parent, tmp_path.parent / "etc", dirs_exist_ok=True)
        ini = str(etc / Path(ini).name)
    assert main(["deploy", target, ini, str(tmp_path / "site"), *options]) == 0
    return {path.name: path.read_text() for path in (tmp_path / "site").iterdir() if path.is_file()}


@pytest.mark.parametrize("target", deploy.TARGETS)
def test_each_target_says_its_commands(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = written(tmp_path, target)
    assert "wsgi.py" in files
    said = capsys.readouterr().out
    assert said.startswith(f"Written to {tmp_path / 'site'}: ")
    for title in ("start", "stop", "reload", "check"):
        assert re.search(rf"^  {title} +\S", said, re.MULTILINE), title
    assert set(os.listdir(tmp_path)) == {"site"}, "nothing else is written"


@pytest.mark.parametrize("target", deploy.TARGETS)
def test_each_setting_has_its_reason(target: str, tmp_path: Path) -> None:
    """More than every third line of a configuration is a comment, or it is part of a list under one."""
    for name, text in written(tmp_path, target).items():
        if name not in ("wsgi.py", "site.fcgi", "apache.conf"):
            assert re.search(r"^\s*[#;] \S", text, re.MULTILINE), name
        assert "{" not in re.sub(r"\{\s*$|%\{|\{\}", "", text, flags=re.MULTILINE) or name == "wsgi.py", name


def test_one_process_has_a_file_and_two_share_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "workers = 1\n" in written(tmp_path, "gunicorn")["gunicorn.conf.py"]
    assert "workers = 2\n" in written(tmp_path, "gunicorn", ini=PRODUCTION)["gunicorn.conf.py"]
    capsys.readouterr()
    assert main(["deploy", "gunicorn", INI, str(tmp_path / "other"), "--workers", "2"]) == 1
    assert "2 processes cannot share file:" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_limits_agree_with_forms(tmp_path: Path) -> None:
    limit = str(100 * 1024 * 1024 + 64 * 1024)
    assert f"client_max_body_size {limit};" in written(tmp_path, "nginx")["site.conf"]
    assert f"LimitRequestBody {limit}\n" in written(tmp_path, "apache")["site.conf"]
    assert f"FcgidMaxRequestLen {limit}\n" in written(tmp_path, "fcgid")["site.conf"]
    assert f"limit-post = {limit}\n" in written(tmp_path, "uwsgi")["uwsgi.ini"]
    assert f"max-request-size = {int(limit) // 1024}\n" in written(tmp_path, "lighttpd")["lighttpd.conf"]


@pytest.mark.parametrize(
    ("target", "file", "line"),
    [
        ("apache", "site.conf", "AllowEncodedSlashes NoDecode"),
        ("apache", "site.conf", "WSGIChunkedRequest On"),
        ("apache", "site.conf", "WSGIPassAuthorization On"),
        ("fcgid", "site.conf", "FcgidOutputBufferSize 0"),
        ("fcgid", "apache.conf", "GracefulShutdownTimeout 30"),
        ("uwsgi", "uwsgi.ini", "lazy-apps = true"),
        ("uwsgi", "uwsgi.ini", "hook-master-start = unix_signal:15 gracefully_kill_them_all"),
        ("nginx", "site.conf", "    proxy_set_header Host $http_host;"),
        ("nginx", "site.conf", "    proxy_set_header X-Forwarded-For $remote_addr;"),
        ("nginx", "site.conf", '    proxy_set_header X-Vhm-Root "";'),
        ("nginx", "site.conf", "    proxy_next_upstream off;"),
        ("systemd", "site.service", "NoNewPrivileges=yes"),
        ("systemd", "site.socket", "ListenStream=127.0.0.1:8080"),
        ("container", "Dockerfile", "USER site"),
        ("container", "Dockerfile", "VOLUME /data"),
        ("gunicorn", "gunicorn.conf.py", "preload_app = False"),
    ],
)
def test_what_each_server_does_wrong_is_repaired(target: str, file: str, line: str, tmp_path: Path) -> None:
    assert f"\n{line}\n" in written(tmp_path, target)[file]


def test_uwsgi_behind_nginx_learns_of_no_login_and_no_chunks(tmp_path: Path) -> None:
    text = written(tmp_path, "nginx", "--behind", "uwsgi")["site.conf"]
    assert 'uwsgi_param HTTP_TRANSFER_ENCODING "";' in text
    assert "uwsgi_param REMOTE_USER" not in text and "uwsgi_param HTTP_HOST" not in text


def test_health_is_what_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = written(tmp_path, "nginx", ini=PRODUCTION)
    assert "location = /@@health {" in files["site.conf"]
    assert "curl -f http://127.0.0.1:8080/@@health" in capsys.readouterr().out
    assert "8080/@@health" in written(tmp_path, "container", ini=PRODUCTION)["Dockerfile"]


def test_the_files_that_nginx_sends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, "nginx")
    assert "  note    nginx can send files itself: see the element sendfile" in capsys.readouterr().out
    ini = tmp_path / "site.ini"
    ini.write_text(
        "[DEFAULT]\nfiles =\n[pipeline:main]\npipeline = egg:wsgi-pipeline#errors root files end\n"
        "[filter:root]\nuse = egg:wsgi-pipeline#traverse\nroot = builtins:dict\n"
        "[filter:files]\nuse = egg:wsgi-pipeline#sendfile\nget locations = files\n"
        "[app:end]\nuse = egg:wsgi-pipeline#publisher\n"
    )
    text = written(tmp_path, "nginx", "files=/srv/a b = /_b/", ini=str(ini))["site.conf"]
    assert 'location ^~ /_b/ {\n    internal;\n    alias "/srv/a b/";\n' in text
    assert "    add_header X-Content-Type-Options $upstream_http_x_content_type_options;\n" in text
    assert "internal;" not in written(tmp_path, "nginx", ini=str(ini))["site.conf"]
    assert main(["deploy", "nginx", str(ini), str(tmp_path / "other"), "files=/srv/$a=/_b/"]) == 1
    assert "nginx would misread '/srv/$a'" in capsys.readouterr().err


def test_variables_reach_the_script(tmp_path: Path) -> None:
    script = written(tmp_path, "gunicorn", "sites=* = /a'b", f"zodb_uri=file://{tmp_path}/Data.fs")["wsgi.py"]
    assert repr({"sites": "* = /a'b", "zodb_uri": f"file://{tmp_path}/Data.fs"}) in script


def test_the_script_says_in_one_line_why_the_site_does_not_load(tmp_path: Path) -> None:
    ini = tmp_path / "site.ini"
    (tmp_path / "failing_site.py").write_text("def make(global_conf):\n    return 1 / 0\n")
    ini.write_text("[app:main]\npaste.app_factory = failing_site:make\n")
    written(tmp_path, "gunicorn", ini=str(ini))
    done = subprocess.run(
        [sys.executable, tmp_path / "site" / "wsgi.py"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    line = tmp_path / "failing_site.py"
    assert done.stderr == f"{ini} does not load: ZeroDivisionError: division by zero ({line}, line 2)\n"


def test_what_is_wrong_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: str) -> str:
        assert main(["deploy", *arguments]) == 1
        assert not (tmp_path / "site").exists()
        return capsys.readouterr().err

    directory = str(tmp_path / "site")
    assert "none.ini: No such file" in refused("gunicorn", "none.ini", directory)
    assert "choose one without blanks" in refused("nginx", INI, str(tmp_path / "a site"))
    assert "a path begins with a slash" in refused("nginx", INI, directory, "--prefix", "app")
    monkeypatch.undo()
    monkeypatch.setattr("pipeline.tools.deploy.site.find_spec", lambda name: None)
    assert "the module gunicorn is missing" in refused("gunicorn", INI, directory)
    monkeypatch.setattr("pipeline.tools.deploy.site.shutil.which", lambda name, path: None)
    assert "the program nginx is missing: apt install nginx" in refused("nginx", INI, directory)


def test_a_directory_that_the_server_cannot_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match="cannot be read by www-data"):
        site.need_readable(closed / "site", "www-data")


def test_a_wrong_python_for_mod_wsgi_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (tmp_path / "mod_wsgi.so-3.5").touch()
    (tmp_path / "mod_wsgi.so").symlink_to("mod_wsgi.so-3.5")
    monkeypatch.setattr(apache, "MODULES", tmp_path)
    monkeypatch.setattr(apache, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"is built for Python 3\.5 of /usr/bin/python3.*-m venv"):
        apache.mod_wsgi()
    monkeypatch.setattr(apache, "MODULES", tmp_path / "missing")
    with pytest.raises(ConfigurationError, match="apt install apache2 libapache2-mod-wsgi-py3"):
        apache.mod_wsgi()


def test_a_container_is_built_in_one_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """COPY takes nothing from outside of it."""
    ini = tmp_path / "etc" / "deploy.ini"
    ini.parent.mkdir()
    ini.write_text(Path(INI).read_text())
    assert "\nCOPY etc/*.ini /srv/site/\nCOPY site/wsgi.py site/gunicorn.conf.py /srv/site/\n" in (
        written(tmp_path, "container", ini=str(ini))["Dockerfile"]
    )
    assert f"docker build -t site -f {tmp_path}/site/Dockerfile {tmp_path}\n" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path.parent)
    name = tmp_path.name
    assert f"\nCOPY {name}/etc/*.ini" in written(tmp_path, "container", ini=str(ini))["Dockerfile"]
    assert main(["deploy", "container", str(ini), "/nowhere/site"]) == 1
    assert "have none in common: choose a DIR beside the ini" in capsys.readouterr().err


def test_systemd_keeps_the_socket_behind_nginx(tmp_path: Path) -> None:
    files = written(tmp_path, "nginx", "--behind", "systemd")
    assert f"\nListenStream={tmp_path}/site/run/site.sock\n" in files["site.socket"]
    assert "\nSocketMode=0660\n" in files["site.socket"]
    assert f"server unix:{tmp_path}/site/run/site.sock" in files["nginx.conf"]
