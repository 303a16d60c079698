"""A ``Pipeline(...)`` built in Python by a file outside of the package, the third way of use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

APPLICATION = '''\
"""A site of one greeting per name."""

from pipeline import Pipeline, Request, Response, element, view
from pipeline.elements.errors import errors
from pipeline.elements.log import log
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher


class Greetings:
    def __getitem__(self, name: str) -> "Greeting":
        return Greeting(name)


class Greeting:
    def __init__(self, name: str) -> None:
        self.name = name


@view(context=Greeting)
def greet(context: Greeting, request: Request) -> str:
    return f"Hello {context.name}"


@element()
def signed(next, *, name: str = "nobody"):
    def signed(request: Request, response: Response) -> None:
        next(request, response)
        response.headers["X-Signed"] = name

    return signed


application = Pipeline(
    log(),
    signed(name="a file"),
    errors(),
    traverse(root=lambda request: Greetings()),
    publisher(scan=(__name__,)),
)

if __name__ == "__main__":
    import sys

    import waitress

    waitress.serve(application, host="127.0.0.1", port=int(sys.argv[1]))
'''


def test_a_pipeline_built_in_a_file_of_ones_own(
    start: Callable[..., Any], get: Callable[..., Any], free_port: int, tmp_path: Path
) -> None:
    program = tmp_path / "greetings.py"
    program.write_text(APPLICATION)
    server = start([sys.executable, program, str(free_port)], free_port)

    answer = get(f"http://127.0.0.1:{free_port}/World")
    assert (answer.status, answer.text) == (200, "Hello World")
    assert answer.headers["X-Signed"] == "a file"
    assert get(f"http://127.0.0.1:{free_port}/World/x").status == 404
    assert "Traceback" not in server.said()
