"""The tasks of docs/howto/json-api.rst with FastAPI, in an environment of its own: what the page says of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from environments import make_environment
from publishing.test_api import text_of

ASKING = '''
import json
from hashlib import sha256
from pathlib import Path
from threading import Barrier, Thread

from fastapi.testclient import TestClient
from sqlmodel import Session

Path("tokens").write_text(sha256(b"of ann").hexdigest() + " ann\\n")
import todo_fastapi

client = TestClient(todo_fastapi.app, raise_server_exceptions=False)
ann = {"Authorization": "Bearer of ann"}
found = {}


def add(title="Tea"):
    return client.post("/", json={"title": title}, headers=ann)


def seen(answer):
    return {**ann, "If-Match": answer.headers["ETag"]}


def titles():
    items, address = [], "/"
    while address:
        page = client.get(address).json()
        items += page["items"]
        address = page["next"]
    return [(one["title"], one["done"]) for one in items]


def as_ours():
    added = add()
    place = added.headers["Location"]
    changed = client.patch(place, json={"done": True}, headers=seen(added))
    answers = [
        added, client.get(place), changed, client.post("/", json={"title": ""}, headers=ann),
        client.post("/", json={"title": "Mine"}), client.delete(place, headers=seen(changed)), client.get(place),
    ]
    return [answer.status_code for answer in answers]


def pages():
    for number in range(51):
        add(str(number))
    first = client.get("/").json()
    second = client.get(first["next"]).json()
    for one in first["items"] + second["items"]:
        client.delete(one["url"], headers={**ann, "If-Match": "*"})
    return [len(first["items"]), len(second["items"]), second["next"], first["prev"]]


def stale():
    added = add()
    place = added.headers["Location"]
    client.patch(place, json={"title": "Cake"}, headers=seen(added))
    late = client.patch(place, json={"title": "Mine"}, headers=seen(added)).status_code
    none = client.patch(place, json={"title": "Mine"}, headers=ann).status_code
    told = [late, none, titles()]
    client.delete(place, headers={**ann, "If-Match": "*"})
    return told


def two_writers():
    """Both functions have read the task before either commits."""
    added = add()
    place, barrier, statuses = added.headers["Location"], Barrier(2), []
    commit = Session.commit

    def commit_late(session):
        barrier.wait(20)
        commit(session)

    def write(fields):
        statuses.append(client.patch(place, json=fields, headers=seen(added)).status_code)

    Session.commit = commit_late
    threads = [Thread(target=write, args=(fields,)) for fields in ({"title": "Cake"}, {"title": "Milk"})]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    Session.commit = commit
    told = [sorted(statuses), len(titles())]
    client.delete(place, headers={**ann, "If-Match": "*"})
    return told


def error_after_a_change():
    told = todo_fastapi.told

    def failing(*arguments):
        raise RuntimeError("after the change")

    todo_fastapi.told = failing
    status = add().status_code
    todo_fastapi.told = told
    return [status, titles()]


for ask in (as_ours, pages, stale, two_writers, error_after_a_change):
    found[ask.__name__] = ask()
print(json.dumps(found))
'''


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.timeout(600)
def test_what_fastapi_does(tmp_path: Path) -> None:
    """The requests of ``as_ours`` are answered as ours are, but for 422; the others are the rows of the table."""
    python = make_environment(tmp_path / "environment", "fastapi", "httpx2", "sqlmodel")
    (tmp_path / "todo_fastapi.py").write_text(text_of("the API with FastAPI"))
    (tmp_path / "asking.py").write_text(ASKING)
    command = [python, "asking.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "as_ours": [201, 200, 200, 422, 401, 204, 404],
        "pages": [50, 1, None, None],
        "stale": [412, 428, [["Cake", False]]],
        "two_writers": [[200, 200], 1],
        "error_after_a_change": [500, [["Tea", False]]],
    }
