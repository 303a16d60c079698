"""``metrics``: what Prometheus reads, by Prometheus's own parser, from a running pipeline."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from paste.deploy import loadapp
from prometheus_client.parser import text_string_to_metric_families
from transaction.interfaces import TransientError
from webob.exc import HTTPNotFound

from asking import ask
from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.timing import timing
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.measuring.metrics import metrics
from pipeline.publisher import publisher

TOKEN = "a-token-of-the-metrics-that-is-long-enough"


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def scrape(token_file: str) -> Callable[..., dict[tuple[str, ...], float]]:
    """``scrape(since)``: the samples of all metrics, by name and labels, less those of before."""
    app = Pipeline(metrics(token_file=token_file))

    def scrape(since: Any = None) -> dict[tuple[str, ...], float]:
        answer = ask(app, HTTP_AUTHORIZATION=f"Bearer {TOKEN}")
        assert answer.status_int == 200
        found = {
            (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
            if sample.name.startswith("pipeline_") and not sample.name.endswith("_created")
        }
        if since is None:
            return found
        changed = {sample: value - since.get(sample, 0.0) for sample, value in found.items()}
        return {sample: value for sample, value in changed.items() if value}

    return scrape


@view(context=dict)
def index(context: Any, request: Any) -> str:
    return "index"


@view(context=dict, name="fails")
def fails(context: Any, request: Any) -> str:
    raise ZeroDivisionError


@view(context=dict, name="refuses")
def refuses(context: Any, request: Any) -> str:
    raise HTTPNotFound


@view(context=dict, name="streams")
def streams(context: Any, request: Any) -> Iterator[bytes]:
    yield b"a"
    raise ZeroDivisionError


@view(context=dict, name="meets")
def meets(context: Any, request: Any) -> str:
    if request.attempt < int(request.GET["attempts"]):
        raise TransientError
    return "met"


@pytest.fixture
def site(module: Callable[..., str]) -> tuple[Pipeline, str]:
    """A pipeline that is measured, and the module of its views."""
    name = module(index, fails, refuses, streams, meets)
    parts = timing(metrics=True), retry(delay=0.0, attempts=4), errors(), traverse(root=dict)
    return Pipeline(*parts, publisher(scan=(name,))), name


def test_a_request_is_counted_by_view_and_status(site: Any, scrape: Any) -> None:
    app, module = site
    before = scrape()
    for _ in range(3):
        ask(app, "/")
    found = scrape(before)
    labels = ("status=200", f"view={module}.index")
    assert found["pipeline_request_seconds_count", *labels] == 3
    assert found["pipeline_request_seconds_sum", *labels] > 0
    assert found["pipeline_request_seconds_bucket", "le=+Inf", *labels] == 3
    others = ("pipeline_further_attempts", "pipeline_conflicts", "pipeline_errors")
    assert not [sample for sample in found if sample[0].startswith(others)]


@pytest.mark.parametrize(
    ("path", "status", "view"),
    [("/refuses", 404, "refuses"), ("/fails", 500, "fails"), ("/missing", 404, None), ("/%FF", 400, None)],
)
def test_every_answer_is_counted(site: Any, scrape: Any, path: str, status: int, view: str | None) -> None:
    app, module = site
    before = scrape()
    assert ask(app, path).status_int == status
    label = "view=-" if view is None else f"view={module}.{view}"
    assert scrape(before)["pipeline_request_seconds_count", f"status={status}", label] == 1


def test_requests_at_the_same_time_are_all_counted(site: Any, scrape: Any) -> None:
    app, module = site
    before = scrape()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: ask(app, "/"), range(400)))
    assert scrape(before)["pipeline_request_seconds_count", "status=200", f"view={module}.index"] == 400


def test_a_path_is_never_a_label(site: Any, scrape: Any) -> None:
    """Clients invent paths and methods: they must not fill the memory of the server."""
    app, _ = site
    ask(app, "/first")
    before = scrape()
    for number in range(50):
        ask(app, f"/invented-{number}")
    found = scrape(before)
    assert found.keys() <= before.keys()
    assert not [sample for sample in scrape() if any("invented" in part for part in sample)]


@pytest.mark.parametrize(("attempts", "further", "conflicts", "status"), [(3, 2, 2, 200), (9, 3, 4, 503)])
def test_attempts_and_conflicts(
    site: Any, scrape: Any, attempts: int, further: int, conflicts: int, status: int
) -> None:
    app, module = site
    before = scrape()
    assert ask(app, f"/meets?attempts={attempts}").status_int == status
    found = scrape(before)
    assert found["pipeline_further_attempts_total", f"view={module}.meets"] == further
    assert found["pipeline_conflicts_total", f"view={module}.meets"] == conflicts
    assert found["pipeline_request_seconds_count", f"status={status}", f"view={module}.meets"] == 1


def test_errors_are_counted_by_class(site: Any, scrape: Any) -> None:
    app, module = site
    before = scrape()
    ask(app, "/fails")
    ask(app, "/refuses")
    errors = {sample: value for sample, value in scrape(before).items() if sample[0] == "pipeline_errors_total"}
    assert errors == {("pipeline_errors_total", "error=ZeroDivisionError", f"view={module}.fails"): 1}


def test_a_stream_that_fails_is_an_error(site: Any, scrape: Any) -> None:
    app, module = site
    before = scrape()
    with pytest.raises(ZeroDivisionError):
        ask(app, "/streams")
    found = scrape(before)
    assert found["pipeline_errors_total", "error=ZeroDivisionError", f"view={module}.streams"] == 1
    assert found["pipeline_request_seconds_count", "status=200", f"view={module}.streams"] == 1


def test_a_stream_whose_client_goes_away_is_not_an_error(site: Any, scrape: Any, environ: Any) -> None:
    """A server closes the body while it handles the exception of its socket."""
    app, _ = site
    before = scrape()
    body = app(environ("/streams"), lambda *arguments: None)
    try:
        raise ConnectionResetError
    except ConnectionResetError:
        body.close()
    found = scrape(before)
    assert not [sample for sample in found if sample[0] == "pipeline_errors_total"]
    assert sum(value for sample, value in found.items() if sample[0] == "pipeline_request_seconds_count") == 1


def test_the_pools_of_databases(module: Any, scrape: Any) -> None:
    @view()
    def shelf(context: Any, request: Any) -> str:
        states = {sample[-1]: value for sample, value in scrape().items() if database in sample}
        return f"{states['state=used']:g} {states['state=idle']:g}"

    database = "database=memory://test_metrics"
    pool = zodb(uri="memory://test_metrics", max_connections=7)
    app = Pipeline(timing(metrics=True), retry(), pool, errors(), traverse(), publisher(scan=(module(shelf),)))
    assert ask(app).text == "1 0"
    assert ask(app).text == "1 0"
    found = scrape()
    assert found["pipeline_pool_connections", database, "state=used"] == 0
    assert found["pipeline_pool_connections", database, "state=idle"] == 1
    assert found["pipeline_pool_limit", database] == 7


# Who may read them


def test_without_a_token_file_nobody_may() -> None:
    answer = ask(Pipeline(metrics()), HTTP_AUTHORIZATION=f"Bearer {TOKEN}", REMOTE_ADDR="127.0.0.1")
    assert answer.status_int == 403 and "token_file" in answer.text


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xe9", TOKEN],
)
def test_a_request_without_the_token_is_refused__S17(token_file: str, authorization: str | None) -> None:
    """An address is not enough: behind a proxy every client has the address of the proxy."""
    sent = {} if authorization is None else {"HTTP_AUTHORIZATION": authorization}
    answer = ask(Pipeline(metrics(token_file=token_file)), REMOTE_ADDR="127.0.0.1", **sent)
    assert answer.status_int == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "pipeline_" not in answer.text


def test_only_reading_is_answered(token_file: str) -> None:
    app = Pipeline(metrics(token_file=token_file))
    assert ask(app, "/", "POST", HTTP_AUTHORIZATION=f"Bearer {TOKEN}").status_int == 405
    assert ask(app, "/", "HEAD", HTTP_AUTHORIZATION=f"Bearer {TOKEN}").status_int == 200


def test_a_missing_token_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "token"
    app = Pipeline(metrics(token_file=str(path)))
    assert path.stat().st_mode & 0o777 == 0o600
    assert ask(app, HTTP_AUTHORIZATION=f"Bearer {path.read_text().strip()}").status_int == 200


def test_it_is_not_kept_by_a_cache(token_file: str) -> None:
    answer = ask(Pipeline(metrics(token_file=token_file)), HTTP_AUTHORIZATION=f"bearer {TOKEN}")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.content_type == "text/plain"


def test_it_is_an_app_of_an_ini(tmp_path: Path, token_file: str) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(f"[app:main]\nuse = egg:wsgi-pipeline#metrics\ntoken_file = {token_file}\n")
    assert ask(loadapp(f"config:{ini}"), HTTP_AUTHORIZATION=f"Bearer {TOKEN}").status_int == 200


SEVERAL = """\
import os, sys
from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.timing import timing
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.measuring.metrics import metrics
from pipeline.publisher import publisher
from webob import Request

@view()
def index(context, request):
    return "index"

parts = zodb(uri="memory://several"), errors(), traverse(), publisher(scan=("__main__",))
site = Pipeline(timing(metrics=True), *parts)
if os.fork() == 0:
    for _ in range(2):
        Request.blank("/").get_response(site)
    os._exit(0)
os.wait()
Request.blank("/").get_response(site)
asked = Request.blank("/", authorization="Bearer " + open(sys.argv[1]).read())
print(asked.get_response(Pipeline(metrics(token_file=sys.argv[1]))).text)
"""


def test_several_processes_are_counted_together(tmp_path: Path, token_file: str) -> None:
    program = tmp_path / "several.py"
    program.write_text(textwrap.dedent(SEVERAL))
    figures = tmp_path / "figures"
    figures.mkdir()
    command = [sys.executable, "-W", "ignore", program, token_file]
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(figures), "PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert ran.stderr == ""
    samples = [sample for family in text_string_to_metric_families(ran.stdout) for sample in family.samples]
    [count] = [sample.value for sample in samples if sample.name == "pipeline_request_seconds_count"]
    assert count == 3
    assert any(sample.name == "pipeline_pool_connections" for sample in samples)
