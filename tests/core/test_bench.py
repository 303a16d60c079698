"""The arithmetic of the benchmarks: what counts, what is compared with what, and what is shown."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench import blocks, charts, docs, measure, serving, show
from bench.budgets import BUDGETS, Budget, Verdict, verdicts
from bench.measure import Contender, Figure, Table, check, compare, environ, flat


def table(**rows: float) -> Table:
    return flat("A table", {name: Figure.of([value, 3 * value, 2 * value]) for name, value in rows.items()}, "a")


def test_the_least_and_the_middle_of_rounds() -> None:
    assert Figure.of([3.0, 1.0, 8.0]) == Figure(1.0, 3.0, (3.0, 1.0, 8.0))


def test_the_cost_of_one_more_is_that_between_the_leasts() -> None:
    """The least of the differences would be 0 here."""
    many, few = Figure.of([60.0, 70.0, 80.0]), Figure.of([10.0, 70.0, 30.0])
    assert Figure.one_more(many, few, 50) == Figure(1.0, 0.8)


def test_the_best_comes_first() -> None:
    assert list(table(a=2, b=1).rows) == ["b", "a"]
    rates = flat("Rates", {"slow": Figure.of([1.0]), "fast": Figure.of([2.0])}, unit="requests/s")
    assert list(rates.rows) == ["fast", "slow"]


def test_a_ratio_is_that_of_the_values_that_count() -> None:
    a_budget = next(budget for budget in BUDGETS if budget.under == ("Falcon",))
    result = {"page": flat("", {"pipeline": Figure.of([2.0, 9.0]), "Falcon": Figure.of([4.0, 8.0])})}
    [found] = verdicts({"inprocess": result})
    assert found == Verdict(a_budget, 0.5, a_budget.most) and found.met
    [generous] = verdicts({"inprocess": result}, factor=2)
    assert generous.most == 2 * a_budget.most


def test_the_limit_is_what_may_be() -> None:
    budget = Budget("", 1.1, "", "", (), ())
    assert Verdict(budget, 1.1, 1.1).met
    assert not Verdict(budget, 1.11, 1.1).met
    assert not Verdict(budget, -0.1, 1.1).met


def test_what_was_not_measured_is_not_judged() -> None:
    assert list(verdicts({})) == []
    assert list(verdicts({"inprocess": {"page": table(pipeline=1)}})) == []


def test_an_answer_is_checked_before_it_is_timed() -> None:
    def wrong(environ: object, start_response: object) -> list[bytes]:
        start_response("200 OK", [])  # type: ignore[operator]
        return [b"hullo"]

    with pytest.raises(SystemExit, match="wrong answered 200 OK b'hullo'"):
        check(Contender("wrong", wrong, environ("/")))


def test_an_app_that_did_not_run_is_found_out() -> None:
    def cached(environ: object, start_response: object) -> list[bytes]:
        start_response("200 OK", [])  # type: ignore[operator]
        return [b"hello"]

    ran = iter([0, 1, 1, 1])
    with pytest.raises(SystemExit, match="did not run its application for every request"):
        compare([Contender("cached", cached, environ("/"), ran=lambda: next(ran))], rounds=1, seconds=0.001)


def test_what_an_app_counts_is_read_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters: list[serving.SharedCount] = []
    monkeypatch.setitem(serving.APPS, "counting", counters.append)
    serving.make("counting", str(tmp_path))
    counters[0].ran += 1
    counters[0].ran += 1
    (tmp_path / "another process").write_bytes((5).to_bytes(8, "little"))
    assert serving.ran(tmp_path) == 7


@pytest.mark.parametrize(
    "answer",
    [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"],
)
def test_a_body_is_read_in_chunks_or_not(answer: bytes) -> None:
    assert blocks.body_of(b"HTTP/1.1 200 OK\r\n" + answer) == b"hello"


@pytest.mark.parametrize(
    ("value", "text"), [(0.03456, "0.035"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234"), (-0.5, "-0.500")]
)
def test_numbers_have_no_more_digits_than_count(value: float, text: str) -> None:
    assert show.number(value) == text


def test_tables_show_values_and_ratios() -> None:
    assert show.cells(table(a=2, b=1)) == (
        ["", "least µs", "median", "/ a"],
        [["b", "1.00", "2.00", "0.50"], ["a", "2.00", "4.00", "1.00"]],
    )
    figures = {"one": {"1": Figure.of([1.0]), "8": Figure.of([2.0])}, "two": {"8": Figure.of([3.0])}}
    assert show.cells(Table("", "ms", figures)) == (
        ["ms, least", "1", "8"],
        [["one", "1.00", "2.00"], ["two", "", "3.00"]],
    )


def test_the_page_is_filled_where_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {"zodb": {"read": table(a=2, b=1)}}
    monkeypatch.setattr(docs, "read", lambda suite: ({}, results.get(suite, {})))
    page = "Text.\n\n.. figures: zodb\n\nold\n.. end\n\n.. figures: served\n\nkept\n.. end\n"
    new = docs.PLACE.sub(docs._filled, page)
    assert "old" not in new and "kept" in new and "charts/zodb.svg" in new
    assert re.search(r"^=+  =+  =+  =+\n\\  +least µs  median  / a\n=+  =+  =+  =+\nb +1.00 ", new, re.MULTILINE)
    assert docs.PLACE.sub(docs._filled, new) == new


def test_the_short_tables_are_made_of_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def requests(ours: float) -> dict[str, Table]:
        row = {"pipeline": Figure.of([ours]), "Pyramid": Figure.of([10.0])}
        return {"requests": Table("", "µs", {"JSON": row, "page": row})}

    results = {
        "requests": requests(2.0),
        "requests-3.13": requests(3.0),
        "served": {"waitress": Table("", "requests/s", {"pipeline": {"8": Figure.of([5_000.0])}})},
    }
    monkeypatch.setattr(docs, "read", lambda suite: ({}, results.get(suite, {})))
    assert docs.SHORT["pythons"]() == (
        ["", "at most", "3.11", "3.12", "3.13"],
        [["JSON / Pyramid", "0.340", "0.20", "", "0.30"]],
    )
    assert docs.SHORT["servers"]() == (["requests/s", "pipeline"], [["waitress", "5,000"]])


@pytest.mark.parametrize("version", ["3.11", "3.13"])
def test_the_figures_of_another_python_are_kept_beside(version: str) -> None:
    assert measure.kept_as("requests", version) == ("requests" if version == "3.11" else "requests-3.13")


@pytest.mark.parametrize("log", [False, True])
def test_charts_are_sound_xml(log: bool) -> None:
    groups = {"a & b": {"x": 1.0, "y": 20.0}, "c": {"y": 300.0}}
    drawn = charts.bars("Title <1>", "ms", groups, log)
    assert "Title <1>" in (ElementTree.fromstring(drawn).findtext("{*}title") or "")
    drawn = charts.curves("Sizes", "size", "µs", {"a": {1: 2.0, 100: 30.0}, "b": {10: 5.0}})
    assert len(ElementTree.fromstring(drawn).findall("{*}circle")) == 3


def test_what_else_ran_is_a_part_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processors for a second: half a second of somebody else's is a quarter."""
    stat = iter([["cpu 100 0 0 900 0 0 0 0 0 0"], ["cpu 150 0 0 1050 0 0 0 0 0 0"]])
    clock = iter([1.0, 2.0])
    monkeypatch.setattr(measure, "_lines", lambda path: next(stat))
    monkeypatch.setattr(measure.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(measure.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(measure.os, "sysconf", lambda name: 100)
    monkeypatch.setattr(measure.os, "times", lambda: (0.0, 0.0, 0.0, 0.0, 0.0))
    assert measure.Others().percent() == 25
