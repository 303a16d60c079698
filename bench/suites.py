"""The suites that run in one process. Each prints a table and returns its figures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from bench import contenders, database
from bench.measure import Contender, Figure, compare, environ


def table(title: str, figures: dict[str, Figure], base: str) -> None:
    """Print figures, fastest first, with the ratio to ``base``."""
    print(f"\n{title}\n{'':28} {'least µs':>9} {'median':>9} {'ratio':>7}")
    for figure in sorted(figures.values(), key=lambda figure: figure.least):
        ratio = figure.least / figures[base].least
        print(f"{figure.name:28} {figure.least:9.2f} {figure.median:9.2f} {ratio:7.2f}")
    sys.stdout.flush()


def inprocess(rounds: int, seconds: float, names: tuple[str, ...] = ()) -> dict[str, Figure]:
    """A page three segments deep, without a database."""
    made = [
        contenders.contender(name, make)
        for name, make in contenders.PEERS.items()
        if not names or name in names
    ]
    figures = compare(made, rounds, seconds)
    table("A page three segments deep, no database", figures, "pipeline")
    return figures


def zodb(rounds: int, seconds: float, with_zope: bool = True) -> dict[str, Figure]:
    """The same out of an object database; and a write of one object."""
    made = [
        database.read("pipeline, read", database.ours),
        database.read("Pyramid + tm + retry + zodbconn, read", database.pyramid),
    ]
    if with_zope:
        made.append(database.read("Zope, read", contenders.zope))
    figures = compare(made, rounds, seconds)
    table("A page three segments deep, out of a ZODB", figures, "pipeline, read")
    writes = compare(
        [
            database.write("pipeline, write", database.ours),
            database.write("Pyramid + tm + retry + zodbconn, write", database.pyramid),
        ],
        max(3, rounds // 3),
        seconds,
    )
    table("One object written and committed", writes, "pipeline, write")
    return figures | writes


NUMBERS = (0, 1, 5, 20, 50)


def elements(rounds: int, seconds: float) -> dict[str, Figure]:
    """The cost of one more element, middleware, or tween that does nothing."""
    made = [
        Contender(f"{count} {kind}", make(count), environ("/a/b/c"))
        for kind, make in (("elements", _elements), ("middlewares", _middlewares), ("tweens", _tweens))
        for count in NUMBERS
    ]
    figures = compare(made, rounds, seconds)
    for kind in ("elements", "middlewares", "tweens"):
        figures[f"one more of {kind}"] = Figure(
            f"one more of {kind}",
            [
                (many - none) / NUMBERS[-1]
                for many, none in zip(
                    figures[f"{NUMBERS[-1]} {kind}"].rounds, figures[f"0 {kind}"].rounds, strict=True
                )
            ],
        )
    table("Elements, middlewares and tweens that do nothing", figures, "one more of elements")
    return figures


def _elements(count: int) -> Any:
    from pipeline import Pipeline, element

    def noop(number: int) -> Any:
        def noop(next: Any) -> Any:
            def noop(request: Any, response: Any) -> None:
                next(request, response)

            return noop

        noop.__name__ = f"noop{number}"
        return element(noop)

    return Pipeline(*(noop(number) for number in range(count)), contenders.bare(contenders.Count()))


def _middlewares(count: int) -> Any:
    """A middleware that does nothing but what one must do that is to see status and headers."""

    def noop(app: Any) -> Any:
        def noop(environ: Any, start_response: Any) -> Any:
            def start(status: str, headers: Any, exc_info: Any = None) -> Any:
                return start_response(status, headers, exc_info)

            return app(environ, start)

        return noop

    app = contenders.bare(contenders.Count())
    for _ in range(count):
        app = noop(app)
    return app


def _tweens(count: int) -> Any:
    from pyramid.config import Configurator
    from pyramid.response import Response

    config = Configurator(root_factory=lambda request: TREE)
    TREE = contenders.tree()
    config.add_view(lambda context, request: Response("hello"), context=contenders.Page)
    module = sys.modules[__name__]
    for number in range(count):

        def tween(handler: Any, registry: Any) -> Any:
            def noop(request: Any) -> Any:
                return handler(request)

            return noop

        setattr(module, f"tween{number}", tween)
        config.add_tween(f"{__name__}.tween{number}")
    return config.make_wsgi_app()


SUITES: dict[str, Callable[..., dict[str, Figure]]] = {
    "inprocess": inprocess,
    "zodb": zodb,
    "elements": elements,
}
