"""What each target of ``pipeline deploy`` is told of a site, and what is refused."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.deploying import container, tls
from pipeline.deploying.site import MARGIN, MIB, limit_of, need_readable, password_in
from pipeline.interfaces import ConfigurationError
from pipeline.tools.command import main


@pytest.mark.parametrize(("mode", "is_closed"), [(0o755, False), (0o751, True), (0o754, True), (0o750, True)])
def test_a_directory_must_be_read_and_entered_by_others(mode: int, is_closed: bool, tmp_path: Path) -> None:
    """The directories above it may be closed, too; they are told of later."""
    place = tmp_path / "site"
    place.mkdir()
    place.chmod(mode)
    said = ""
    try:
        need_readable(place, "www-data")
    except ConfigurationError as error:
        said = str(error)
    assert said.startswith(f"{place} cannot be read by www-data") is is_closed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("url = postgresql://site:secret@localhost/db", "line 2"),
        ("password = secret", "line 2"),
        ("db_password = secret", "line 2"),
        ("session.secret = seekreet", "line 2"),
        ("set client_secret = seekreet", "line 2"),
        ("get db_password = secret", ""),
        ("bypass = true", ""),
        ("secret_file = /srv/k3y", ""),
        ("db_password = %(password)s", ""),
        ("token = k3y", "line 2"),  # the facts of an element say that it is a secret
        ("password = %(password)s", ""),
        ("# password = secret", ""),
        ("  ; password = secret", ""),
        ("; token = k3y", ""),
        ("url = postgresql://localhost/db", ""),
    ],
)
def test_the_line_of_a_password(line: str, said: str, tmp_path: Path) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(f"[app:main]\n{line}\n")
    facts: Any = [(SimpleNamespace(strings={"token": "k3y"}), SimpleNamespace(secrets=("token", "other")))]
    assert password_in(ini, facts) == said


@pytest.mark.parametrize(("limits", "limit"), [((), 100 * MIB), ((None,), 100 * MIB), ((1, None, 5), 5), ((0,), 0)])
def test_a_server_lets_through_what_some_element_takes(limits: tuple[int | None, ...], limit: int) -> None:
    facts: Any = [(None, SimpleNamespace(max_body=one)) for one in limits]
    assert limit_of(facts) == limit + MARGIN


@pytest.mark.parametrize("port", [443, 8080])
def test_the_redirect_has_a_port_of_its_own(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "need_pair", lambda *given: None)
    given: dict[str, Any] = {"trusted_proxy": [], "name": ["a.example"], "tls": ["/c.pem", "/k.pem"]}
    options = Namespace(target="nginx", http_port=port, **given)
    with pytest.raises(ConfigurationError, match=f"--http-port {port}: --port has the same number"):
        tls.tls_of(options, "0.0.0.0", port)
    made = tls.tls_of(options, "0.0.0.0", 8443)
    assert made is not None and (made.http, made.port) == (f"0.0.0.0:{port}", ":8443")


def test_a_lock_does_not_hold_the_project_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip would look for its installed version on the index, and not take the directory."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pytest"\n')
    held: list[str] = []

    def run(words: list[str], **options: Any) -> Any:
        held.extend(Path(words[words.index("-c") + 1]).read_text().splitlines())
        return SimpleNamespace(returncode=0, stdout=json.dumps({"install": []}))

    monkeypatch.setattr(container.subprocess, "run", run)
    container.lock_of(tmp_path)
    names = {line.partition("==")[0] for line in held}
    assert "WebOb" in names and not names & {"pytest", "pip", "setuptools"}


def test_a_package_that_is_not_on_the_index_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as this project in a checkout that was not released."""
    said = SimpleNamespace(returncode=1, stderr="ERROR: No matching distribution found for wsgi-pipeline\n")
    monkeypatch.setattr(container.subprocess, "run", lambda *words, **options: said)
    with pytest.raises(ConfigurationError) as refused:
        container.lock_of(tmp_path)
    text = str(refused.value)
    assert f"Put wheels of packages that are not on the index into {tmp_path}/wheels" in text
    assert "write requirements.txt into DIR yourself, with hashes" in text and "No matching distribution" in text


@pytest.mark.parametrize("target", ["container", "kubernetes"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'project = "x"', "project must be a table, not 'x'"),
        (b"project = [1]", "project must be a table, not [1]"),
        (b"[project]\nname = 5", "project.name must be a text, not 5"),
        (b"[project]\nversion = 1.0", "project.version must be a text, not 1.0"),
        (b'[project]\noptional-dependencies = "production"', "project.optional-dependencies must be a table, not "),
        (b"build-system = []", "build-system must be a table, not []"),
        (b'[build-system]\nrequires = "setuptools"', "build-system.requires must be a list of texts, not"),
        (b"[build-system]\nrequires = [5]", "build-system.requires must be a list of texts, not [5]"),
        (b"tool = 1", "tool must be a table, not 1"),
        (b'[tool]\nsetuptools = "on"', "tool.setuptools must be a table, not 'on'"),
        (b'[tool.setuptools]\npackages = [["shop"]]', "tool.setuptools.packages must be a list of texts,"),
        (b"[project", "Expected ']' at the end of a table declaration"),
        (b'[project]\nname = "\xff"', "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_project_that_cannot_be_read_is_named_with_its_key(
    target: str, text: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    done = SimpleNamespace(returncode=0, stdout=json.dumps({"install": []}))
    monkeypatch.setattr(container.subprocess, "run", lambda *words, **options: done)
    (tmp_path / "pyproject.toml").write_bytes(text)
    (tmp_path / "site.ini").write_text("[app:main]\nuse = egg:wsgi-pipeline#metrics\n")
    assert main(["deploy", target, str(tmp_path / "site.ini"), str(tmp_path / "server")]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"pipeline deploy: {tmp_path}/pyproject.toml: {said}") and "Traceback" not in shown


@pytest.mark.parametrize("packages", ['["shop", "shop.views"]', '{find = {where = ["."]}}', None])
def test_a_project_names_its_packages_or_how_they_are_found(packages: str | None, tmp_path: Path) -> None:
    lines = ["[project]", 'name = "shop"', "[tool.setuptools]", *([f"packages = {packages}"] if packages else [])]
    (tmp_path / "pyproject.toml").write_text("\n".join(lines))
    assert container.project_of(tmp_path)["project"] == {"name": "shop"}
