"""The element ``filestore``, as its users have it: in pipelines, and in an ini."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import webob
from paste.deploy import loadapp

from filestore import Conflict, StoreRequest, filestore
from pipeline import Pipeline, Request, Response, element, view
from pipeline.composition import Offers
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.interfaces import ConfigurationError, OrderError, ReadOnlyTransaction
from pipeline.publisher import publisher
from pipeline.testing import assert_order, check_element

seen: list[Any] = []


@view(context=dict)
def count(context: object, request: StoreRequest) -> str:
    return str(request.store.get("count", 0))


@view(context=dict, name="next", methods=("POST",))
def next_number(context: object, request: StoreRequest) -> str:
    request.store["count"] = number = request.store.get("count", 0) + 1
    while seen and seen[0](number):
        seen.pop(0)
    return str(number)


@view(context=dict, name="fails", methods=("POST",))
def fails(context: object, request: StoreRequest) -> str:
    request.store["count"] = -1
    raise ZeroDivisionError


@view(context=ZeroDivisionError)
def sorry(error: ZeroDivisionError, request: StoreRequest) -> str:
    return f"sorry, it is still {request.store.get('count', 0)}"


@view(context=dict, name="late")
def late(context: object, request: StoreRequest) -> Iterator[bytes]:
    yield str(request.store.get("count", 0)).encode()
    try:
        request.store["count"] = -1
    except ReadOnlyTransaction as error:
        yield type(error).__name__.encode()


def middleware(app: Any) -> Any:
    return lambda environ, start_response: app({**environ}, start_response)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    seen.clear()
    return tmp_path / "store.json"


def site(file: Path, *between: Any) -> Pipeline:
    inner = (errors(), transaction(), traverse(root=dict), publisher(scan=(__name__,)))
    return Pipeline(retry(delay=0), filestore(path=str(file)), *between, *inner)


def ask(app: Any, path: str, method: str = "GET") -> webob.Response:
    return webob.Request.blank(path, method=method).get_response(app)


@pytest.mark.parametrize("between", [(), (middleware,)])
def test_it_is_read_and_written_in_the_transaction(file: Path, between: Any) -> None:
    app = site(file, *between)
    assert ask(app, "/").text == "0" and not file.exists()
    assert [ask(app, "/next", "POST").text for _ in range(3)] == ["1", "2", "3"]
    assert json.loads(file.read_text()) == {"count": 3}
    assert ask(app, "/").text == "3"


def test_after_an_abort_it_is_read_anew__R3(file: Path) -> None:
    app = site(file)
    ask(app, "/next", "POST")
    answer = ask(app, "/fails", "POST")
    assert (answer.status_int, answer.text) == (500, "sorry, it is still 1")
    assert json.loads(file.read_text()) == {"count": 1}


def test_another_attempt_starts_anew__R2(file: Path) -> None:
    app = site(file)
    ask(app, "/next", "POST")

    def another_writes(number: int) -> bool:
        file.write_text('{"count": 41}')
        return True

    seen.append(another_writes)
    assert ask(app, "/next", "POST").text == "42"
    assert json.loads(file.read_text()) == {"count": 42}


def test_a_stream_can_only_read__R8(file: Path) -> None:
    app = site(file)
    ask(app, "/next", "POST")
    assert ask(app, "/late").text == "1ReadOnlyTransaction"


def test_it_is_closed_with_the_request(file: Path) -> None:
    kept: list[Any] = []

    @element(outside={"publisher": "sees what a view has opened"}, inside={"filestore": "uses it"})
    def keep(next: Any) -> Any:
        def keep(request: StoreRequest, response: Response) -> None:
            kept.append(request.store)
            next(request, response)

        return keep

    ask(site(file, keep()), "/")
    with pytest.raises(RuntimeError, match="is closed"):
        kept[0]["count"] = 1


def test_in_an_ini(file: Path, tmp_path: Path) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(
        f"""
[pipeline:main]
pipeline = egg:wsgi-pipeline#retry store egg:wsgi-pipeline#errors egg:wsgi-pipeline#transaction traverse views
[filter:store]
paste.filter_factory = filestore:filestore
path = {file}
[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = builtins:dict
[app:views]
use = egg:wsgi-pipeline#publisher
scan = {__name__}
"""
    )
    app = loadapp(f"config:{ini}")
    assert ask(app, "/next", "POST").text == "1"


def test_its_place_is_checked(file: Path) -> None:
    with pytest.raises(OrderError, match="error views may read the store"):
        Pipeline(errors(), filestore(path=str(file)), traverse(root=dict), publisher())
    assert_order(filestore, errors, because="error views may read the store")
    assert_order(retry, filestore, because="every attempt reads the file anew")
    assert_order(filestore, transaction)


def test_it_keeps_the_element_protocol(file: Path) -> None:
    def write(request: StoreRequest) -> None:
        request.store["count"] = request.store.get("count", 0) + 1

    def stored() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in file.parent.iterdir()}

    check_element(filestore(path=str(file)), write=write, stored=stored)


def test_a_full_disk_leaves_the_store_as_it_was__R3(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_half(new: Path, text: str) -> None:
        new.write_bytes(text.encode()[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    app = site(file)
    assert ask(app, "/next", "POST").text == "1"
    monkeypatch.setattr(Path, "write_text", write_half)
    assert ask(app, "/next", "POST").status_int == 500
    monkeypatch.undo()
    assert {path.name for path in file.parent.iterdir()} == {"store.json", "store.lock"}
    assert ask(app, "/next", "POST").text == "2"


def test_two_that_add_one_name_are_refused(file: Path) -> None:
    class OtherRequest(Request):
        store: str = ""

    @element(adds=OtherRequest)
    def other(next: Any) -> Any:
        return Offers(next)

    with pytest.raises(ConfigurationError, match=r"filestore and other both add request\.store"):
        Pipeline(filestore(path=str(file)), other(), traverse(root=dict), publisher())


def test_a_conflict_is_transient() -> None:
    assert issubclass(Conflict, Exception)
