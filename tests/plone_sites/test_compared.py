"""The same requests to Plone on plain Zope and on the pipeline: status, headers, body, and what each stores."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plone_sites.asked import TABLE, Asked

BY_CHANCE = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d.\d\d:\d\d(:\d\d)?( \w+)?|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d|\d{8,10}\.\d+"
    r"|__ac=[^;]+|\b[0-9a-f]{40}\b|eyJ[\w-]+\.[\w.-]+|opaquelocktoken:[-:.\w]+"
)
"""Times, the cookie and the tokens of a login, and the name of a lock."""
NO_BODY = "HEAD has no body; Plone sends the whole file"
NO_LENGTH = "a 204 and a 304 have no Content-Length and no Content-Type"
LENGTH = "the length is that of a body with the name of a lock, which is made by chance"
TRACEBACK = "the page shows the traceback to a Manager, which names other functions"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The instance of a site."""
    found = tmp_path_factory.mktemp("plone") / "instance"
    run("plone_sites.made_site", found)
    return found


@pytest.fixture(scope="module")
def answers(made: Path) -> dict[str, tuple[Any, Any]]:
    """The answers of both to each request. They have copies of one database."""
    found = []
    for name in ("plain", "ours"):
        copy = made.with_name(name)
        shutil.copytree(made, copy)
        conf = copy / "etc" / "zope.conf"
        conf.write_text(conf.read_text().replace(str(made), str(copy)))
        run("plone_sites.ask_site", copy / "etc" / f"{name}.ini", copy / "answers")
        found.append(pickle.loads((copy / "answers").read_bytes()))
    theirs, ours = found
    return {asked.name: both for asked, *both in zip(TABLE, theirs, ours, strict=True)}


def run(module: str, *arguments: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", module, *map(str, arguments)]
    environ = {**os.environ, "PYTHONHASHSEED": "0"}  # pages of Plone list what is in sets
    tests = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=tests, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def even(answer: Any) -> tuple[str, list[tuple[str, str]], str, Any, Any]:
    """Return an answer without what differs by chance."""
    status, headers, body, user, stored = answer
    found = sorted((name, BY_CHANCE.sub("-", value)) for name, value in headers)
    kinds = [(what, who, {kind_of(state) for _, state in objects}) for what, who, objects in stored]
    return status, found, BY_CHANCE.sub("-", body.decode("latin-1")), user, kinds


def kind_of(state: list[Any]) -> Any:
    """Return the class of what is stored. The catalog numbers its objects by chance, so its trees differ."""
    name = next((one for one in state if isinstance(one, str)), "")
    return "" if name.startswith("BTrees.") else name


def test_there_are_many() -> None:
    assert len({asked.name for asked in TABLE}) == len(TABLE) > 140


@pytest.mark.parametrize("asked", TABLE, ids=[asked.name for asked in TABLE])
def test_an_answer_is_the_same(answers: dict[str, tuple[Any, Any]], asked: Asked) -> None:
    theirs, ours = map(even, answers[asked.name])
    reason = reason_to_differ(asked, ours)
    left_out = {NO_LENGTH: ("Content-Length", "Content-Type"), "": ()}.get(reason, ("Content-Length",))
    assert ours[0] == theirs[0]
    if reason == NO_LENGTH:
        assert not [name for name, _ in ours[1] if name in left_out]
    assert [pair for pair in ours[1] if pair[0] not in left_out] == [
        pair for pair in theirs[1] if pair[0] not in left_out
    ]
    if reason == TRACEBACK:
        assert ours[2].partition("Traceback (")[0] == theirs[2].partition("Traceback (")[0] != theirs[2]
    else:
        assert ours[2] == ("" if reason == NO_BODY else theirs[2])
    assert ours[3:] == theirs[3:]


def reason_to_differ(asked: Asked, ours: Any) -> str:
    if asked.method == "HEAD":
        return NO_BODY
    if ours[0][:3] in ("204", "304"):
        return NO_LENGTH
    return {"LOCK": LENGTH, "delete what is not there": TRACEBACK}.get(asked.name, "")


def test_the_requests_do_what_they_are_meant_to(answers: dict[str, tuple[Any, Any]]) -> None:
    """Else equal answers say nothing: the site is logged in to, and objects are stored."""
    statuses = {name: int(ours[0][:3]) for name, (_, ours) in answers.items()}
    wanted = {"login": 302, "add": 302, "add a picture": 302, "edit": 302, "secret, logged in": 200, "PUT": 201}
    assert {name: statuses[name] for name in wanted} == wanted
    assert sum(bool(ours[4]) for _, ours in answers.values()) > 20
    assert {200, 201, 204, 206, 207, 302, 400, 401, 403, 404, 500} <= set(statuses.values())
