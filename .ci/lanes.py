"""Runs jobs side by side: each when the jobs that it needs are done, and its processors are free.

Each job has a log of its own. The others go on if a job fails. At the end come the log of the first failure, the
names of all failures, a table of what each job took (seconds by the clock, seconds of processor time) and how many
tests it ran, and the closing line of all tests.

A few tests that failed run once more, one after the other and with no job beside them. A job whose tests pass then
is done, and the end of the run names them: they depend on how busy the machine is, and must be mended.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

OUTCOMES = re.compile(r"^(?:=+ )?((?:\d+ \w+, )*\d+ \w+) in [\d.]+s", re.MULTILINE)
"""The closing line of pytest, such as "3 failed, 10 passed in 1.20s"."""

FAILURES = re.compile(r"^(?:FAILED|ERROR) \S.*", re.MULTILINE)
"""The lines in which pytest names the tests that failed."""

FIRST = {"AGAIN": "", "NONE": ""}
AGAIN = {"AGAIN": "--last-failed --last-failed-no-failures none -n 0", "NONE": "5"}
"""The variables by which the command of a ``Job`` runs all tests, and those again that failed: arguments of pytest,
and its exit status if there are none."""
FEW = 0 if os.environ.get("PIPELINE_CI_ALL") == "1" else 3
"""How many tests of a whole run may run again: none for a release."""

LIMIT = 2700.0
"""Seconds that a job may take. Then it is stopped, and has failed: a test that hangs is told with its log."""

GRACE = 5.0
"""Seconds that a process has to end, if the whole run is stopped. Then it is killed."""


@dataclass(frozen=True)
class Job:
    """One command, with what it waits for."""

    name: str
    command: str
    """For bash, in the top directory of the checkout, with the variables ``AGAIN`` and ``NONE``."""
    needs: Sequence[str] = ()
    """Names of the jobs that must be done before."""
    after: Sequence[str] = ()
    """Names of the jobs that must have ended before, done or not."""
    processors: float = 1.0
    """How many processors it keeps busy; 0 if it waits for the network most of the time."""
    may_fail: str = ""
    """The line that the end of the run has in place of a failure."""


@dataclass
class Run:
    """A job that has begun."""

    job: Job
    log: Path
    process: subprocess.Popen[bytes]
    begun: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    worked: float = 0.0
    """Seconds of processor time, with those of the programs that it waited for."""
    status: int | None = None
    alone: list[str] = field(default_factory=list)
    """The lines of the tests that failed, and passed by themselves."""

    def has_ended(self) -> bool:
        if self.status is None:
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.status = self.process.returncode = os.waitstatus_to_exitcode(status)
                self.seconds = time.monotonic() - self.begun
                self.worked = used.ru_utime + used.ru_stime
        return self.status is not None

    @property
    def is_done(self) -> bool:
        return self.status == 0

    def failures(self) -> list[str]:
        """Return the lines in which pytest names the tests that failed."""
        return FAILURES.findall(self.log.read_text(errors="replace"))

    def outcomes(self) -> Counter[str]:
        """Return the tests by their outcome, of all runs of pytest in the log."""
        counts: Counter[str] = Counter()
        for found in OUTCOMES.findall(self.log.read_text(errors="replace")):
            for number, outcome in re.findall(r"(\d+) (\w+)", found):
                counts[outcome] += int(number)
        return counts


def run(jobs: Sequence[Job], logs: Path) -> int:
    """Run the jobs. Return the exit status of all: 1 if one failed."""
    begun = time.monotonic()
    processors = len(os.sched_getaffinity(0)) + 0.5
    waiting, runs = list(jobs), dict[str, Run]()
    done: dict[str, bool] = {}
    """True for each job that was done, of those that have ended. A job that was left out was not."""
    logs.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the jobs end as well
    try:
        while len(done) < len(jobs):
            for name, one in runs.items():
                if name in done:
                    continue
                if time.monotonic() - one.begun > LIMIT:
                    stop([one.process.pid])
                if one.has_ended():
                    done[name] = one.is_done
                    tell(begun, f"{name}: {line(one)}")
            for job in list(waiting):
                if not all(done.get(name, True) for name in job.needs):
                    waiting.remove(job)
                    done[job.name] = False
                    tell(begun, f"{job.name}: left out, for want of {' '.join(job.needs)}")
                elif all(name in done for name in (*job.needs, *job.after)):
                    busy = sum(one.job.processors for one in runs.values() if one.job.name not in done)
                    if busy + job.processors <= processors or not busy or not job.processors:
                        waiting.remove(job)
                        runs[job.name] = start(job, logs)
            time.sleep(0.2)
    finally:
        stop([one.process.pid for one in runs.values() if one.status is None])
    run_again([one for one in runs.values() if not one.is_done and not one.job.may_fail], logs)
    return conclude(jobs, runs, time.monotonic() - begun)


def run_again(failed: Sequence[Run], logs: Path) -> None:
    """Run the tests again that failed, if these are few. A run whose tests all pass is done."""
    if sum(len(one.failures()) for one in failed) > FEW:
        return
    if not all(one.failures() and "$AGAIN" in one.job.command for one in failed):
        return
    for one in failed:
        again = start(replace(one.job, name=f"{one.job.name} again"), logs, AGAIN)
        try:
            while not again.has_ended():
                time.sleep(0.2)
        finally:
            stop([] if again.has_ended() else [again.process.pid])
        if again.is_done and again.outcomes()["passed"] == len(one.failures()):
            one.status, one.alone = 0, one.failures()


def start(job: Job, logs: Path, variables: Mapping[str, str] = FIRST) -> Run:
    log = logs / f"{job.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", job.command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **variables},
        )
    return Run(job, log, process)


def stop(pids: Sequence[int]) -> None:
    """End the processes and all that they started, servers in sessions of their own too. Kill what is left then."""
    family = {pid: os.pidfd_open(pid) for pid in pids}  # not the number, which may be given away in the meantime
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in {found for one in family for found in children(one)} - family.keys():
            with suppress(ProcessLookupError):
                family[pid] = os.pidfd_open(pid)
        for one in family.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(one, number)
        end = time.monotonic() + GRACE
        for one in family.values():  # it can be read when its process has ended
            select.select([one], [], [], max(0, end - time.monotonic()))


def children(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started and that still run, and theirs."""
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it has ended in the meantime
            for child in map(int, file.read_text().split()):
                yield child
                yield from children(child)


