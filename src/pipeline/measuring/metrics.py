"""``metrics``: the figures that the element ``timing`` counts, for Prometheus. Needs the extra ``prometheus``.

A small app, beside the pipeline of the site::

    [composite:main]
    use = egg:wsgi-pipeline#switch
    branches = metrics path=/@@metrics
    default = site

    [app:metrics]
    use = egg:wsgi-pipeline#metrics
    token_file = /srv/site/metrics_token

The figures say which views a site has, how often each is called and how often each fails. So they are not public:
a request needs the token of the file. The address of the client is not enough, since behind a proxy on the same
machine each client has the address of the proxy (S17).
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from time import perf_counter as clock
from time import time
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from webob.exc import HTTPForbidden, HTTPMethodNotAllowed, HTTPUnauthorized

from pipeline.auth.keys import read_keys
from pipeline.composition import element
from pipeline.database import pools
from pipeline.interfaces import Facts, Handler
from pipeline.jobs import Queue
from pipeline.measuring.measures import Measures, attempts, broken_stream, view_name
from pipeline.request import Request
from pipeline.response import Response
from pipeline.running.instance import processes, state_of

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper limits of the buckets, in seconds."""
NO_VIEW = "-"
"""The label ``view`` of requests that reached no view. A path is never a label: clients invent paths."""
PAUSE = 5.0
"""Seconds between two looks at the pools, in a process that is not asked for the metrics itself."""

SECONDS = Histogram(
    "pipeline_request_seconds",
    "Seconds from the element timing until the body of the answer is sent.",
    ("view", "status"),
    buckets=BUCKETS,
)
ATTEMPTS = Counter("pipeline_further_attempts", "Attempts at requests beyond the first.", ("view",))
CONFLICTS = Counter("pipeline_conflicts", "Attempts that failed with a transient error.", ("view",))
ERRORS = Counter(
    "pipeline_errors",
    "Requests answered with 5xx, streamed bodies that an error ended, and failures after a commit.",
    ("view", "error"),
)
CONNECTIONS = Gauge(
    "pipeline_pool_connections",
    "Open connections to a database, by state: used by a request, or idle.",
    ("database", "state"),
    multiprocess_mode="livesum",
)
LIMIT = Gauge(
    "pipeline_pool_limit",
    "Upper limit of the open connections to a database.",
    ("database",),
    multiprocess_mode="livesum",
)

JOBS = Gauge(
    "pipeline_jobs",
    "Jobs in the queue, by state: due, tried again later, or failed too often (pipeline work --again).",
    ("state",),
    multiprocess_mode="mostrecent",
)
JOB_ATTEMPTS = Counter("pipeline_job_attempts", "Attempts at jobs, by outcome: done or failed.", ("job", "outcome"))
"""The figures of jobs, which ``pipeline work`` tells: it has the queue open."""

_observers: dict[tuple[Any, str], Any] = {}
"""By view and status, the function that counts a request. To look it up by labels would take a microsecond."""
_looked = 0.0
"""When the pools were last looked at."""


def observe(request: Request, response: Response, measures: Measures) -> None:
    """Count a request that is being closed."""
    now = clock()
    view, status = measures.view, response.status_line[:3]
    try:
        observe_seconds = _observers[view, status]
    except KeyError:
        observe_seconds = _observers[view, status] = SECONDS.labels(view_name(view, NO_VIEW), status).observe
    observe_seconds(now - measures.started)
    tried = attempts(request)
    if tried > 1 or measures.is_conflict:
        ATTEMPTS.labels(view_name(view, NO_VIEW)).inc(tried - 1)
        CONFLICTS.labels(view_name(view, NO_VIEW)).inc(tried - 1 + measures.is_conflict)
    failed = getattr(request, "failed_after_commit", None)
    if status >= "500" or failed is not None or sys.exc_info()[1] is not None:
        error = broken_stream() or failed or (measures.failure() if status >= "500" else None)
        if error is not None or status >= "500":
            ERRORS.labels(view_name(view, NO_VIEW), type(error).__qualname__ if error is not None else "-").inc()
    if now - _looked > PAUSE:
        look_at_pools()


