"""Paste Deploy: its own [pipeline:] joins, what is incomplete is refused, a plan builds nothing."""

from __future__ import annotations

import gc
import logging
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paste.deploy import loadapp, loadfilter

from pipeline import Pipeline, element, view
from pipeline.interfaces import OptionError, OrderError
from pipeline.paste import load, plan

made: list[str] = []
ran: list[str] = []


def noting(name: str) -> Callable[..., Any]:
    def factory(next: Any, *, size: int = 1) -> Any:
        made.append(name)

        def handler(request: Any, response: Any) -> None:
            ran.append(name)
            next(request, response)

        return handler

    factory.__name__ = name
    return factory


first = element(provides=("thing",))(noting("first"))
second = element(requires=("thing",))(noting("second"))
third = element(inside={"second": "it comes third"})(noting("third"))


def app(environ: Any, start_response: Any) -> Any:
    ran.append("app")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"app"]


def app_factory(global_conf: Any, **local_conf: Any) -> Any:
    made.append("app")
    return app


def foreign_factory(global_conf: Any, **local_conf: Any) -> Any:
    made.append("foreign")
    return lambda app: lambda *wsgi: app(*wsgi)


def foreign_filter_app_factory(app: Any, global_conf: Any, **local_conf: Any) -> Any:
    return lambda *wsgi: app(*wsgi)


@view(context=dict)
def index(context: Any, request: Any) -> str:
    return "index"


def noop_filter_factory(global_conf: Any, **local_conf: Any) -> Any:
    return lambda app: app


@pytest.fixture
def ini(tmp_path: Path) -> Callable[..., str]:
    """``ini("first second app")`` is the URI of an ini with that pipeline and all that may stand in it."""
    made.clear()
    ran.clear()

    def ini(pipeline: str, more: str = "") -> str:
        path = tmp_path / "site.ini"
        filters = "".join(
            f"[filter:{name}]\npaste.filter_factory = {__name__}:{name}\n\n"
            for name in ("first", "second", "third")
        )
        path.write_text(
            f"[pipeline:main]\npipeline = {pipeline}\n\n{filters}"
            f"[filter:foreign]\npaste.filter_factory = {__name__}:foreign_factory\n\n"
            f"[filter:legacy]\npaste.filter_app_factory = {__name__}:foreign_filter_app_factory\n\n"
            f"[app:app]\npaste.app_factory = {__name__}:app_factory\n\n" + textwrap.dedent(more)
        )
        return f"config:{path}"

    return ini


@pytest.mark.parametrize("loader", [load, loadapp])
def test_a_pipeline_of_an_ini_is_one_pipeline(ini: Any, loader: Any, call: Any) -> None:
    pipeline = loader(ini("first second third app"))
    assert isinstance(pipeline, Pipeline)
    assert [contract.name for contract in pipeline.linked] == ["first", "second", "third"]
    assert sorted(made) == ["app", "first", "second", "third"], "each factory is called once"
    assert call(pipeline).text == "app" and ran == ["first", "second", "third", "app"]


@pytest.mark.parametrize("loader", [load, loadapp])
def test_elements_in_the_wrong_order_are_refused_at_load(ini: Any, loader: Any) -> None:
    refused = r"site.ini, section \[pipeline:main\], line 2: first must be outside second: second requires 'thing'"
    with pytest.raises(OrderError, match=refused):
        loader(ini("second first app"))
    second = "[pipeline:other]\npipeline = second first app"
    with pytest.raises(OrderError, match=r"section \[pipeline:other\], line \d+: first must be outside second"):
        loader(ini("first app", second) + "#other")
    with pytest.raises(OrderError, match="second must be outside third: it comes third"):
        loader(ini("first third second app"))
    with pytest.raises(OrderError, match="first stands twice"):
        loader(ini("first first app"))


def test_a_missing_partner_is_refused_by_who_knows_that_the_pipeline_is_done(ini: Any) -> None:
    with pytest.raises(OrderError, match="second requires 'thing', and no element outside it provides that"):
        load(ini("second third app"))
    assert made == [], "nothing was built"