def line(run: Run) -> str:
    """Return what became of a run, in one line."""
    state = "done" if run.is_done else run.job.may_fail or "FAILED"
    return f"{state} after {run.seconds:.0f} s{', ' if run.outcomes() else ''}{shown(run.outcomes())}"


def shown(outcomes: Counter[str]) -> str:
    return ", ".join(f"{number:,} {outcome}" for outcome, number in outcomes.items())


def tell(begun: float, text: str) -> None:
    print(f"[{time.monotonic() - begun:5.0f} s] {text}", flush=True)


def conclude(jobs: Sequence[Job], runs: Mapping[str, Run], seconds: float) -> int:
    """Print the log of the first failure, the failures of each job, a table of the jobs and the closing line.

    Return the exit status.
    """
    ended = sorted(runs.values(), key=lambda one: one.begun + one.seconds)
    failed = [one for one in ended if not one.is_done and not one.job.may_fail]
    excused = [one.job for one in ended if not one.is_done and one.job.may_fail]
    if failed:
        print(f"\n=== {failed[0].job.name} failed first. Its log:\n")
        print(failed[0].log.read_text(errors="replace"))
    for one in failed:
        print(f"\n=== {one.job.name}: {line(one)}")
        last = one.log.read_text(errors="replace").splitlines()[-15:]
        print("\n".join(found[:300] for found in one.failures() or last))
    print(f"\n{'job':<24}{'seconds':>8}{'worked':>8}  tests")
    for job in jobs:
        if job.name in runs:
            one = runs[job.name]
            note = "" if one.is_done else f"  {job.may_fail or 'FAILED'}"
            print(f"{job.name:<24}{one.seconds:>8.0f}{one.worked:>8.0f}  {shown(one.outcomes())}{note}")
        else:
            print(f"{job.name:<24}{'-':>8}{'-':>8}  left out")
    print(f"{'all':<24}{seconds:>8.0f}{sum(one.worked for one in ended):>8.0f}")
    total = sum((one.outcomes() for one in ended), Counter[str]())
    print(f"\n{seconds / 60:.1f} minutes. Failed: {', '.join(one.job.name for one in failed) or 'no job'}.")
    for job in excused:
        print(job.may_fail)
    alone = [found for one in ended for found in one.alone]
    for found in alone:
        print(f"failed beside other jobs, and passed alone: {found[:300]}")
    wrong = total["failed"] + total["error"] + total["errors"] - len(alone)
    print(f"{total['passed'] + len(alone)} passed, {wrong} failed, {total['skipped']} skipped")
    return 1 if failed else 0
