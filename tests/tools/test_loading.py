"""A site is loaded on trial before a reload."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from pipeline.loading import site as loading

HANGS = """\
import time

try:
    time.sleep(80)
except Exception:  # as imports of optional modules are often written
    time.sleep(80)
"""


def test_a_site_that_hangs_is_given_up_though_its_code_catches_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loading, "LONGEST_LOAD", 1)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(loading, "set_up_logging", lambda ini, variables: None)  # the log is that of pytest
    (tmp_path / "hanging_site.py").write_text(HANGS)
    ini = tmp_path / "site.ini"
    ini.write_text("[app:main]\npaste.app_factory = hanging_site:make\n")
    began = time.monotonic()
    assert loading.try_out(str(ini)) == 1
    assert time.monotonic() - began < 80
    assert "TimeoutError: it is not loaded after 1 s" in capsys.readouterr().err
    time.sleep(1.1)  # the alarm is off
