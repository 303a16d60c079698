"""The suites that run this pipeline and its peers in one process: a page, out of a database, one more element."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from bench import contenders, database
from bench.budgets import PYRAMID
from bench.contenders import Count
from bench.measure import Contender, Figure, Result, Table, compare, environ, flat


def inprocess(rounds: int = 200, seconds: float = 0.01, names: tuple[str, ...] = ()) -> Result:
    """A page three segments deep, without a database."""
    made = [
        contenders.contender(name, make) for name, make in contenders.PEERS.items() if not names or name in names
    ]
    figures = compare(made, rounds, seconds)
    return {"page": flat("A page three segments deep, without a database", figures, "pipeline")}


def zodb(rounds: int = 200, seconds: float = 0.01, with_zope: bool = True, with_write: bool = True) -> Result:
    """The same out of an object database; and a write of one object."""
    readers = {"pipeline": database.ours, PYRAMID: database.pyramid}
    if with_zope:
        readers["Zope"] = contenders.zope
    figures = compare([database.read(name, make) for name, make in readers.items()], rounds, seconds)
    tables = {"read": flat("A page three segments deep, out of a ZODB", figures, "pipeline")}
    if with_write:
        writers = {"pipeline": database.ours, PYRAMID: database.pyramid}
        figures = compare([database.write(name, make) for name, make in writers.items()], rounds, seconds)
        tables["write"] = flat("One object written, and committed to the disk", figures, "pipeline")
    return tables


NUMBERS = (0, 1, 5, 20, 50)


def elements(rounds: int = 200, seconds: float = 0.01, numbers: tuple[int, ...] = NUMBERS) -> Result:
    """The cost of one more element, middleware, or tween that does nothing."""
    kinds: dict[str, Callable[[int, Count], Any]] = {"elements": noop_elements, "middlewares": _middlewares}
    if numbers == NUMBERS:
        kinds["tweens"] = _tweens
    made = []
    for kind, make in kinds.items():
        for number in numbers:
            count = Count()
            made.append(Contender(f"{number} {kind}", make(number, count), environ("/a/b/c"), ran=count))
    figures = compare(made, rounds, seconds)
    rows = {
        kind: {
            **{str(number): figures[f"{number} {kind}"] for number in numbers},
            "one more": Figure.one_more(
                figures[f"{numbers[-1]} {kind}"], figures[f"{numbers[0]} {kind}"], numbers[-1] - numbers[0]
            ),
        }
        for kind in kinds
    }
    return {"elements": Table("So many elements, middlewares or tweens that do nothing", "µs", rows)}


def noop_elements(number: int, count: Count) -> Any:
    from pipeline import Pipeline, element

    def noop(number: int) -> Any:
        def noop(next: Any) -> Any:
            def noop(request: Any, response: Any) -> None:
                next(request, response)

            return noop

        noop.__name__ = f"noop{number}"
        return element(noop)

    return Pipeline(*map(noop, range(number)), contenders.bare(count))


def _middlewares(number: int, count: Count) -> Any:
    """A middleware that does nothing but what one must do that is to see status and headers."""

    def noop(app: Any) -> Any:
        def noop(environ: Any, start_response: Any) -> Any:
            def start(status: str, headers: Any, exc_info: Any = None) -> Any:
                return start_response(status, headers, exc_info)

            return app(environ, start)

        return noop

    app = contenders.bare(count)
    for _ in range(number):
        app = noop(app)
    return app


def _tweens(number: int, count: Count) -> Any:
    from pyramid.config import Configurator
    from pyramid.response import Response

    root = contenders.tree()
    config = Configurator(root_factory=lambda request: root)

    def page(context: Any, request: Any) -> Any:
        count.ran += 1
        return Response("hello")

    config.add_view(page, context=contenders.Page)
    module = sys.modules[__name__]
    for index in range(number):

        def tween(handler: Any, registry: Any) -> Any:
            def noop(request: Any) -> Any:
                return handler(request)

            return noop

        setattr(module, f"tween{index}", tween)
        config.add_tween(f"{__name__}.tween{index}")
    return config.make_wsgi_app()
