"""``pipeline deploy``: what it writes, what it prints, and what it refuses before it writes."""

from __future__ import annotations

import errno
import grp
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pipeline.deploying import apache, kubernetes, site
from pipeline.deploying.target import targets
from pipeline.interfaces import ConfigurationError
from pipeline.tools import deploy
from pipeline.tools.command import main
from servers.container import ignoring

pytestmark = pytest.mark.once
INI = str(Path(__file__).resolve().parents[2] / "etc" / "deploy.ini")
PRODUCTION = INI.replace("deploy.ini", "production.ini")


@pytest.fixture(autouse=True)
def everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written does not depend on what this machine has; tests/servers/test_matrix.py runs it."""
    for module in ("target", "apache", "nginx"):
        monkeypatch.setattr(f"pipeline.deploying.{module}.need_program", lambda name, *more: f"/usr/bin/{name}")
    monkeypatch.setattr(apache, "mod_wsgi", lambda: Path("/usr/lib/apache2/modules/mod_wsgi.so"))
    monkeypatch.setattr("pipeline.deploying.mod_python.mod_python", lambda: Path("mod_python.so"))
    monkeypatch.setattr(apache, "MODULES", Path(__file__).parent)
    monkeypatch.setattr(Path, "exists", lambda path, exists=Path.exists: path.suffix == ".so" or exists(path))
    monkeypatch.setattr("pipeline.deploying.container.lock_of", lambda root: "# A lock.\n")
    monkeypatch.setattr("pipeline.deploying.nginx.module_line", lambda program: "")
    for module in (apache, deploy):
        monkeypatch.setattr(module, "need_readable", lambda path, user: None)


def written(tmp_path: Path, target: str, *options: str, ini: str = INI) -> dict[str, str]:
    if ini in (INI, PRODUCTION):  # a project with the directory that is written
        (tmp_path.parent / "pyproject.toml").write_text('[project]\nname = "shop"\nversion = "1.2"\n')
        etc = shutil.copytree(Path(ini).parent, tmp_path.parent / "etc", dirs_exist_ok=True)
        ini = str(etc / Path(ini).name)
    assert main(["deploy", target, ini, str(tmp_path / "site"), *options]) == 0
    return {path.name: path.read_text() for path in (tmp_path / "site").iterdir() if path.is_file()}


@pytest.mark.parametrize("target", targets())
def test_each_target_says_its_commands(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = written(tmp_path, target)
    assert "wsgi.py" in files
    said = capsys.readouterr().out
    assert said.startswith(f"Written to {tmp_path / 'site'}: ")
    for title in ("start", "stop", "reload", "check"):
        assert re.search(rf"^  {title} +\S", said, re.MULTILINE), title
    assert set(os.listdir(tmp_path)) == {"site"}, "nothing else is written"


@pytest.mark.parametrize("target", targets())
def test_each_setting_has_its_reason(target: str, tmp_path: Path) -> None:
    """More than every third line of a configuration is a comment, or it is part of a list under one."""
    for name, text in written(tmp_path, target).items():
        if name not in ("wsgi.py", "apache.conf"):
            assert re.search(r"^\s*[#;] \S", text, re.MULTILINE), name
        text = text.replace("${BASE}", "")
        assert "{" not in re.sub(r"\{\s*$|%\{|\{\}", "", text, flags=re.MULTILINE) or name == "wsgi.py", name


def test_one_process_has_a_file_and_two_share_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "workers = 1\n" in written(tmp_path, "gunicorn")["gunicorn.conf.py"]
    assert "workers = 2\n" in written(tmp_path, "gunicorn", ini=PRODUCTION)["gunicorn.conf.py"]
    capsys.readouterr()
    assert main(["deploy", "gunicorn", INI, str(tmp_path / "other"), "--workers", "2"]) == 1
    said = capsys.readouterr().err
    assert re.search(r"\[filter:zodb\], line \d+: 2 processes cannot serve this site: one process has file:", said)
    assert not (tmp_path / "other").exists()


def test_the_limits_agree_with_forms(tmp_path: Path) -> None:
    limit = str(100 * 1024 * 1024 + 64 * 1024)
    assert f"client_max_body_size {limit};" in written(tmp_path, "nginx")["site.conf"]
    assert f"LimitRequestBody {limit}\n" in written(tmp_path, "apache")["site.conf"]
    assert f"limit-post = {limit}\n" in written(tmp_path, "uwsgi")["uwsgi.ini"]
    assert f"max-request-size = {int(limit) // 1024}\n" in written(tmp_path, "lighttpd")["lighttpd.conf"]


@pytest.mark.parametrize(
    ("target", "file", "line"),
    [
        ("apache", "site.conf", "AllowEncodedSlashes NoDecode"),
        ("apache", "site.conf", "WSGIChunkedRequest On"),
        ("apache", "site.conf", "WSGIPassAuthorization On"),
        ("apache", "apache.conf", "GracefulShutdownTimeout 30"),
        ("mod_python", "site.conf", "PythonImport mod_python_site main_interpreter"),
        ("uwsgi", "uwsgi.ini", "lazy-apps = true"),
        ("uwsgi", "uwsgi.ini", "hook-master-start = unix_signal:15 gracefully_kill_them_all"),
        ("nginx", "site.conf", "    proxy_set_header Host $host$asked_port_8080;"),
        ("nginx", "site.conf", "    proxy_set_header X-Forwarded-For $remote_addr;"),
        ("nginx", "site.conf", '    proxy_set_header X-Vhm-Root "";'),
        ("nginx", "site.conf", "    proxy_next_upstream off;"),
        ("systemd", "site.service", "NoNewPrivileges=yes"),
        ("systemd", "site.socket", "ListenStream=127.0.0.1:8080"),
        ("container", "Dockerfile", "USER 10001:10001"),
        ("container", "Dockerfile", "VOLUME /srv/site/var"),
        ("gunicorn", "gunicorn.conf.py", "preload_app = False"),
    ],
)
def test_what_each_server_does_wrong_is_repaired(target: str, file: str, line: str, tmp_path: Path) -> None:
    assert f"\n{line}\n" in written(tmp_path, target)[file]


def test_uwsgi_behind_nginx_learns_of_no_login_and_no_chunks(tmp_path: Path) -> None:
    text = written(tmp_path, "nginx", "--behind", "uwsgi")["site.conf"]
    assert 'uwsgi_param HTTP_TRANSFER_ENCODING "";' in text
    assert "uwsgi_param REMOTE_USER" not in text and "uwsgi_param HTTP_HOST $host;" not in text


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


SECRET_URI = "postgres://site:pa:ss-w0rd@db.example.com/site"
ODD = "'\"\n\\\u20ac $HOME ${HOME} #x"
MASK = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO


def dotenv(text: str) -> list[tuple[str, str]]:
    """Return the variables of a file for ``docker run --env-file`` as Compose reads them: a value without quotation
    marks ends before `` #``, and ``$`` is the begin of a variable."""
    lines = [line.partition("=") for line in text.splitlines()]
    return [(name, re.sub(r"\$(\w+|\{\w+\})", "", value.partition(" #")[0])) for name, _, value in lines]


