"""A site that is deployed below a path is at no other path: a rule of a proxy for the path could be passed by."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import NoReturn

import pytest

from servers.base import Missing
from servers.deployed import deployed
from servers.test_user_headers import site_in

pytestmark = [pytest.mark.once, pytest.mark.servers, pytest.mark.timeout(120)]

PATHS = {"/app/": 200, "/app": 302, "/xyz/": None, "/a": None, "/": None, "/appx": None}
"""Statuses by path; None for any error."""


def ask(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("target", ["granian", "gunicorn", "uwsgi", "nginx --behind granian"])
def test_no_other_path_leads_to_the_site(
    target: str, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    python = Path(os.environ.get("PIPELINE_SERVERS_PYTHON", sys.executable))
    place = site_in(public_dir / f"prefix-{target.replace(' ', '')}")
    try:
        server = deployed(python, place / "site.ini", place / "site", target, "--prefix", "/app")
    except Missing as error:
        missing(*error.args)
    with server as running:
        answers = {path: ask(running.port, path) for path in PATHS}
    shutil.rmtree(place, ignore_errors=True)
    assert {path: None if status >= 400 else status for path, (status, _) in answers.items()} == PATHS, answers
    assert answers["/app/"][1] == "None/app []"
