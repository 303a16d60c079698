"""``pipeline shell INI``: Python with the root of a site, a request, and a transaction that is open."""

from __future__ import annotations

import code
import sys
import traceback
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pipeline.database.instead import read_only_if_locked
from pipeline.interfaces import Handler
from pipeline.loading.asking import answer_of, request_of, say_read_only
from pipeline.loading.building import build
from pipeline.loading.command_line import host_of, options_of, parser_of
from pipeline.options import on_demand, resolve
from pipeline.paste import Step
from pipeline.telling.errors import refusal
from pipeline.telling.words import short

if TYPE_CHECKING:
    from pipeline.database.transactions import is_open
else:  # a site without a database does not have its package
    is_open = on_demand("pipeline.database.transactions:is_open")

NAMES = {
    "root": "the object where traversal starts",
    "request": "a GET of /, with what the elements add to requests",
    "commit": "commit() stores your changes and begins a new transaction",
    "abort": "abort() drops your changes and begins a new transaction",
    "app": "the WSGI app of the ini",
}
"""The names that the code sees, and their meaning."""
INSIDE = "pipeline.inside"
"""Key of the environ of a further request to ``app``: a function ``(request, response)`` that is called there."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = options_of(parser_of("shell"), arguments)
    code = options.code
    return in_site(options.ini, options.variables, interact if code is None else lambda names: run(code, names))


def in_site(
    ini: str, variables: Sequence[str], work: Callable[[Mapping[str, Any]], int], has_root: bool = True
) -> int:
    """Call ``work`` with the names of a site, inside of its pipeline; return the exit status that it returns, and
    raise what it raises, though an element makes an error page of that.

    has_root  whether the root is one of the names. It may be what is broken
    """
    shell = Shell(work, has_root)
    built = build(ini, variables, shell.watch)
    shell.ends = {chain.steps[-1].where for chain in built.chains}
    shell.names["app"] = built.app
    environ = request_of("GET", "/", [f"Host: {host_of(built.chains)}"], [])
    with read_only_if_locked(shell.tell_read_only):
        line, _, _, escaped = answer_of(built.app, environ)
    if (error := shell.error or escaped) is not None:
        raise error
    if shell.status is None:
        raise refusal("no site", ini=ini, status=line, file=ini.partition("#")[0])
    return shell.status


@dataclass
class Shell:
    """Runs code in the place of traversal, or of the end of a pipeline that does not traverse.

    The elements outside are at work, as for any request: they open the database and begin the transaction, and they
    close both afterwards.
    """

    run: Callable[[Mapping[str, Any]], int]
    has_root: bool = True
    ends: Container[str] = ()
    """The places of the ends of the pipelines."""
    names: dict[str, Any] = field(default_factory=dict)
    status: int | None = None
    """The exit status of the code; None if it has not run."""
    error: Exception | None = None
    """The exception that the code has raised."""
    read_only: list[str] = field(default_factory=list)
    """The paths of the databases that are open read-only."""

    def tell_read_only(self, path: str) -> None:
        """Note that a database can only be read, and say so."""
        self.read_only.append(path)
        say_read_only(path)

    def watch(self, step: Step, handler: Handler, request: Any, response: Any) -> None:
        """Run the code in the place of the handler of the first step that traverses or ends a pipeline."""
        inside = request.environ.get(INSIDE)
        if (self.status is not None and inside is None) or not (step.facts.walks or step.where in self.ends):
            handler(request, response)
            return

        def renew(end: str) -> None:
            tm = request.tm
            if end == "commit" and self.read_only:
                raise RuntimeError(
                    f"nothing is stored: {' and '.join(self.read_only)} is open read-only, since another process "
                    f"has it. Stop that process, or use a database server for several: zeo:// or postgres://"
                )
            if is_open(tm):
                getattr(tm, end)()
            tm.begin()

        offered = request.pipeline.offered
        find_root = step.facts.find_root
        if find_root is not None and self.has_root:
            request.root = find_root(request)
        if inside is not None:
            inside(request, response)
            return
        if "tm" in offered:
            self.names |= {"commit": lambda: renew("commit"), "abort": lambda: renew("abort")}
        if self.has_root and (find_root is not None or "root" in offered):
            self.names["root"] = request.root
        self.names["request"] = request
        self.status = 1
        try:
            self.status = self.run(self.names)
        except Exception as error:
            self.error = error
            raise
        finally:
            tm = request.tm_in_use
            if tm is not None and is_open(tm):
                tm.abort()


def run(text: str, names: Mapping[str, Any]) -> int:
    """Run code; return the exit status."""
    try:
        exec(compile(text, "<-c>", "exec"), dict(names))
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception as error:
        traceback.print_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        return 1
    return 0


def interact(names: Mapping[str, Any]) -> int:
    """Start a prompt, or run a script that comes in its place; return the exit status."""
    if sys.stdin is not None and not sys.stdin.isatty():
        return run(sys.stdin.read(), names)  # to its first error: a prompt would go on to its commit()
    width = max(map(len, names))
    told = [f"  {name:{width}}  {meaning}" for name, meaning in NAMES.items() if name in names]
    if "root" in names:
        told[0] += f": {short(names['root'])}"
    banner = "\n".join(["These names are there:", *told, "Nothing is stored without commit(). Ctrl-D ends."])
    if find_spec("IPython") is not None:
        print(banner)
        resolve("IPython:start_ipython")(argv=["--no-banner", "--no-confirm-exit"], user_ns=dict(names))
    else:
        python = f"Python {sys.version.partition(' ')[0]}"
        code.interact(f"{python}\n{banner}", local=dict(names), exitmsg="")
    return 0
