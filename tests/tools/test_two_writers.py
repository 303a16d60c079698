"""Two elements that would write one file are refused before the file is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inis import ini_of
from pipeline.interfaces import ConfigurationError
from pipeline.loading.building import build
from pipeline.paste import load
from pipeline.tools.command import main

ORDER = ["log", "zodb", "errors", "transaction", "traverse"]
URIS = ["file://{here}/var/Data.fs", "file://{here}/var/Data.fs?connection_pool_size=5"]


def write(directory: Path, order: list[str], **options: str) -> str:
    """Write an ini, and return its path."""
    (directory / "var").mkdir()
    options = {name: lines.replace("{here}", str(directory)) for name, lines in options.items()}
    ini = directory / "site.ini"
    ini.write_text(ini_of(order, "proving.notes", **options))
    return str(ini)


def by_command(ini: str) -> None:
    """Check an ini, and raise what is said of it."""
    if main(["check", ini]):
        raise ConfigurationError("see above")


LOADERS: list[Callable[[str], Any]] = [by_command, build, lambda ini: load(f"config:{ini}")]


@pytest.mark.parametrize("loader", LOADERS, ids=["check", "build", "load"])
@pytest.mark.parametrize(
    "file",
    ["{here}/var/Data.fs", "{here}/var/../var/Data.fs", "{here}/link", "{here}/linked/Data.fs", "var/Data.fs"],
)
def test_a_log_in_the_file_of_the_database(
    file: str, loader: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Each line of the log would end the database."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("var/Data.fs")
    (tmp_path / "linked").symlink_to("var")
    ini = write(tmp_path, ORDER, log=f"file = {file}", zodb=f"uri = {URIS[0]}")
    with pytest.raises(ConfigurationError) as refused:
        loader(ini)
    lines = Path(ini).read_text().splitlines()
    place = f"{ini}, section [filter:zodb], line {lines.index('[filter:zodb]') + 3}"
    said = f"{refused.value} {' '.join(capsys.readouterr().out.split())}"
    assert f"{tmp_path}/var/Data.fs is the file of log, too" in said and place in said
    assert f"{ini}, section [filter:log], line {lines.index('[filter:log]') + 3}" in said
    assert not list((tmp_path / "var").iterdir())


def test_a_log_in_the_file_of_sqlite(tmp_path: Path) -> None:
    order = ["sql" if name == "zodb" else name for name in ORDER]
    place = "{here}/var/a b.db"
    url = f"url = sqlite:///{place.replace(' ', '%%20')}"
    ini = write(tmp_path, order, log=f"file = {place}", sql=url, traverse="root = builtins:dict")
    with pytest.raises(ConfigurationError, match="is the file of log, too"):
        load(f"config:{ini}")


def test_elements_may_share_what_one_option_names(tmp_path: Path) -> None:
    """The keys of the session may be those of authenticate, and two pipelines may have one log and one database."""
    order = [*ORDER[:4], "session", "authenticate", "traverse"]
    keys = "keys = {here}/var/keys"
    options = {"log": "file = {here}/var/access.log", "zodb": f"uri = {URIS[0]}"}
    ini = write(tmp_path, order, authenticate=f"by = session\nrealm = wiki\n{keys}", session=keys, **options)
    other = Path(ini).read_text().replace("pipeline:main", "pipeline:other").replace(URIS[0], URIS[1])
    (tmp_path / "other.ini").write_text(other.replace("{here}", str(tmp_path)))
    with Path(ini).open("a") as file:
        file.write("[composite:both]\nuse = egg:wsgi-pipeline#switch\nbranches = config:other.ini#other path=/a\n")
        file.write("default = main\n")
    load(f"config:{ini}", "both")