def look_at_pools() -> None:
    """Note how full the pools of this process are."""
    global _looked
    _looked = clock()
    for usage in pools.usages():
        CONNECTIONS.labels(usage.database, "used").set(usage.used)
        CONNECTIONS.labels(usage.database, "idle").set(usage.idle)
        if usage.limit is not None:
            LIMIT.labels(usage.database).set(usage.limit)


def look_at_jobs(queue: Queue) -> None:
    """Note how many jobs of each state are in the queue."""
    now = time()
    dues = [stored.due for stored in queue.all()]
    JOBS.labels("failed").set(dues.count(None))
    JOBS.labels("later").set(sum(due is not None and due > now for due in dues))
    JOBS.labels("due").set(sum(due is not None and due <= now for due in dues))


def count_attempt(job: str, outcome: str) -> None:
    """Count an attempt at a job."""
    JOB_ATTEMPTS.labels(job, outcome).inc()


class Running:
    """Shows what runs now in each process of an instance, as ``pipeline top`` does."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Ask each process. One that does not answer has no figures but ``pipeline_process_hangs``."""
        hangs = GaugeMetricFamily("pipeline_process_hangs", "1 if a process takes no requests.", labels=["pid"])
        running = GaugeMetricFamily("pipeline_requests_running", "Requests that run now.", labels=["pid"])
        longest = GaugeMetricFamily(
            "pipeline_longest_request_seconds", "Seconds of the request that has run for longest.", labels=["pid"]
        )
        waiting = GaugeMetricFamily("pipeline_requests_waiting", "Requests that wait for a thread.", labels=["pid"])
        for told in processes(self.directory):
            pid = [str(told["pid"])]
            hangs.add_metric(pid, state_of(told).word == "hangs")
            if "requests" in told:
                requests = told["requests"]
                running.add_metric(pid, len(requests))
                longest.add_metric(pid, requests[0]["seconds"] if requests else 0.0)
                waiting.add_metric(pid, told["waiting"])
        yield from (hangs, running, longest, waiting)


def _facts(*, token_file: str | None, watch: str) -> Facts:
    return Facts(writes=(token_file,) if token_file else (), shares_figures=True)


@element(facts=_facts)
def metrics(*, token_file: str | None = None, watch: str = "") -> Handler:
    """Show Prometheus what the element ``timing`` counts, with its option ``metrics``.

    token_file  path of a file with a token, which a request must send as ``Authorization: Bearer TOKEN``. A missing
                file is made, with one token. Without this option, every request is refused
    watch       the directory of the option ``watch`` of the app ``health``, to show what runs now in each process

    With the environment variable PROMETHEUS_MULTIPROC_DIR, the figures are those of all processes that share that
    directory, as prometheus_client describes; without it, those of the process that answers.
    """
    tokens = None if token_file is None else [key.encode() for key in read_keys(token_file, "token_file")]
    registry = CollectorRegistry()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(REGISTRY)
    if watch:
        registry.register(Running(watch))

    def metrics(request: Request, response: Response) -> None:
        if tokens is None:
            raise HTTPForbidden("The metrics are not public. Set the option token_file of the app metrics.")
        kind, _, token = request.environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        sent = token.strip().encode("latin-1", "replace")
        if kind.lower() != "bearer" or not any(secrets.compare_digest(sent, one) for one in tokens):
            raise HTTPUnauthorized("The metrics need a token.", headers={"WWW-Authenticate": "Bearer"})
        if request.method not in ("GET", "HEAD"):
            raise HTTPMethodNotAllowed("Metrics are read by GET.", headers={"Allow": "GET, HEAD"})
        look_at_pools()
        encode, content_type = choose_encoder(request.environ.get("HTTP_ACCEPT", ""))
        response.headers["Content-Type"] = content_type
        response.headers["Cache-Control"] = "no-store"
        response.app_iter = [encode(registry)]

    return metrics