def test_a_missing_partner_is_refused_by_the_first_request_else(
    ini: Any, call: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = loadapp(ini("second third app"))
    for _ in range(2):
        assert call(pipeline).status == 500
    assert ran == [], "no element has run"
    assert "second requires 'thing', and no element outside it provides that" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


@pytest.mark.parametrize("between", ["foreign", "legacy", "foreign legacy"])
def test_the_order_is_checked_across_foreign_middleware(ini: Any, between: str, call: Any) -> None:
    assert call(load(ini(f"first {between} second app"))).text == "app"
    for wrong in (f"second {between} first app", f"{between} second app", f"first {between} first app"):
        made.clear()
        with pytest.raises(OrderError):
            load(ini(wrong))
        assert made == []


@pytest.mark.parametrize("between", ["foreign", "legacy"])
def test_a_plain_launcher_finds_it_out_with_the_first_request(ini: Any, between: str, call: Any) -> None:
    assert call(loadapp(ini(f"second {between} first app"))).status == 500
    assert "app" not in ran


def test_a_filter_is_loaded_by_itself(ini: Any, call: Any) -> None:
    filter = loadfilter(ini("app"), "first")
    assert call(filter(app)).text == "app" and ran == ["first", "app"]


def test_an_ini_names_its_parts_without_sections(ini: Any, call: Any, tmp_path: Path) -> None:
    path = tmp_path / "short.ini"
    path.write_text(
        "[pipeline:main]\n"
        "pipeline = egg:wsgi-pipeline#log egg:wsgi-pipeline#vhost egg:wsgi-pipeline#errors traverse site\n"
        f"[filter:traverse]\nuse = egg:wsgi-pipeline#traverse\nroot = builtins:dict\n"
        f"[app:site]\nuse = egg:wsgi-pipeline#publisher\nscan = {__name__}\n"
    )
    assert call(load(f"config:{path}")).text == "index"


def test_options_of_what_stands_without_a_section_are_swallowed_by_nobody(tmp_path: Path, call: Any) -> None:
    path = tmp_path / "short.ini"
    path.write_text(
        "[DEFAULT]\nlogger = x\nsize = 3\nroot = y\n\n"
        "[pipeline:main]\npipeline = egg:wsgi-pipeline#log traverse site\n"
        "[filter:traverse]\nuse = egg:wsgi-pipeline#traverse\nset root = builtins:dict\nget root = root\n"
        f"[app:site]\nuse = egg:wsgi-pipeline#publisher\nscan = {__name__}\n"
    )
    assert call(load(f"config:{path}")).text == "index"


def test_relative_uris_and_names(ini: Any, tmp_path: Path, call: Any) -> None:
    ini("first app", "[pipeline:other]\npipeline = second app\n")
    assert call(load("config:site.ini", relative_to=str(tmp_path))).text == "app"
    for name in ({"name": "other"}, {}):
        uri = "config:site.ini" + ("" if name else "#other")
        with pytest.raises(OrderError):
            load(uri, relative_to=str(tmp_path), **name)


def test_variables_reach_the_options(ini: Any, tmp_path: Path) -> None:
    uri = ini("sized app", f"[filter:sized]\npaste.filter_factory = {__name__}:first\nget size = number\n")
    [chain] = plan(uri, number="7")
    assert chain.steps[0].element is not None and chain.steps[0].element.options == {"size": 7}
    with pytest.raises(OptionError, match="'x' is not a whole number"):
        load(uri, number="x")


# plan


def test_a_plan_builds_nothing_and_says_where_everything_stands(ini: Any) -> None:
    uri = ini("first foreign second app")
    [chain] = plan(uri)
    assert made == []
    assert [str(step) for step in chain.steps] == ["first", "foreign", "second", "app"]
    assert [step.element is not None for step in chain.steps] == [True, False, True, False]
    assert chain.condition == ""
    assert chain.steps[0].where == f"{uri[7:]}, section [filter:first], line 4"
    assert chain.steps[2].where == f"{uri[7:]}, section [filter:second], line 7"


FILTERED = """
[app:filtered]
paste.app_factory = {here}:app_factory
filter-with = outer

[filter:outer]
paste.filter_factory = {here}:first
filter-with = outermost

[filter:outermost]
paste.filter_factory = {here}:third

[filter-app:wrapped]
paste.filter_factory = {here}:second
next = filtered
"""


def test_a_plan_follows_filter_with_and_filter_app(ini: Any, call: Any) -> None:
    uri = ini("app", FILTERED.replace("{here}", __name__))
    assert [str(step) for step in next(plan(uri, "filtered")).steps] == ["third", "first", "app_factory"]
    assert [str(step) for step in next(plan(uri, "wrapped")).steps] == [
        "second",
        "third",
        "first",
        "app_factory",
    ]
    assert call(load(uri, "filtered")).text == "app" and ran == ["third", "first", "app"]
    with pytest.raises(OrderError, match="first must be outside second"):
        load(uri, "wrapped")


def test_a_plan_follows_what_is_used_from_elsewhere(ini: Any, tmp_path: Path) -> None:
    uri = ini("first second app")
    other = tmp_path / "other.ini"
    other.write_text("[app:main]\nuse = config:site.ini\n")
    [chain] = plan(f"config:{other}")
    assert [str(step) for step in chain.steps] == ["first", "second", "app"]
    assert chain.steps[0].where == f"{uri[7:]}, section [filter:first], line 4"


@pytest.mark.parametrize(
    ("uses", "missing", "hint"),
    [
        ("base.ini", "filter:main", "[app:main] is a section of another kind"),
        ("base.ini#erors", "filter:erors", "did you mean [filter:errors]?"),
    ],
)
def test_a_section_that_is_missing_in_a_used_ini_is_named_with_both_files(
    tmp_path: Path, uses: str, missing: str, hint: str
) -> None:
    other = tmp_path / "base.ini"
    sections = "[filter:errors]\nuse = egg:wsgi-pipeline#errors\n\n[app:main]\nuse = egg:wsgi-pipeline#health\n"
    other.write_text(sections)
    file = tmp_path / "site.ini"
    file.write_text(
        f"[pipeline:main]\npipeline = errors end\n\n[filter:errors]\nuse = config:{uses}\n\n"
        f"[app:end]\nuse = egg:wsgi-pipeline#health\n"
    )
    with pytest.raises(LookupError) as caught:
        list(plan(f"config:{file}"))
    said = f"{file}, section [filter:errors], line 5: the section [{missing}] is missing in {other}; {hint}"
    assert str(caught.value) == said


# Speed


def test_an_ini_with_twenty_elements_loads_in_milliseconds(tmp_path: Path, module: Any) -> None:
    """As fast as twenty filters that do nothing, give or take a factor."""

    def seconds(names: list[str], factory: str, options: str) -> float:
        path = tmp_path / f"{factory}.ini"
        sections = "".join(
            f"[filter:{name}]\npaste.filter_factory = {where}:{factory.format(name)}\n{options}\n"
            for name in names
        )
        path.write_text(
            f"[DEFAULT]\ndebug = true\n\n[pipeline:main]\npipeline = {' '.join(names)} app\n\n"
            f"[app:app]\npaste.app_factory = {__name__}:app_factory\n\n{sections}"
        )
        loadapp(f"config:{path}")
        best = float("inf")
        for _ in range(3):
            gc.collect()
            started = time.process_time()
            loadapp(f"config:{path}")
            best = min(best, time.process_time() - started)
        return best

    names = [f"e{number}" for number in range(20)]
    where = module(noop_filter_factory=noop_filter_factory, **{name: element(noting(name)) for name in names})
    plain = seconds(names, "noop_filter_factory", "")
    ours = seconds(names, "{}", "size = 3")
    assert ours < 20 * plain, f"{ours * 1000:.1f} ms, where plain Paste Deploy takes {plain * 1000:.1f}"


@element(requires=("context",))
def counted() -> Any:
    """An end that publishes, and counts how often it is made."""
    made.append("counted")

    def counted(request: Any, response: Any) -> None:
        response.plain("200 OK", "counted")

    return counted


@pytest.mark.parametrize("loader", [load, loadapp])
def test_the_factory_of_an_end_runs_once_also_behind_a_switch(ini: Any, loader: Any, call: Any) -> None:
    """It was run again, to look at its views: one that makes a metric of Prometheus is refused the second time."""
    uri = ini(
        "first switch",
        f"""
        [composite:switch]
        use = egg:wsgi-pipeline#switch
        branches = heads method=HEAD
        default = walking

        [pipeline:walking]
        pipeline = traverse counted

        [pipeline:heads]
        pipeline = traverse counted_too

        [filter:traverse]
        use = egg:wsgi-pipeline#traverse
        root = builtins:dict

        [app:counted]
        paste.app_factory = {__name__}:counted

        [app:counted_too]
        paste.app_factory = {__name__}:counted
        """,
    )
    site = loader(uri)
    assert made.count("counted") == 2, "one for each section"
    assert call(site).status == 200 and made.count("counted") == 2
