"""The site of the experiments in processes of their own, loaded from an ini as every site is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from faults.load import get
from servers.base import Server

TESTS = Path(__file__).resolve().parent.parent

ORDER = "log vhost retry zodb errors transaction traverse publisher"
SQL_ORDER = ORDER.replace("zodb", "sql")
TABLES = "CREATE TABLE ledger (id varchar(100) NOT NULL)"
"""What the site needs on SQL. Nothing keeps an id from being stored twice, so that it can be seen."""

USES = {
    name: f"egg:wsgi-pipeline#{name}"
    for name in ("log", "vhost", "causal", "retry", "zodb", "sql", "errors", "transaction", "traverse", "publisher")
}

DEFAULTS: dict[str, dict[str, str]] = {
    "zodb": {"root": "faults.site:root"},
    "publisher": {"scan": "faults.site"},
}

LOGGING = """
[loggers]
keys = root, access, queue

[handlers]
keys = stderr, access

[formatters]
keys = line, bare

[logger_root]
level = INFO
handlers = stderr

[logger_access]
qualname = pipeline.access
level = INFO
handlers = access
propagate = 0

[logger_queue]
qualname = waitress.queue
level = ERROR
handlers =

[handler_stderr]
class = StreamHandler
args = (sys.stderr,)
formatter = line

[handler_access]
class = FileHandler
args = ({access!r}, "a")
formatter = bare

[formatter_line]
format = %(asctime)s %(process)d %(levelname)s %(name)s: %(message)s

[formatter_bare]
format = %(message)s
"""


def write_ini(
    file: Path,
    uri: str,
    *,
    order: str = ORDER,
    port: int = 0,
    server: Mapping[str, object] | None = None,
    bugs: Sequence[str] = (),
    access: str = os.devnull,
    **options: Mapping[str, object],
) -> Path:
    """Write the ini of a site whose database is ``uri``: of a ZODB, or of SQL where ``order`` has ``sql``.

    options  of the elements, by the element's name
    bugs     names in ``faults.bugs``, put in the place of the element of the same name (before ``_``)
    server   options of waitress
    """
    uses = {**USES, "fault": "paste.filter_factory = pipeline.testing:fault"}
    for bug in bugs:
        uses[bug.partition("_")[0]] = f"paste.filter_factory = faults.bugs:{bug}"
    lines = ["[pipeline:main]", f"pipeline = {order}", ""]
    for name in order.split():
        lines += [f"[{'app' if name == 'publisher' else 'filter'}:{name}]"]
        use = uses.get(name, f"paste.filter_factory = faults.bugs:{name}")
        lines += [use if " = " in use else f"use = {use}"]
        settings: dict[str, object] = {**DEFAULTS.get(name, {}), **options.get(name, {})}
        if name == "zodb":
            settings["uri"] = uri
        if name == "sql":
            settings["url"] = uri
        if name == "traverse" and "sql" in order.split():
            settings["root"] = "faults.site:tables"
        if name == "publisher" and "sql" in order.split():
            settings["scan"] = "faults.site faults.tables"
        lines += [f"{key} = {value}" for key, value in settings.items()] + [""]
    waitress: dict[str, object] = {"host": "127.0.0.1", "port": port, "threads": 8, **(server or {})}
    lines += ["[server:main]", "use = egg:waitress#main"]
    lines += [f"{key} = {value}" for key, value in waitress.items()]
    file.write_text("\n".join(lines) + "\n" + LOGGING.format(access=access))
    return file


class Site(Server):
    """The site under waitress: one process, eight threads.

    temporary  where it puts temporary files; default: where everybody does
    options    those of ``write_ini``
    """

    def __init__(
        self,
        directory: Path,
        uri: str,
        port: int | None = None,
        *,
        temporary: Path | None = None,
        **options: Any,
    ) -> None:
        super().__init__(directory, port)
        self.uri = uri
        self.temporary = temporary
        self.ini = write_ini(directory / "site.ini", uri, port=self.port, **options)

    def command(self) -> list[str | Path]:
        return [sys.executable, "-m", "faults.serve", self.ini]

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        return {"PYTHONPATH": path} | ({"TMPDIR": str(self.temporary)} if self.temporary else {})

    def is_up(self) -> bool:
        """Whether it answers at all; 503 is an answer."""
        return get(self.port, "/@@nothing", timeout=10).status > 0

    def prepare(self) -> None:
        """Make the site in its database."""
        answer = get(self.port, "/")
        if answer.status != 200:
            raise RuntimeError(f"GET / is {answer.status} {answer.body!r}; the site said:\n{self.said()}")


@contextmanager
def three(place: Path, uri: str, order: str, **options: dict[str, str]) -> Iterator[list[Site]]:
    """Three instances of a site on one database."""
    sites = []
    with ExitStack() as stack:
        for number in range(3):
            directory = place / f"instance{number}"
            directory.mkdir()
            site = Site(directory, uri, order=order, **options)
            site.start()
            stack.callback(site.stop)
            sites.append(site)
        sites[0].prepare()
        yield sites


class Workers(Site):
    """The site under gunicorn: processes with four threads each. It sends what it gets at once."""

    def __init__(self, directory: Path, uri: str, *, workers: int = 2, **options: Any) -> None:
        self.workers = workers
        super().__init__(directory, uri, **options)

    def command(self) -> list[str | Path]:
        return [
            *(sys.executable, "-m", "gunicorn", "--paste", self.ini, "--bind", f"127.0.0.1:{self.port}"),
            *("--workers", str(self.workers), "--threads", "4", "--no-control-socket"),
            *("--graceful-timeout", "5"),
        ]
