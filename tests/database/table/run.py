"""Runs rows, and gathers what the judge needs to know."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

from asking import Answer, ask
from database.table import axes as a
from database.table import judge
from database.table.axes import Row
from database.table.facts import Facts
from database.table.kits import WAS, Kit, Wrong
from database.table.play import Play
from database.table.site import site_of
from pipeline.database import forks, pools, sql_databases, zodb_pools


class Log(logging.Handler):
    """Notes whether the pipeline has logged an error, in the place of all other handlers."""

    has_any = False

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.before: list[tuple[logging.Logger, bool, int]] = []

    def start(self) -> None:
        for name in ("pipeline", "ZODB", "txn", "relstorage"):
            logger = logging.getLogger(name)
            self.before.append((logger, logger.propagate, logger.level))
            logger.propagate = False
            logger.setLevel(logging.WARNING)
            logger.addHandler(self)

    def stop(self) -> None:
        for logger, propagate, level in self.before:
            logger.propagate = propagate
            logger.setLevel(level)
            logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.has_any = True


class Bench:
    """A site with its database, on which rows are run one after the other. ``make`` makes the kit of a new one."""

    def __init__(self, make: Callable[[], Kit]) -> None:
        self.make = make
        self.log = Log()
        self.visits = 0

    def begin(self) -> None:
        """Begin with a new database."""
        self.kit = self.make()
        self.app = site_of(self.kit)
        self.ask_well("/create")
        self.first = self.kit.stored()
        """The state before each row, apart from what visitors write."""

    def faults(self, row: Row) -> list[str]:
        """Run a row, and return what was wrong with it."""
        facts = self.run(row)
        found = judge.faults(self.kit, row, self.first, facts, str(self.visits))
        if found or (facts.stored_later | {"visitor": WAS} != self.first and self.ask("/put-back").status != 200):
            self.end()
            self.begin()
        return found

    def red(self, rows: Iterable[Row]) -> list[str]:
        """Run rows. Return those that are not as the model says, with what was wrong."""
        return [f"{row}: {'; '.join(found)}" for row in rows if (found := self.faults(row))]

    def __enter__(self) -> Bench:
        self.log.start()
        self.begin()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        self.log.stop()

    def end(self) -> None:
        """Close everything that the rows have opened."""
        forks.close_all()
        zodb_pools._pools.clear()  # a child that is forked looks at every database of its parent
        sql_databases._databases.clear()
        self.kit.close()

    def ask(self, path: str, play: Any = None, query: str = "") -> Answer:
        return ask(self.app, f"{path}?{query}", "POST", environ={"table.play": play or Idle()}, valid=False)

    def ask_well(self, path: str) -> None:
        answer = self.ask(path)
        if answer.status != 200:
            raise Wrong(f"{path} was answered {answer.line}")

    def run(self, row: Row) -> Facts:
        """Run a row."""
        self.log.has_any = False
        play = Play(self.kit, row)
        used = in_use()
        status = self.ask_to_play(play)
        if row.who in (a.LATER, a.HOLDING):
            status = self.ask("/later", Later(play, row)).status
        else:
            self.act_between(play)
        facts = self.gather(play, status, used)
        play.taken = play.request = None
        return facts

    def ask_to_play(self, play: Play) -> int:
        me = os.getpid()
        try:
            return int(self.ask("/play", play).status)
        finally:
            if os.getpid() != me:  # the child that has gone on
                os._exit(0)

    def act_between(self, play: Play) -> None:
        if play.row.who == a.LEFTOVER:
            play.end_leftover()
        elif play.row.who == a.BETWEEN:
            play.act()
        elif play.row.who == a.IDLE_FORK:
            play.act_in_child()

    def gather(self, play: Play, status: int, used: int) -> Facts:
        logged = self.log.has_any
        calls = play.synchronizer.calls
        stored = self.kit.stored()
        self.visits += 1
        visit = self.ask("/visit", query=str(self.visits))
        later = self.kit.stored()
        return Facts(
            play.reached,
            play.hung,
            play.raised,
            status,
            stored,
            json.loads(visit.body) if visit.status == 200 else stored,
            visit.status,
            later,
            logged,
            play.attempts,
            play.synchronizer.calls - calls,
            in_use() - used,
        )


class Idle:
    """The play of a visitor who does not play."""

    def at(self, place: str, request: Any) -> None:
        pass


class Later(Idle):
    """The play of a later request that touches what an earlier one has left in a global."""

    def __init__(self, play: Play, row: Row) -> None:
        self.play = play
        self.row = row

    def at(self, place: str, request: Any) -> None:
        if place == "view":
            if self.row.who == a.HOLDING:
                self.play.kit.state(request)
            self.play.act()


def in_use() -> int:
    return sum(usage.used for usage in pools.usages())
