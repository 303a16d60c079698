"""A value of a visitor that the database does not take is a 400 that names the field, or a 404 for a step."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from around_a_view import end
from asking import ask
from pipeline import Pipeline, Request, Response
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from servers.sql_places import EVERY_DRIVER, Place, place

__all__ = ["place"]

LARGE = "9" * 30
FORM = {"CONTENT_TYPE": "application/x-www-form-urlencoded"}


def inserts(request: Any, name: Any, number: Any, flag: Any = "x") -> None:
    values = {"name": name, "number": number, "flag": flag}
    request.sql.execute(text("INSERT INTO people VALUES (:name, :number, :flag)"), values)


def of_the_form(request: Any) -> None:
    inserts(request, request.form["name"], int(request.form["number"]))


def of_the_query(request: Any) -> None:
    inserts(request, request.GET["name"], int(request.GET["number"]))


def of_json(request: Any) -> None:
    inserts(request, request.json["people"][0]["name"], request.json["people"][0]["number"])


def looked_up(request: Any) -> None:
    step = request.path.rpartition("/")[2]
    request.sql.execute(text("SELECT name FROM people WHERE number = :number"), {"number": int(step)}).all()
    inserts(request, "a step", int(step))


def own(request: Any) -> None:
    inserts(request, "of the site, which is much too long", int(LARGE))


def two_rows(request: Any) -> None:
    rows = [{"name": name, "number": 1, "flag": "x"} for name in ("a", request.form["name"])]
    request.sql.execute(text("INSERT INTO people VALUES (:name, :number, :flag)"), rows)


@pytest.fixture
def call(place: Place) -> Callable[..., Any]:
    place.do("CREATE TABLE people (name varchar(10), number integer, flag varchar(10))")
    attempts: list[int] = []

    def call(work: Any, path: str, method: str = "POST", body: str = "", **environ: str) -> Any:
        def view(request: Request, response: Response) -> None:
            attempts.append(1)
            work(request)

        outer = (retry(delay=0), sql(url=place.url), errors(), transaction(), forms())
        attempts.clear()
        answer = ask(Pipeline(*outer, end(view=view)), path, method, body.encode(), **environ)
        assert len(attempts) == 1, "nothing is tried again"
        if answer.status != 200:
            assert place.look("SELECT count(*) FROM people") == [0]
        return answer

    return call


@pytest.mark.parametrize("place", EVERY_DRIVER, indirect=True)
def test_the_answer_names_the_field(place: Place, call: Callable[..., Any], caplog: Any) -> None:
    sqlite = place.kind == "sqlite"
    takes_nul = sqlite or place.kind == "mariadb"
    as_json = {"CONTENT_TYPE": "application/json"}
    rows: list[tuple[Any, str, str, dict[str, str], str]] = [
        (of_the_form, "/", f"name=ann&number={LARGE}", FORM, "number"),
        (of_json, "/", json.dumps({"people": [{"name": "ann", "number": int(LARGE)}]}), as_json, "people/0/number"),
    ]
    if not sqlite:
        rows.append((of_the_form, "/", f"name={'long' * 9}&number=1", FORM, "name"))
        rows.append((two_rows, "/", f"name={'long' * 9}&number=1", FORM, "name"))
    if not takes_nul:
        rows.append((of_the_form, "/", "name=a%00b&number=1", FORM, "name"))
        rows.append((of_json, "/", '{"people": [{"name": "a\\u0000", "number": 1}]}', as_json, "people/0/name"))
    for work, path, body, headers, name in rows:
        answer = call(work, path, "POST", body, **headers)
        assert (answer.status, f"&#x27;{name}&#x27;" in answer.text or f"'{name}'" in answer.text) == (400, True)
        assert "the database does not take a value of" in caplog.text and LARGE not in caplog.text
    answer = call(of_the_query, f"/?name=ann&number={LARGE}", "POST")
    assert (answer.status, "'number'" in answer.text) == (400, True)
    assert call(looked_up, f"/people/{LARGE}").status == 404
    assert call(of_the_form, "/", "POST", "name=ann&number=1", **FORM).status == 200


@pytest.mark.parametrize("place", EVERY_DRIVER, indirect=True)
def test_a_value_of_the_site_is_its_mistake(place: Place, call: Callable[..., Any], caplog: Any) -> None:
    assert call(own, "/", "POST", "name=ann&number=1", **FORM).status == 500
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("place", EVERY_DRIVER, indirect=True)
def test_another_error_with_the_value_of_a_field_is_none_of_these(place: Place, call: Callable[..., Any]) -> None:
    def duplicate(request: Any) -> None:
        request.sql.execute(text("INSERT INTO t VALUES (:v)"), {"v": request.form["name"]})

    assert call(duplicate, "/", "POST", "name=was", **FORM).status == 500
    assert call(lambda request: int(request.form["name"]), "/", "POST", "name=was", **FORM).status == 500


TWICE = ("ann-7zkw", "o'brien 9qw", 'say "x" 5zk', "x" * 200 + "-4wq", "ann (4kz) = 1, b")
"""No end of them is a part of the id of an error, which has digits and letters up to f."""


@pytest.mark.parametrize("place", EVERY_DRIVER, indirect=True)
def test_a_value_that_is_there_already_is_in_no_log__S25(place: Place, caplog: Any) -> None:
    """Databases quote it, or its beginning, in what they say."""
    place.do("CREATE TABLE accounts (name varchar(250) NOT NULL UNIQUE, number integer NOT NULL)")

    def view(request: Request, response: Response) -> None:
        statement = text("INSERT INTO accounts VALUES (:name, :number)")
        request.sql.execute(statement, rows[0])
        request.sql.execute(statement, rows[1:])

    found = []
    for value in TWICE:
        for last in ({"name": value, "number": 3}, {"name": f"{value} 2", "number": None}):  # or it lacks a number
            rows = [{"name": value, "number": 1}, {"name": "b", "number": 2}, last]
            caplog.clear()
            app = Pipeline(sql(url=place.url), errors(), transaction(), end(view=view))
            assert ask(app, "/", "POST").status == 500
            assert "INSERT INTO accounts" in caplog.text
            found += [line for line in caplog.text.splitlines() if value[:12] in line or value[-3:] in line]
    assert found == []