@pytest.mark.parametrize("target", targets())
def test_variables_are_for_the_service_alone__S25(target: str, tmp_path: Path, capsys: Any) -> None:
    files = written(tmp_path, target, f"secret={SECRET_URI}", f"odd={ODD}")
    [secret] = (tmp_path / "site").glob("variables*")
    assert secret.stat().st_mode & MASK == 0o600
    [(name, text)] = dotenv(secret.read_text())
    assert name == "PIPELINE_VARIABLES" and json.loads(text) == {"secret": SECRET_URI, "odd": ODD}
    del files[secret.name]
    assert not [name for name, text in files.items() if "ss-w0rd" in text]
    assert "ss-w0rd" not in capsys.readouterr().out
    assert "/variables." not in files.get("Dockerfile", ""), "it is not in the image"


def test_variables_of_an_earlier_time_are_not_left(tmp_path: Path) -> None:
    directory = tmp_path / "site"
    written(tmp_path, "gunicorn", f"secret={SECRET_URI}")
    (directory / "variables.env").chmod(0o644)
    assert "ss-w0rd" in written(tmp_path, "gunicorn", f"secret={SECRET_URI}")["variables.env"]
    assert (directory / "variables.env").stat().st_mode & MASK == 0o600
    assert "variables.env" not in written(tmp_path, "gunicorn")


@pytest.mark.parametrize("mode", [0o777, 0o1777])
@pytest.mark.parametrize("place", ["", "run", "log"])
def test_a_directory_of_others_is_refused__S25(mode: int, place: str, tmp_path: Path, capsys: Any) -> None:
    """Another user could have the site run a wsgi.py of his, or a file written by a link."""
    directory = tmp_path / "site" / place
    directory.mkdir(parents=True)
    directory.chmod(mode)
    assert main(["deploy", "gunicorn", str(INI), str(tmp_path / "site")]) == 1
    assert f"{directory}: others may put files of theirs there: chmod o-w" in capsys.readouterr().err
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


