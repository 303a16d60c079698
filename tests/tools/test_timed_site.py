"""The commands look into a site that ``timing`` measures as into any other."""

from __future__ import annotations

import json
from typing import Any

import pytest

TIMED = """\
[composite:main]
use = egg:wsgi-pipeline#switch
branches = metrics path=/@@metrics
default = site

[app:metrics]
use = egg:wsgi-pipeline#metrics
token_file = HERE/token

[pipeline:site]
pipeline = timing errors traverse publisher

[filter:timing]
use = egg:wsgi-pipeline#timing
header = true
metrics = true
spans = true

[filter:errors]
use = egg:wsgi-pipeline#errors

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = MODULE:root

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = MODULE
"""
CODE = """\
from pipeline import view


def root():
    return {}


@view(context=dict)
def index(context, request):
    return "index"
"""


@pytest.fixture
def timed(site: Any) -> Any:
    site.write(TIMED, CODE)
    return site


def test_check(timed: Any) -> None:
    status, said = timed.run("check")
    assert status == 0 and "in order and complete" in said, said


def test_show(timed: Any) -> None:
    status, said = timed.run("show", "--long")
    assert status == 0, said
    assert "Measure what each element" in said and "Show Prometheus" in said
    assert "stands outside errors: each request is measured once" in " ".join(said.split())


def test_explain_names_the_elements_and_not_the_watchers(timed: Any) -> None:
    status, said = timed.run("explain", "GET", "/", "--json")
    assert status == 0, said
    told = json.loads(said)
    [header] = [value for name, value in told["headers"] if name == "Server-Timing"]
    assert [part.partition(";")[0] for part in header.split(", ")] == ["errors", "traverse", "publisher", "total"]
    assert [part["name"] for part in told["parts"]] == ["timing", "errors", "traverse", "publisher"]
    assert not [field for part in told["parts"] for field in part["request"] if "measures" in field]


def test_the_metrics_are_explained(timed: Any) -> None:
    status, said = timed.run("explain", "GET", "/@@metrics")
    assert status == 1 and "-> 401" in said
