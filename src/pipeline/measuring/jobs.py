"""The figures of jobs, for Prometheus. ``pipeline work`` tells them: it has the queue open."""

from __future__ import annotations

from time import time

from prometheus_client import Counter, Gauge

from pipeline.jobs import Queue

WAITING = Gauge(
    "pipeline_jobs",
    "Jobs in the queue, by state: due, tried again later, or failed too often (pipeline work --again).",
    ("state",),
    multiprocess_mode="mostrecent",
)
ATTEMPTS = Counter("pipeline_job_attempts", "Attempts at jobs, by outcome: done or failed.", ("job", "outcome"))


def look_at_jobs(queue: Queue) -> None:
    """Note how many jobs of each state are in the queue."""
    now = time()
    dues = [stored.due for stored in queue.all()]
    WAITING.labels("failed").set(dues.count(None))
    WAITING.labels("later").set(sum(due is not None and due > now for due in dues))
    WAITING.labels("due").set(sum(due is not None and due <= now for due in dues))


def count_attempt(job: str, outcome: str) -> None:
    """Count an attempt at a job."""
    ATTEMPTS.labels(job, outcome).inc()