SHOWING = """\
from pathlib import Path


def make(global_conf):
    Path(__file__).with_name("seen").write_text(global_conf["secret"])
    return lambda environ, start_response: []
"""


@pytest.fixture
def showing(tmp_path: Path) -> Path:
    """An ini whose app writes down a variable."""
    (tmp_path / "showing_site.py").write_text(SHOWING)
    ini = tmp_path / "site.ini"
    ini.write_text("[app:main]\npaste.app_factory = showing_site:make\n")
    return ini


def load(tmp_path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the script, which tries whether the site loads."""
    (tmp_path / "seen").unlink(missing_ok=True)
    script = tmp_path / "site" / "wsgi.py"
    environ = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, env=environ)


def test_variables_reach_the_site(showing: Path, tmp_path: Path) -> None:
    written(tmp_path, "gunicorn", "secret=a'b \u20ac", ini=str(showing))
    assert load(tmp_path).returncode == 0
    assert (tmp_path / "seen").read_text() == "a'b \u20ac"
    assert load(tmp_path, PIPELINE_VARIABLES='{"secret": "of the environment"}').returncode == 0
    assert (tmp_path / "seen").read_text() == "of the environment"


@pytest.mark.parametrize("text", ["{", "[]", '{"secret": 1}', SECRET_URI])
def test_variables_that_cannot_be_read_are_named_and_not_shown(text: str, showing: Path, tmp_path: Path) -> None:
    written(tmp_path, "gunicorn", f"secret={SECRET_URI}", ini=str(showing))
    done = load(tmp_path, PIPELINE_VARIABLES=text)
    assert done.returncode == 1
    assert "the environment variable PIPELINE_VARIABLES must be a JSON object" in done.stderr
    (tmp_path / "site" / "variables.env").unlink()
    gone = load(tmp_path)
    assert gone.returncode == 1 and gone.stderr.count("\n") == 1
    assert "variables.env cannot be read: No such file or directory." in gone.stderr
    assert "ss-w0rd" not in done.stderr + gone.stderr and not (tmp_path / "seen").exists()


def test_a_container_gets_its_variables_when_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = written(tmp_path, "container", f"secret={SECRET_URI}")
    assert f"--env-file {tmp_path}/site/variables.env -v" in capsys.readouterr().out
    assert "PRIVATE = '/run/secrets/variables.env'\n" in files["wsgi.py"]
    assert "PRIVATE = None\n" in written(tmp_path, "container")["wsgi.py"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (f"uri = {SECRET_URI}", True),
        ("dsn = host=db password=x", True),
        ("PASSWD = x", True),
        (f"# {SECRET_URI}", False),
        ("uri = postgres://site@db/site", False),
        ("uri = postgres://site:%(password)s@db/site", False),
        ("uri = zeo://127.0.0.1:9991?user=a@b", False),
        ("get password = secret", False),
        ("check = mysite:password", False),
    ],
)
def test_a_password_in_an_ini(
    line: str, found: bool, showing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S25: it would be in the image; and others should not read the ini."""
    showing.write_text(f"{showing.read_text()}\n[app:other]\n{line}\n")
    showing.chmod(0o644)
    status = main(["deploy", "container", str(showing), str(tmp_path / "site")])
    said = capsys.readouterr()
    assert status == int(found)
    assert (f"{showing}, line 5: this line has a password, which the image would have" in said.err) is found
    assert main(["deploy", "gunicorn", str(showing), str(tmp_path / "site")]) == 0
    assert (f"{showing}, line 5, has a password, and every user of this" in capsys.readouterr().out) is found
    showing.chmod(0o640)
    assert main(["deploy", "gunicorn", str(showing), str(tmp_path / "site")]) == 0
    assert "has a password" not in capsys.readouterr().out


def test_a_password_in_an_ini_that_another_one_uses(
    showing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S25: the image has each ini of the chain, wherever it stands in the project."""
    (tmp_path / "pyproject.toml").touch()
    base = tmp_path / "conf" / "base.ini"
    base.parent.mkdir()
    base.write_text(f"{showing.read_text()}db_password = x\n")
    ini = tmp_path / "etc" / "site.ini"
    ini.parent.mkdir()
    ini.write_text("[app:main]\nuse = config:../conf/base.ini\n")
    assert main(["deploy", "container", str(ini), str(tmp_path / "site")]) == 1
    assert f"{base}, line 3: this line has a password, which the image would have" in capsys.readouterr().err


def test_a_deployment_that_cannot_be_written_leaves_the_one_before(
    showing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server runs by those files, and the variables are nowhere else."""
    before = written(tmp_path, "gunicorn", "secret=one", ini=str(showing))
    write_text = Path.write_text

    def fill_the_disk(path: Path, text: str, *more: Any, **options: Any) -> int:
        write_text(path, text[:100], *more, **options)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fill_the_disk)
        assert main(["deploy", "gunicorn", str(showing), str(tmp_path / "site"), "secret=two"]) == 1
    assert {name: (tmp_path / "site" / name).read_text() for name in before} == before
    assert written(tmp_path, "gunicorn", "secret=two", ini=str(showing)).keys() == before.keys()


def test_variables_that_are_not_given_again_are_told_to_be_gone(
    showing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for given, said in ((["secret=one"], False), ([], True), ([], False)):
        files = written(tmp_path, "gunicorn", *given, ini=str(showing))
        assert ("variables.env" in files) is bool(given)
        assert ("variables.env is removed" in capsys.readouterr().out) is said


# nginx and the site behind it


def test_the_socket_is_for_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    own = grp.getgrgid(os.getegid()).gr_name
    text = written(tmp_path, "nginx", "--group", own)["gunicorn.conf.py"]
    assert "\numask = 0o117\n" in text and "os.chown('" in text
    compile(text, "gunicorn.conf.py", "exec")
    run = tmp_path / "site" / "run"
    assert run.stat().st_mode & stat.S_ISGID and run.stat().st_gid == os.getegid()
    assert "may connect" not in capsys.readouterr().out
    assert "--uds-permissions 0660" in written(tmp_path, "nginx", "--behind", "granian")["granian.sh"]
    assert "\nchmod-socket = 660\n" in written(tmp_path, "nginx", "--behind", "uwsgi")["uwsgi.ini"]
    assert "umask" not in written(tmp_path, "gunicorn")["gunicorn.conf.py"]
    systemd = written(tmp_path, "nginx", "--behind", "systemd", "--group", "web")
    assert "\nSocketGroup=web\nSocketMode=0660\n" in systemd["site.socket"]
    assert "umask" not in systemd["gunicorn.conf.py"]
    capsys.readouterr()
    written(tmp_path, "nginx", "--group", "nobody-has-it")
    assert f"Only the group {own} may connect to {run}/site.sock" in capsys.readouterr().out


def with_vhost(tmp_path: Path, *options: str) -> str:
    lines = (f"{option}\n" for option in options)
    ini = tmp_path / "site.ini"
    ini.write_text(
        "[pipeline:main]\npipeline = vhost egg:wsgi-pipeline#errors root end\n"
        "[filter:root]\nuse = egg:wsgi-pipeline#traverse\nroot = builtins:dict\n"
        "[app:end]\nuse = egg:wsgi-pipeline#publisher\n"
        f"[filter:vhost]\nuse = egg:wsgi-pipeline#vhost\n{''.join(lines)}"
    )
    return str(ini)


BELIEVED = ("trusted = unix", "accept = x-forwarded", "allowed_hosts = *")
BY_ADDRESS = ("trusted = 10.0.0.1", "accept = X-Forwarded", "allowed_hosts = *")
OTHER_FORM = ("trusted = unix 10.0.0.1", "accept = VirtualHostBase", "allowed_hosts = *")
ELSEWHERE = ("--upstream", "10.0.0.2:8080")


@pytest.mark.parametrize(
    ("options", "vhost", "refused"),
    [
        ((), BELIEVED, ""),
        ((), (), "trusted is '' and accept is ''. Let trusted name unix,"),
        ((), BY_ADDRESS, "trusted is '10.0.0.1' and"),
        ((), OTHER_FORM, "accept is 'VirtualHostBase'. Let"),
        (("--behind", "granian"), (), "proxies=unix headers=X-Forwarded"),
        (("--behind", "systemd"), (), "proxies=unix headers=X-Forwarded"),
        (("--behind", "uwsgi"), (), ""),
        (ELSEWHERE, BY_ADDRESS, ""),
        (ELSEWHERE, BELIEVED, "Let trusted name the address of the proxy, such as 127.0.0.1, and accept"),
        (("--behind", "uwsgi", *ELSEWHERE), (), "the address of the proxy"),
    ],
)
def test_a_vhost_that_does_not_trust_nginx_is_refused(
    options: tuple[str, ...], vhost: tuple[str, ...], refused: str, tmp_path: Path, capsys: Any
) -> None:
    """S22: all visitors would have one address."""
    ini = with_vhost(tmp_path, *vhost)
    assert main(["deploy", "nginx", ini, str(tmp_path / "site"), *options]) == bool(refused)
    said = capsys.readouterr().err
    assert refused in said and (tmp_path / "site").exists() is not bool(refused)
    assert (f"{ini}, section [filter:vhost], line" in said) is bool(refused)


def test_a_site_without_vhost_is_told_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text("[app:main]\nuse = egg:wsgi-pipeline#health\n")
    assert main(["deploy", "nginx", str(ini), str(tmp_path / "site")]) == 0
    assert "The site takes nginx for each visitor." in capsys.readouterr().out


@pytest.mark.parametrize("ini", ["deploy.ini", "production.ini", "all.ini"])
def test_the_inis_trust_the_proxy_that_is_deployed(ini: str, tmp_path: Path) -> None:
    written(tmp_path, "nginx", ini=str(Path(INI).with_name(ini)))
    written(tmp_path, "nginx", *ELSEWHERE, ini=str(Path(INI).with_name(ini)))


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
    assert done.stderr == f"{ini} does not load: {line}, line 2: ZeroDivisionError: division by zero\n"


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
    monkeypatch.setattr("pipeline.deploying.site.find_spec", lambda name: None)
    assert "the module gunicorn is missing" in refused("gunicorn", INI, directory)
    monkeypatch.setattr("pipeline.deploying.site.shutil.which", lambda name, path: None)
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


def test_a_container_is_built_of_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """COPY takes nothing from outside of it."""
    files = written(tmp_path, "container", "--rehearse", str(tmp_path.parent / "var" / "access.json"))
    root, inside = tmp_path.parent, f"{tmp_path.name}/site"
    assert f"docker build -t site -f {root}/{inside}/Dockerfile {root}\n" in capsys.readouterr().out
    assert f"\nCOPY {inside}/requirements.txt /tmp/" in files["Dockerfile"]
    assert 'image.title="shop" org.opencontainers.image.version="1.2"\n' in files["Dockerfile"]
    assert "\nINI = '/srv/site/etc/deploy.ini'\n" in files["wsgi.py"]
    assert "before_reload(INI, '/srv/site/var/access.json', PRIVATE" in files["wsgi.py"]
    assert f"\n!{inside}/gunicorn.conf.py\n" in files["Dockerfile.dockerignore"]
    assert main(["deploy", "container", f"{root}/etc/deploy.ini", "/nowhere/site"]) == 1
    assert f"choose a DIR in it, such as {root}/server" in capsys.readouterr().err


OF_WWW_DATA = ("apache", "mod_python", "systemd")
"""Targets whose processes become another user than root. The others run as the user that starts them."""


@pytest.mark.parametrize("target", targets())
def test_a_secret_is_for_the_user_that_runs_the_site__S25(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """www-data runs other sites, too."""
    users = {}

    def write_secret(path: Path, text: str, user: str) -> None:
        users[path.name] = user
        path.touch()

    monkeypatch.setattr(deploy, "write_secret", write_secret)
    written(tmp_path, target, "zodb_uri=postgres://site:secret@host/db", "--user", "www-data")
    assert users and set(users.values()) == {"www-data" if target in OF_WWW_DATA else ""}


MARKED = (
    *("server/variables.json", "server/variables.env", "nginx/variables.env", "var/session_keys", "var/Data.fs"),
    *("old.ini.bak", "dump.sql", "notes.sqlite", "backup/site.tar", "access.json", "tests/recorded.json"),
    *("etc/other.ini", ".env", "shop/.env", "shop/private.pem"),
)
"""Files of an operator, each with a secret, and none of them needed in an image."""
NEEDED = ("pyproject.toml", "etc/deploy.ini", "shop/__init__.py", "shop/templates/front.html", "shop/static/a.css")


def test_an_image_has_what_it_needs_and_nothing_else__S25(tmp_path: Path) -> None:
    """The context is judged by Docker's rules: what a build copies."""
    root, copied = tmp_path / "project", tmp_path / "copied"
    for name in (*MARKED, *NEEDED):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("a secret" if name in MARKED else "")
    (root / "pyproject.toml").write_text('[project]\nname = "shop"\n')
    shutil.copy(INI, root / "etc" / "deploy.ini")
    assert main(["deploy", "container", str(root / "etc/deploy.ini"), str(root / "server")]) == 0
    shutil.copytree(root, copied, ignore=ignoring(root / "server" / "Dockerfile", root, copied))
    found = {str(file.relative_to(copied)) for file in copied.rglob("*") if file.is_file()}
    run = {f"server/{name}" for name in ("wsgi.py", "gunicorn.conf.py", "requirements.txt")}
    assert found == {*NEEDED, *run}


def test_a_lock_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(tmp_path, "container")["requirements.txt"] == "# A lock.\n"
    monkeypatch.setattr("pipeline.deploying.container.lock_of", lambda root: "# Newer versions.\n")
    assert written(tmp_path, "container")["requirements.txt"] == "# A lock.\n"
    (tmp_path / "site" / "requirements.txt").unlink()
    assert written(tmp_path, "container")["requirements.txt"] == "# Newer versions.\n"


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        ("%(here)s/var/keys", False),
        ("/data/keys", False),
        ("%(here)s/keys", True),
        ("keys", True),  # relative to DIR, which has the script
        ("%(here)s/../elsewhere/keys", True),
        ("%(here)s/package/keys", True),
    ],
)
def test_what_a_container_writes_is_in_a_volume(keys: str, refused: bool, tmp_path: Path, capsys: Any) -> None:
    top = tmp_path / "top"
    (top / "package").mkdir(parents=True)
    (top / "package" / "__init__.py").touch()
    (top / "pyproject.toml").touch()
    ini = top / "site.ini"
    ini.write_text(
        "[pipeline:main]\npipeline = session end\n[app:end]\nuse = egg:wsgi-pipeline#health\n"
        f"[filter:session]\nuse = egg:wsgi-pipeline#session\nkeys = {keys}\n"
    )
    assert main(["deploy", "container", str(ini), str(top / "server")]) == refused
    said = capsys.readouterr().err
    assert (f"{ini}, section [filter:session], line" in said and "such as %(here)s/var/keys" in said) is refused
    if not refused:
        volume = keys.replace("%(here)s", "/srv/site").removesuffix("/keys")
        assert f"\nVOLUME {volume}\n" in (top / "server" / "Dockerfile").read_text()


def test_systemd_keeps_the_socket_behind_nginx(tmp_path: Path) -> None:
    files = written(tmp_path, "nginx", "--behind", "systemd")
    assert f"\nListenStream={tmp_path}/site/run/site.sock\n" in files["site.socket"]
    assert "\nSocketMode=0660\n" in files["site.socket"]
    assert f"server unix:{tmp_path}/site/run/site.sock" in files["nginx.conf"]


@pytest.mark.servers
def test_systemd_finds_the_service_well_confined(tmp_path: Path, missing: Callable[[str, str], NoReturn]) -> None:
    """An exposure of 1.7 or better, of 10. Each right more than that is a decision."""
    written(tmp_path, "systemd", "--drain", "7", ini=PRODUCTION)
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze", "apt install systemd")
    unit = tmp_path / "site" / "site.service"
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=17", unit]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "Overall exposure level for site.service:" in done.stdout, done.stderr
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("target", targets())
def test_a_rehearsal_is_written_into_what_runs_before_a_reload(target: str, tmp_path: Path) -> None:
    assert "before_reload(" not in "".join(written(tmp_path, target).values())
    files = written(tmp_path, target, "--rehearse", "/data/access.json")
    assert " or before_reload(INI, '/data/access.json', PRIVATE, **VARIABLES))" in files["wsgi.py"]
    if target == "container":  # new code is a new container
        assert re.search(r'\["sh", "-c", "python /srv/site/\S+/wsgi.py && exec gunicorn', files["Dockerfile"])
    if target == "systemd":
        [unit] = [text for name, text in files.items() if name.endswith(".service")]
        assert f"ExecReload={sys.executable} {tmp_path}/site/wsgi.py\n" in unit


BROKEN_SITE = """
from pipeline import view

@view(context=dict)
def index(context, request):
    return context["no such key"]
"""


def test_what_runs_before_a_reload_refuses_an_answer_that_got_worse(tmp_path: Path) -> None:
    code, log = tmp_path / "shop_before_a_reload.py", tmp_path / "access.json"
    code.write_text(BROKEN_SITE.replace('context["no such key"]', '"the shop"'))
    ini = tmp_path / "shop.ini"
    ini.write_text(
        "[pipeline:main]\npipeline = errors traverse publisher\n[filter:errors]\nuse = egg:wsgi-pipeline#errors\n"
        "[filter:traverse]\nuse = egg:wsgi-pipeline#traverse\nroot = builtins:dict\n"
        "[app:publisher]\nuse = egg:wsgi-pipeline#publisher\nscan = shop_before_a_reload\n"
    )
    written(tmp_path, "gunicorn", "--rehearse", str(log), ini=str(ini))
    first = load(tmp_path)
    assert (first.returncode, "has no requests: nothing is rehearsed" in first.stdout) == (0, True), first
    log.write_text('{"method": "GET", "url": "/", "status": 200, "user": null}\n')
    sound = load(tmp_path)
    assert (sound.returncode, "0 are worse" in sound.stdout) == (0, True), sound
    code.write_text(BROKEN_SITE)
    broken = load(tmp_path)
    assert (broken.returncode, "WORSE GET /  200 -> 500" in broken.stdout) == (1, True), broken
    assert "KeyError" in broken.stdout


@pytest.mark.servers
@pytest.mark.parametrize("options", [(), ("--drain", "7"), ("zodb_uri=postgres://site:secret@db/site",)])
def test_the_manifests_keep_the_schema(
    options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], need_packages: Callable[..., None]
) -> None:
    need_packages("kubernetes_validate", "yaml")
    kubernetes_validate, yaml = import_module("kubernetes_validate"), import_module("yaml")
    text = written(tmp_path, "kubernetes", *options, ini=PRODUCTION)["kubernetes.yaml"]
    manifests = list(yaml.safe_load_all(text))
    for manifest in manifests:
        kubernetes_validate.validate(manifest, "1.37", strict=True)
    kinds = {manifest["kind"]: manifest for manifest in manifests}
    assert set(kinds) == {"Deployment", "Service", "PersistentVolumeClaim"}
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    [site] = pod["containers"]
    mounted = {mount["name"] for mount in site["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert ("lifecycle" in site) is ("--drain" not in options)
    assert pod["terminationGracePeriodSeconds"] == 45 + (7 if "--drain" in options else 0)
    assert "secret@" not in text
    said = capsys.readouterr().out
    assert ("kubectl create secret generic shop --from-env-file" in said) is ("zodb_uri" in "".join(options))


@pytest.mark.servers
def test_compose_has_the_databases_that_the_site_names(tmp_path: Path, need_packages: Callable[..., None]) -> None:
    need_packages("yaml")
    load = import_module("yaml").safe_load
    compose = load(written(tmp_path, "container", ini=INI)["compose.yaml"])
    assert set(compose["services"]) == {"site"}
    assert compose["services"]["site"]["volumes"] == ["site-srv-site-var:/srv/site/var"]
    assert compose["volumes"] == {"site-srv-site-var": {}}
    uri = "zodb_uri=postgres://site:secret@db/site"
    text = written(tmp_path, "container", uri, "--drain", "7", ini=PRODUCTION)["compose.yaml"]
    assert "secret" not in text
    compose = load(text)
    site, db = compose["services"]["site"], compose["services"]["db"]
    assert site["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert (site["stop_grace_period"], site["env_file"]) == ("47s", f"{tmp_path}/site/variables.env")
    assert (db["env_file"], db["volumes"]) == (f"{tmp_path}/site/db.env", ["db:/var/lib/postgresql/data"])
    assert set(compose["volumes"]) >= {"db"}


SIGNS = "&|()<>*?[]!`,;=^ \n\t\x07\x7f'\"\\$#{}%"
"""Signs that a shell, a unit of systemd or a server reads as something else."""
MISREAD = [
    *(("gunicorn", "directory", f"a{sign}b") for sign in SIGNS),
    *(("nginx", "--prefix", f"/a{sign}b") for sign in SIGNS),
    *(("nginx", "--prefix", prefix) for prefix in ("a", "/..", "/../x", "/a/../b")),
    *(("systemd", "--user", name) for name in ("", "-x", "a b", "a;b", "a\nb", "a$b")),
    *(("nginx", "--group", name) for name in ("", "-x", "a b", "a;b", "a\nb", "a$b")),
    *(("gunicorn", "--host", host) for host in ("a b", "[::1]", "::1%eth0", "a;b", "a\nb")),
    *(("nginx", "--host", host) for host in ("-x", "*", "a#b")),
    *(("nginx", "--upstream", one) for one in ("", "a b:80", "a;b:80", "$x:80", "a:80 # c", "-x:80")),
    *(("nginx", "--upstream", one) for one in ("a\nb:80", "a,b:80", "a:80`id`", "a:80&b")),
]


@pytest.mark.parametrize(("target", "option", "value"), MISREAD)
def test_a_value_that_a_server_or_a_shell_would_misread_is_refused(
    target: str, option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "site" / value if option == "directory" else tmp_path / "site"
    words = [] if option == "directory" else [f"{option}={value}"]
    assert main(["deploy", target, INI, str(directory), *words]) == 1
    said = capsys.readouterr().err
    assert " ".join(value.split()) in said  # a message is one line
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("option", ["--workers", "--threads", "--drain"])
@pytest.mark.parametrize("value", ["-1", "-30", "nan", "1e3", "1.5", ""])
def test_a_number_that_no_server_takes_is_refused(option: str, value: str, tmp_path: Path, capsys: Any) -> None:
    """The alarm of a process takes -1 for 136 years, so a site with --drain -1 would not stop."""
    with suppress(SystemExit):
        assert main(["deploy", "gunicorn", INI, str(tmp_path / "site"), f"{option}={value}"]) == 1
    assert option.lstrip("-") in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_a_directory_that_a_unit_of_systemd_would_misread_is_refused(tmp_path: Path, capsys: Any) -> None:
    """ReadWritePaths has two paths then, and systemd starts no service with one that is missing."""
    ini = tmp_path / "site.ini"
    ini.write_text(
        "[pipeline:main]\npipeline = log traverse egg:wsgi-pipeline#publisher\n"
        f"[filter:log]\nuse = egg:wsgi-pipeline#log\nfile = {tmp_path}/my logs/access.log\n"
        "[filter:traverse]\nuse = egg:wsgi-pipeline#traverse\nroot = builtins:dict\n"
    )
    (tmp_path / "my logs").mkdir()
    assert main(["deploy", "systemd", str(ini), str(tmp_path / "site")]) == 1
    assert f"{tmp_path}/my logs: a server would misread it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--prefix", value) for value in ("/a/", "/a-b_c.d~e", "/@@a", "/\u00e9", "/..a", "/")),
        *(("--host", value) for value in ("::1", "0.0.0.0", "localhost", "a-b.example.com", "")),
        *(("--upstream", value) for value in ("[::1]:80", "10.0.0.2:8080", "a_b.local:1")),
        *(("--workers", "0"), ("--threads", "8"), ("--drain", "0"), ("--user", "1000"), ("--user", "a.b-c")),
    ],
)
def test_a_value_with_a_meaning_is_written(option: str, value: str, tmp_path: Path) -> None:
    assert written(tmp_path, "nginx", f"{option}={value}")["nginx.conf"]


