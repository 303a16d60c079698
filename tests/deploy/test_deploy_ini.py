"""``etc/deploy.ini`` and ``etc/pipeline.wsgi`` as files: quick to load, and honest about what they take."""

from __future__ import annotations

import inspect
import runpy
import socket
import sys
import time
from collections.abc import Callable
from configparser import RawConfigParser
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from pipeline.elements.forms import forms
from pipeline.paste import load
from pipeline.tools.command import main

TOP = Path(__file__).resolve().parents[2]
INI = TOP / "etc" / "deploy.ini"


def test_the_ini_loads_in_milliseconds(tmp_path: Path) -> None:
    def seconds() -> float:
        began = time.process_time()
        load(f"config:{INI}", zodb_uri=f"file://{tmp_path}/Data.fs", session_keys=f"{tmp_path}/session_keys")
        return time.process_time() - began

    seconds()  # imports
    assert min(seconds() for _ in range(5)) < 0.1
    assert [path.name for path in tmp_path.iterdir()] == ["session_keys"], "loading opens no database"


ORDER = (
    "log vhost shield retry zodb errors transaction session forms authenticate traverse base compress coalesce "
    "publisher"
)


def test_the_ini_has_all_elements_in_the_default_order(capsys: pytest.CaptureFixture[str]) -> None:
    """And says of each what it is for."""
    parser = RawConfigParser()
    parser.read(INI)
    assert parser["pipeline:main"]["pipeline"] == ORDER
    assert main(["check", str(INI)]) == 0
    assert "1 pipeline, 15 parts, in order and complete" in capsys.readouterr().out
    lines = INI.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("[filter:", "[app:")):
            assert lines[number - 1].startswith("# "), line


def test_nothing_is_swallowed_by_default_in_the_ini() -> None:
    # Paste Deploy drops an option of a section that stands in [DEFAULT] too.
    parser = RawConfigParser()
    parser.read(INI)
    for section in parser.sections():
        own = parser._sections[section]  # type: ignore[attr-defined]
        assert not own.keys() & parser.defaults().keys(), section


@pytest.mark.parametrize("name", ["deploy.ini", "all.ini"])
def test_the_limits_of_the_server_agree_with_those_of_forms(name: str) -> None:
    """S12, S15: waitress reads headers in quadratic time, and stores a body before the pipeline sees it."""
    parser = RawConfigParser()
    parser.read(TOP / "etc" / name)
    server = parser["server:main"]
    limit = inspect.signature(forms.factory).parameters["max_body"].default
    assert int(server["max_request_body_size"]) == limit
    assert int(server["max_request_header_size"]) <= 65536


def test_waitress_refuses_what_is_beyond_the_limits(
    tmp_path: Path, free_port: int, start: Callable[..., Any]
) -> None:
    """On the real server: long headers in little time, and a body that is too long before it is sent."""
    chosen = [f"http_port={free_port}", f"zodb_uri=file://{tmp_path}/Data.fs", f"session_keys={tmp_path}/keys"]
    server = start([Path(sys.executable).with_name("paster"), "serve", INI, *chosen], free_port)

    def status(head: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", free_port), timeout=30) as client:
            client.sendall(b"POST / HTTP/1.0\r\nHost: localhost\r\n" + head)
            return client.recv(4096)[:13]

    began = server.seconds()
    assert status(b"Accept: " + b"x" * 66_000 + b"\r\n\r\n")[9:12] == b"431"
    assert server.seconds() - began < 5
    assert status(b"Content-Length: 104857601\r\n\r\n")[9:12] == b"413"


def test_the_script_takes_its_data_directory_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded = {}

    def spy(ini: str, **options: str) -> str:
        loaded[ini] = options
        return "the application"

    monkeypatch.setattr("pipeline.loading.site.application_of", spy)
    assert runpy.run_path(str(TOP / "etc" / "pipeline.wsgi"))["application"] == "the application"
    assert loaded.pop(str(INI)) == {}
    monkeypatch.setenv("PIPELINE_VAR", str(tmp_path))
    runpy.run_path(str(TOP / "etc" / "pipeline.wsgi"))
    assert loaded.pop(str(INI)) == {
        "zodb_uri": f"file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs",
        "session_keys": f"{tmp_path}/session_keys",
    }


def ours(group: str) -> list[EntryPoint]:
    """The entry points, without those of the extras ``ztk`` and ``zope``, whose environments are others."""
    found = [entry for entry in entry_points(group=group) if entry.dist and entry.dist.name == "wsgi-pipeline"]
    return [entry for entry in found if not entry.module.startswith(("pipeline.ztk.", "pipeline.zope."))]


@pytest.mark.parametrize(
    "group", ["console_scripts", "paste.app_factory", "paste.composite_factory", "paste.filter_factory"]
)
def test_every_entry_point_leads_somewhere(group: str) -> None:
    assert ours(group)
    for entry in ours(group):
        assert callable(entry.load()), entry


def test_every_element_has_an_entry_point() -> None:
    names = {path.stem for path in (TOP / "src" / "pipeline" / "elements").glob("[!_]*.py")}
    assert names == {entry.name for entry in ours("paste.filter_factory")}
