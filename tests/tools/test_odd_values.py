"""Numbers of the command line: each command refuses what it cannot use, with the option and the value."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import tools
from pipeline.tools.command import main

ODD = ("-1", "nan", "inf", "-inf", f"{10**30}", "", " ", "x", "0x10")


def numbers() -> Iterator[tuple[str, str]]:
    """Yield each command, and each of its options that take a number."""
    for file in sorted(Path(tools.__file__).parent.glob("*.toml")):
        for name, told in tomllib.loads(file.read_text("utf-8")).items():
            if isinstance(told, dict) and told.get("type") in ("int", "float"):
                yield file.stem, name


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(("command", "option"), list(numbers()))
def test_a_number_that_a_command_cannot_use_is_refused(command: str, option: str, odd: str, capsys: Any) -> None:
    """A budget of nan seconds was never over, and a tolerance of nan found no answer worse."""
    with pytest.raises(SystemExit) as refused:
        main([command, f"{option}={odd}"])
    said = capsys.readouterr().err.splitlines()[-1]
    assert (refused.value.code, f"argument {option}: " in said, odd in said) == (2, True, True), said


@pytest.mark.parametrize(
    ("command", "option"), [("serve", "--workers"), ("serve", "--threads"), ("top", "--every"), ("work", "--every")]
)
def test_zero_is_refused_where_it_means_nothing(command: str, option: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main([command, f"{option}=0"])
    assert f"argument {option}: '0' is not a " in capsys.readouterr().err


@pytest.mark.parametrize("option", ["workers", "threads", "port"])
@pytest.mark.parametrize("odd", ["-1", "nan", f"{10**9}", "1.5"])
def test_a_number_of_a_server_in_an_ini_is_refused(option: str, odd: str, tmp_path: Path, capsys: Any) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(
        "[app:main]\nuse = egg:wsgi-pipeline#health\n"
        f"[server:main]\nuse = egg:gunicorn#main\n{option} = {odd}\n"
    )
    assert main(["serve", str(ini)]) == 1
    said = capsys.readouterr().err
    assert f"{ini}, section [server:main]: {option} = {odd} is not a whole number from " in said