@pytest.mark.parametrize(
    ("target", "name", "option", "said"),
    [
        ("systemd", "site", "--host=localhost", "--host localhost: systemd listens on an address"),
        ("systemd", "a@b", "--port=8080", "a@b: systemd takes a name with '@' for that of a template of units"),
        ("gunicorn", "site", "--upstream=10.0.0.2:80", "--upstream 10.0.0.2:80: of the targets only nginx"),
        ("systemd", "site", "--upstream=10.0.0.2:80", "--upstream 10.0.0.2:80: of the targets only nginx"),
    ],
)
def test_a_choice_that_a_target_cannot_write_is_refused(
    target: str, name: str, option: str, said: str, tmp_path: Path, capsys: Any
) -> None:
    """systemd refuses the unit when it is started; a server that asks no instances forgot them without a word."""
    assert main(["deploy", target, INI, str(tmp_path / name), option]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
def test_systemd_listens_on_an_address(host: str, tmp_path: Path) -> None:
    files = written(tmp_path, "systemd", f"--host={host}")
    assert f"ListenStream={site.address_of(host, 8080)}\n" in files["site.socket"]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        *(("My Site", "my-site"), ("notes", "notes"), ("\u00c4_x.Y", "x-y"), ("-", "site"), ("", "site")),
        *(("123", "site-123"), ("No", "site-no"), ("true", "site-true"), (f"{'a' * 49}-b", "a" * 49)),
    ],
)
def test_a_name_of_kubernetes_is_one_for_yaml_too(name: str, label: str) -> None:
    """Kubernetes refuses a service whose name is a number, begins with a digit or ends with a hyphen."""
    assert kubernetes.label(name) == label
    assert pytest.importorskip("yaml").safe_load(label) == label
