"""A reload while a slow request is under way, with a database that only one process may have (R9).

tests/servers/test_matrix.py reloads every target with a database that several processes share. With a Data.fs the
new process waits until the old one has finished. No request fails meanwhile.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from servers.base import wait_until
from servers.deployed import deployed
from servers.probes import Load, Target
from servers.test_matrix import need

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]
TARGETS = ("gunicorn", "granian", "nginx", "nginx --behind granian", "nginx --behind uwsgi", "uwsgi")
CLIENTS = 8
NAP = "/@@nap?seconds=2"
"""The request that is under way."""
RELOADS = 3 if os.environ.get("PIPELINE_FAULTS") == "full" else 1


def reload_with_a_file(target: str, python: Path, inis: Path, directory: Path) -> Counter[str]:
    """Return what went wrong during reloads, each with a slow request under way."""
    uri = f"zodb_uri=file://{directory}/Data.fs"
    with deployed(python, inis / "matrix.ini", directory, target, uri) as server:
        where = Target(server.port)
        loads = [Load(where, CLIENTS // 2, method) for method in ("GET", "POST")]
        slow: list[int] = []

        def nap() -> None:
            slow.append(where.ask("GET", NAP, "Connection: close").status)

        with loads[0], loads[1]:
            wait_until(lambda: all(len(load.answers) >= 20 for load in loads), 20, "the load is answered")
            for _ in range(RELOADS):
                thread = threading.Thread(target=nap)
                thread.start()
                time.sleep(0.5)
                old = {pid for load in loads for pid in load.processes()}
                server.run("reload")
                thread.join()

                def reloaded(old: set[str] = old) -> bool:
                    since = len(loads[0].answers)
                    time.sleep(0.3)
                    now = loads[0].processes(since)
                    return bool(now) and now.isdisjoint(old)

                wait_until(reloaded, 30, "a new process answers")
        failed = Counter(answer for load in loads for answer in load.answers if not answer.isdecimal())
        failed.update(f"slow {status}" for status in slow if status != 200)
        print(f"{target}: {sum(len(load.answers) for load in loads)} requests, failed: {dict(failed)}")
        return failed


@pytest.mark.parametrize("target", TARGETS)
def test_a_reload_with_a_data_fs_fails_no_request__R9(
    target: str, python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    need(target, python, missing)
    assert reload_with_a_file(target, python, inis, public_dir / "file") == {}
