"""``pipeline shell``: Python with the root of a site, a request and a transaction."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from pipeline.http import debug_key
from tools.conftest import CODE, INI, Site
from tools.test_commands import DATABASE, STORED


@pytest.fixture
def stored(site: Site) -> Callable[..., tuple[int, str]]:
    """``stored(code)`` runs code in the shell of a site with a database."""
    site.write(DATABASE, STORED)
    return lambda text: site.run("shell", "-c", text)


def test_nothing_is_stored_unless_the_code_commits(stored: Callable[..., tuple[int, str]]) -> None:
    assert stored("print(root)") == (0, "{'count': 0}")
    assert stored("root['count'] = 1; print(root)") == (0, "{'count': 1}")
    assert stored("print(root)") == (0, "{'count': 0}")
    assert stored("root['count'] = 2; commit(); root['count'] = 3")[0] == 0
    assert stored("print(root)") == (0, "{'count': 2}")
    assert stored("root['count'] = 4; abort(); print(root); commit()") == (0, "{'count': 2}")
    assert stored("root['count'] = 5; request.tm.commit()")[0] == 0
    assert stored("print(root)") == (0, "{'count': 5}")


def test_debug_mode_takes_no_code_for_a_view_that_writes(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug_key, "_key", None)  # another test may have begun debug mode, which is said once
    site.write(DATABASE.replace("#errors\n", "#errors\ndebug = true\n"), STORED)
    for number in range(2):
        assert site.run("shell", "-c", f"root['count'] = {number}; commit()") == (0, "")
    assert "debug mode is on" in caplog.text
    assert "a GET has changed the database" not in caplog.text


def test_a_script_that_fails_stores_nothing_and_says_why(stored: Callable[..., tuple[int, str]]) -> None:
    status, said = stored("root['count'] = 7\nroot['no']")
    assert status == 1
    assert said.startswith('Traceback (most recent call last): File "<-c>", line 2')
    assert "KeyError: 'no'" in said and "shell.py" not in said
    assert stored("import sys; sys.exit(3)") == (3, "")
    assert stored("import sys; sys.exit('no')")[0] == 1
    assert stored("print(root)") == (0, "{'count': 0}")


def test_the_database_is_closed_afterwards(stored: Callable[..., tuple[int, str]], site: Site) -> None:
    """The connection is given back without a transaction; another process can open the database at its end."""
    from pipeline.elements.zodb import close_all

    assert stored("import builtins; builtins.kept = request")[0] == 0
    import builtins

    request = builtins.kept  # type: ignore[attr-defined]
    del builtins.kept  # type: ignore[attr-defined]
    assert "pipeline.request" not in request.environ
    assert request.zodb_pooled.tm._txn is None
    close_all()
    command = [sys.executable, "-W", "ignore", "-m", "pipeline", "shell", str(site.ini), "-c", "print(root)"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("{'count': 0}\n", "", 0)


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("middle", "status", "count"), [("", 0, 9), ("raise KeyError(1)", 1, 0)])
def test_a_script_ends_at_its_first_error(
    middle: str, status: int, count: int, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands behind it, such as ``commit()``, would store a half."""
    site.write(DATABASE, STORED)
    script = f"def change(to):\n    root['count'] = to\nchange(8)\n{middle}\nchange(9)\ncommit()\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(script))
    assert site.run("shell")[0] == status
    assert site.run("shell", "-c", "print(root)") == (0, f"{{'count': {count}}}")


def test_the_prompt_says_what_is_there(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.write(DATABASE, STORED)
    monkeypatch.setattr("pipeline.tools.shell.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "stdin", Terminal("root['count'] = 9\nprint('it is', root)\n"))
    status, said = site.run("shell")
    assert status == 0
    for name in ("root", "request", "commit", "abort", "app"):
        assert f" {name} " in said
    assert "the object where traversal starts: {'count': 0}" in said
    assert "Nothing is stored without commit()." in said
    assert "it is {'count': 9}" in said
    assert site.run("shell", "-c", "print(root)") == (0, "{'count': 0}")


def test_it_is_ipython_if_that_is_installed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    module = ModuleType("IPython")
    module.start_ipython = lambda **options: started.append(options)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setattr("pipeline.tools.shell.find_spec", lambda name: module)
    monkeypatch.setattr(sys, "stdin", Terminal())
    status, said = site.run("shell")
    assert (status, len(started)) == (0, 1)
    assert "request a GET of /" in said
    assert set(started[0]["user_ns"]) == {"app", "request", "root"}


def test_a_site_without_a_database(site: Site) -> None:
    """``traverse`` has the root; there is nothing to commit."""
    assert site.run("shell", "-c", "print(sorted(root), 'commit' in dir())") == (0, "['docs', 'page'] False")


def test_the_host_is_one_that_the_site_serves(site: Site) -> None:
    ini = INI.replace("errors traverse", "vhost errors traverse")
    site.write(f"{ini}\n[filter:vhost]\nuse = egg:wsgi-pipeline#vhost\nallowed_hosts = .example.com\n", CODE)
    assert site.run("shell", "-c", "print(request.host)") == (0, "example.com")


def test_a_request_that_reaches_no_site(site: Site) -> None:
    switch = "[composite:main]\nuse = egg:wsgi-pipeline#switch\nbranches =\n    site method=PUT\n\n"
    site.write(switch + INI.replace("pipeline:main", "pipeline:site"), CODE)
    status, said = site.run("shell", "-c", "1")
    assert status == 1
    assert "does not reach a site (404 Not Found)" in said and f"{site.ini}#NAME" in said
