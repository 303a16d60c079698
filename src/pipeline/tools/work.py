"""``pipeline work INI``: do the jobs that a site has stored for later."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from transaction.interfaces import TransientError

from pipeline.interfaces import ConfigurationError
from pipeline.jobs import Stored
from pipeline.loading.asking import answer_of, request_of
from pipeline.loading.command_line import (
    host_of,
    options_of,
    parse_variables,
    parser_of,
    plan_of,
    split_name,
)
from pipeline.loading.site import set_up_logging
from pipeline.options import on_demand
from pipeline.tools.shell import INSIDE, in_site

if TYPE_CHECKING:
    from pipeline.measuring.metrics import count_attempt, look_at_jobs
else:  # they need prometheus_client
    count_attempt = on_demand("pipeline.measuring.metrics:count_attempt")
    look_at_jobs = on_demand("pipeline.measuring.metrics:look_at_jobs")

AT_ONCE = 20
"""Jobs that a worker takes from the queue at once. Then it reads the queue again."""
MOST_PASSED = 200
"""After this many jobs that cannot be done now, a worker waits: most likely a server is away."""
STEP = 0.5
"""Seconds after which a worker that waits notices that it is to end."""
PAUSE = 5.0
"""Seconds between two counts of a queue that has work: each reads all of it."""

log = logging.getLogger("pipeline.jobs")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = options_of(parser_of("work"), arguments)
    for given, other in ((options.list, show), (options.again, revive), (options.create, create)):
        if given:
            return in_site(options.ini, options.variables, partial(if_useful, other))
    set_up_logging(split_name(options.ini)[0], parse_variables(options.variables))
    host = host_of(plan_of(options.ini, options.variables))
    work = Worker(host, options.every, options.once).work
    return in_site(options.ini, options.variables, partial(if_useful, work))


def if_useful(work: Callable[[Mapping[str, Any]], int], names: Mapping[str, Any]) -> int:
    """Do the work in a site that can have jobs; return the exit status."""
    request = names["request"]
    if "job_queue" not in request.pipeline.offered:
        raise ConfigurationError("jobs need a database: the element zodb or sql")
    if "commit" not in request.pipeline.names:
        raise ConfigurationError("the pipeline has no element transaction, so nothing is stored")
    if work is not show and request.job_queue.refusal:
        raise ConfigurationError(request.job_queue.refusal)
    return work(names)


class Worker:
    """Does one job after the other, each in a request of its own."""

    def __init__(self, host: str, every: float, is_once: bool) -> None:
        self.host, self.every, self.is_once = host, every, is_once
        self.is_stopped = False
        self.counted: float | None = None
        """When the queue was counted last, in the time of ``time.monotonic``; None before it was read."""
        self.reads = True
        """False from the first look at the queue that fails to the next one that does not."""
        self.failed = 0
        self.refused = 200
        """The last status by which the site kept a job from being done."""
        self.has_metrics = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        """True if the element metrics of the site shows the figures of this process, too."""

    def work(self, names: Mapping[str, Any]) -> int:
        """Do jobs until there is none, or the process is to end."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stop)
        passed: set[int] = set()  # those of this turn that cannot be done now
        while not self.is_stopped:
            try:
                found = self.look(names, passed)
            except Exception as error:  # a server that is started again is waited for
                if self.is_once or self.counted is None:
                    raise
                if self.reads:
                    log.error("the queue cannot be read until further notice: %s: %s", type(error).__name__, error)
                found, self.reads = [], False
            passed.update(id for id in found if not self.is_stopped and not self.do(id, names["app"]))
            if not found or len(passed) >= MOST_PASSED:
                passed.clear()
                if self.is_once:
                    break
                until = time.monotonic() + self.every
                while not self.is_stopped and (left := until - time.monotonic()) > 0:
                    time.sleep(min(left, STEP))  # Python goes on with it after a signal
        return int(self.is_once and self.failed > 0)

    def look(self, names: Mapping[str, Any], passed: set[int]) -> list[int]:
        """Return ids of jobs that may be done now, of the queue as it is now."""
        names["abort"]()
        queue = names["request"].job_queue
        found = [id for id in queue.due(time.time(), AT_ONCE + len(passed)) if id not in passed]
        if self.counted is None or not found or time.monotonic() - self.counted > PAUSE:
            self.counted = time.monotonic()
            if self.has_metrics:
                look_at_jobs(queue)
        names["abort"]()  # nothing is locked while a job runs
        random.shuffle(found)  # another worker has the same list
        if not self.reads:
            log.warning("the queue is read again")
        self.reads = True
        return found

    def stop(self, number: int, frame: object) -> None:
        self.is_stopped = True

    def do(self, id: int, app: Any) -> bool:
        """Do one job. Return whether the queue has changed."""
        attempt = Attempt(id)
        status, outcome = self.ask(app, attempt.run)
        job = attempt.job
        if job is None:  # another worker has it, or the site did not let this one reach the queue
            if status not in (200, self.refused):
                log.error("no job is done: the site has answered %s to POST /job, the request of a worker", status)
            self.failed += status != 200
            self.refused = status
            return False
        error = attempt.error
        if attempt.is_stored and error is None and status == 200:
            log.info("job %s is done", job.name)
            if self.has_metrics:
                count_attempt(job.name, "done")
            return True
        was_away = status == 503 and (error is None or isinstance(error, TransientError))
        if not attempt.is_stored and (outcome == "unknown" or was_away):
            log.warning("job %s: status %s; it is tried again if it is still in the queue", job.name, status)
            return False
        failure = error or RuntimeError(f"its last changes were not stored (status {status})")
        after = job.after(failure)
        again = "it waits for pipeline work --again" if after.due is None else "it is tried again"
        if attempt.is_stored:  # by a commit of its own, which has taken it out of the queue (R2a)
            after, job = replace(after, id=0, due=None), None
            again = "it has stored a part by itself, so it waits for pipeline work --again"
        what = failure if error is None else type(error).__name__  # its text may be a visitor's (S25)
        log.error("job %s has failed %d times, now by %s; %s", after.name, after.failed, what, again)
        self.failed += 1
        if self.has_metrics:
            count_attempt(after.name, "failed")
        return self.ask(app, partial(put_back, job, after))[0] == 200

    def ask(self, app: Any, inside: Callable[[Any, Any], None]) -> tuple[int, str]:
        """Ask the site, with a function in the place of traversal. Return the status, and the header X-Outcome."""
        environ = request_of("POST", "/job", [f"Host: {self.host}"], [])
        status, headers, _, escaped = answer_of(app, environ | {INSIDE: inside})
        return 500 if escaped is not None else int(status[:3]), dict(headers).get("X-Outcome", "")


