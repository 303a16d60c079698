"""The options of ``health``: a value that would fail later, in a thread or in each answer, is refused at load."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from paste.deploy import loadapp

from pipeline.interfaces import OptionError
from pipeline.paste import load
from pipeline.running.process import Process

INI = """
[composite:main]
use = egg:wsgi-pipeline#switch
branches = health path=/health
default = site

[app:health]
use = egg:wsgi-pipeline#health
watch = {directory}
{option} = {value}

[pipeline:site]
pipeline = traverse egg:wsgi-pipeline#publisher

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = builtins:dict
"""

WORDS = ("yes", "None", '"1"', "5s", "5 # five", "1, 2", "-1", "nan", "inf", "-0.5")
"""Values that no number of seconds has."""
ODD = [
    *(("timeout", value) for value in (*WORDS, "0", "")),
    *(("slow", value) for value in (*WORDS, "")),
    *(("threads", value) for value in (*WORDS, "1.5", "")),
    *(("listen", value) for value in ("yes", "nan", "*", "-1", "8080", ":8080", "127.0.0.1", "host:http")),
    *(("listen", f"127.0.0.1:{port}") for port in ("", "0", "-1", "65536", "99999")),
    *(("listen", f"127.0.0.1:80{more}") for more in (" # x", ",b:80", " b:80")),
]


@pytest.mark.parametrize(("option", "value"), ODD)
@pytest.mark.parametrize("loader", [load, loadapp])
def test_an_odd_value_is_refused_with_its_place(loader: Any, option: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "site.ini"
    file.write_text(INI.format(directory=tmp_path, option=option, value=value))
    with pytest.raises(OptionError) as refused:
        loader(f"config:{file}")
    said = str(refused.value)
    assert said.startswith(f"{file}, section [app:health], line "), said
    assert option in said
    assert value.strip('"').split(".")[0] in said


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("timeout", value) for value in ("0.01", "3", "60")),
        *((option, value) for option in ("slow", "threads") for value in ("0", "8")),
        *(("listen", value) for value in ("127.0.0.1:8080", "[::1]:80", "*:65535")),
        *(("listen", value) for value in ("run/probes.sock", "/run/a.sock", "")),
    ],
)
def test_a_value_with_a_meaning_is_accepted(option: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "site.ini"
    file.write_text(INI.format(directory=tmp_path, option=option, value=value))
    assert loadapp(f"config:{file}") is not None


def test_a_name_without_an_address_is_logged_and_frees_the_lock(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """waitress raises ValueError for it, where a port that is taken is an OSError."""
    process: Any = SimpleNamespace(directory=str(tmp_path), listen="no-such-name.invalid:8080")
    for _ in range(2):
        with caplog.at_level(logging.ERROR, "pipeline"):
            Process._probes(process)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert said[0].startswith("health: listen = no-such-name.invalid:8080: ")
