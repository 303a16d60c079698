"""A site is loaded on trial before a reload, and its templates with it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.loading import site as loading
from pipeline.publishing.jinja import environment

HANGS = """\
import time

try:
    time.sleep(80)
except Exception:  # as imports of optional modules are often written
    time.sleep(80)
"""

SHOWS = """\
from pipeline import render, view

@view(context=dict)
def page(context, request):
    return render("page.html", title="x")
"""
SITE = """\
[pipeline:main]
pipeline = traverse publisher
[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = builtins:dict
[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = {name}
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


COLLECTS = """
import gc, time

def wait(phase, info):
    time.sleep(0.2)

def make(global_conf):
    gc.callbacks.append(wait)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        [[] for _ in range(3000)]
"""


def test_a_site_that_hangs_is_given_up_while_the_collector_is_at_work(tmp_path: Path) -> None:
    """An exception in what the collector calls is printed and lost."""
    (tmp_path / "collecting_site.py").write_text(COLLECTS)
    (tmp_path / "site.ini").write_text("[app:main]\npaste.app_factory = collecting_site:make\n")
    code = "import sys, pipeline.loading.site as site; site.LONGEST_LOAD = 1; sys.exit(site.try_out(sys.argv[1]))"
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "site.ini")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1 and "TimeoutError: it is not loaded after 1 s" in ran.stderr
    assert "Exception ignored" not in ran.stderr


@pytest.mark.parametrize(("text", "is_refused"), [("{{ title }}", False), ("<p>\n{{ title }", True)])
def test_templates_are_loaded_with_the_site_and_one_with_a_mistake_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, is_refused: bool
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(loading, "set_up_logging", lambda ini, variables: None)
    name = f"templates_site_{is_refused}"
    (tmp_path / f"{name}.py").write_text(SHOWS)
    (tmp_path / "page.html").write_text(text)
    (tmp_path / "other.txt").write_text("{{ not a template")
    ini = tmp_path / "site.ini"
    ini.write_text(SITE.format(name=name))
    assert loading.try_out(str(ini)) == is_refused
    if is_refused:
        assert f"{tmp_path / 'page.html'}, line 2: TemplateSyntaxError" in capsys.readouterr().err
    else:
        assert [key[1] for key in environment(name).cache] == ["page.html"]  # type: ignore[union-attr]


def test_a_site_whose_code_ends_the_process_is_refused_before_a_reload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new processes would end as well, and none would be left."""
    (tmp_path / "ending_site.py").write_text("import sys\n\ndef make(global_conf):\n    sys.exit()\n")
    (tmp_path / "site.ini").write_text("[app:main]\npaste.app_factory = ending_site:make\n")
    assert loading.try_out(str(tmp_path / "site.ini")) == 1
    assert f"{tmp_path}/ending_site.py, line 4: this ends the process" in capsys.readouterr().err


WATCHED = """
from pipeline import element
from pipeline.interfaces import Facts

class Watch:
    def start(self):
        raise SystemExit("it was started")

@element(facts=lambda: Facts(watch=Watch()))
def end():
    return lambda request, response: None
"""


def test_a_trial_starts_nothing_that_stands_for_a_running_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It told the processes of the site that there is one more, and then ended."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(loading, "set_up_logging", lambda ini, variables: None)  # the log is that of pytest
    (tmp_path / "watched_site.py").write_text(WATCHED)
    ini = tmp_path / "site.ini"
    ini.write_text("[app:main]\npaste.app_factory = watched_site:end\n")
    assert loading.try_out(str(ini)) == 0
    with pytest.raises(SystemExit, match="it was started"):
        loading.application_of(str(ini))