class Attempt:
    """One attempt at a job, as ``retry`` may repeat it after a conflict."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.job: Stored | None = None
        self.error: Exception | None = None
        self.is_stored = False

    def run(self, request: Any, response: Any) -> None:
        """Take the job out of the queue, and do it, unless another worker has put it back to wait (R15)."""
        queue = request.job_queue
        self.error, self.job = None, queue.take(self.id)
        if self.job is not None and (self.job.due is None or self.job.due > time.time()):
            queue.add(self.job)
            self.job = None
        if self.job is not None:
            request.after_commit(setattr, self, "is_stored", True)
            try:
                self.job.run(request)
            except Exception as error:
                self.error = error
                raise
        response.plain("200 OK", "done")


def put_back(before: Stored | None, after: Stored, request: Any, response: Any) -> None:
    """Store a job as it waits after an error, unless another worker has had it since."""
    queue = request.job_queue
    found = queue.take(after.id)
    if (found := after if found == before else found) is not None:
        queue.add(found)
    response.plain("200 OK", "put back")


def show(names: Mapping[str, Any]) -> int:
    """Print a line for each job; return the exit status."""
    now = time.time()
    for one in sorted(names["request"].job_queue.all(), key=lambda one: (one.due is None, one.due or 0)):
        waits = "failed" if one.due is None else "due" if one.due <= now else f"in {one.due - now:.0f} s"
        tried = f"  {one.failed} times, last by {one.error}" if one.failed else ""
        print(f"{one.id}  {waits:10}  {one.name}{tried}")
    return 0


def revive(names: Mapping[str, Any]) -> int:
    """Make the jobs due that wait for a person; return the exit status."""
    queue = names["request"].job_queue
    found = [one for one in queue.all() if one.due is None]
    for one in found:
        if queue.take(one.id) is not None:
            queue.add(Stored(one.id, one.name, one.arguments, time.time()))
    names["commit"]()
    print(f"{len(found)} {'job is' if len(found) == 1 else 'jobs are'} due again")
    return 0


def create(names: Mapping[str, Any]) -> int:
    """Make the table of the jobs, unless it is there; return the exit status."""
    names["request"].job_queue.create()
    names["commit"]()
    print("The queue is there.")
    return 0
