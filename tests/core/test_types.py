"""Mistakes that type checkers find: mypy, with our configuration, and pyright, which editors use.

No type checker sees which elements stand around a view, since a publisher finds its views by a scan. A view with a
class of requests that no element adds is refused at load: ``test_typed.py``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

TOP = Path(__file__).resolve().parents[2]

CODE = '''
from typing import Any
from pipeline.answering import answer_at_edge
from pipeline import Pipeline, Request, Response, element, view
from pipeline.composition import Element
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.session import SessionRequest
from pipeline.elements.sql import SqlRequest
from pipeline.http.bodies import check_body
from pipeline.http.error_pages import put_error
from pipeline.interfaces import Handler
from pipeline.publisher import publisher


class Shop:
    name = "tea"


class ShopRequest(SqlRequest):
    root: Shop


class NobodyRequest(Request):
    nobody_adds: int = 0


@view(context=Shop)
def accepted_by_type_checkers(context: Shop, request: NobodyRequest) -> str:
    return f"{request.nobody_adds}"


@element(requires=("context",))
def counting(next: Handler, *, start: int = 0) -> Handler:
    """Count."""
    return next


@element
def ending(*, text: str = "") -> Handler:
    """End."""
    raise NotImplementedError


def right(request: ShopRequest, response: Response, app: Any) -> None:
    one: Element = compress(level=3, minimum=0)
    shop: Pipeline = errors()(counting(start=3)(ending(text="x")))
    Pipeline(errors(), one, counting(), publisher(scan=("shop",)), ending())
    compress(app)
    compress({"here": "/"}, level="3")
    first: str = request.GET["a"]
    name: str = request.root.name
    request.sql.flush()


def wrong(request: ShopRequest, response: Response) -> None:
    compress(levl=3)  # wrong
    compress(level="three")  # wrong
    counting(strat=3)  # wrong
    ending(txt="")  # wrong
    publisher(scn=())  # wrong
    put_error(response, 42)  # wrong
    answer_at_edge(request, 42, ValueError())  # wrong
    check_body(response)  # wrong
    request.sql.no_such_method()  # wrong
    request.root.no_such_name  # wrong
    request.flash("x")  # wrong
'''


@pytest.fixture
def code(tmp_path: Path) -> Path:
    file = tmp_path / "mistakes.py"
    file.write_text(CODE)
    return file


def judged(command: list[str], file: Path) -> set[int]:
    """The lines in which a type checker finds an error."""
    ran = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False, timeout=300)
    return {int(line) for line in re.findall(rf"{file.name}:(\d+)(?::\d+)?(?: -)?:? error", ran.stdout)}


WRONG = {number for number, line in enumerate(CODE.splitlines(), 1) if line.endswith("# wrong")}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_mypy_finds_them(code: Path) -> None:
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(TOP / "pyproject.toml")]
    assert judged([*mypy, str(code)], code) == WRONG


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_pyright_finds_them(code: Path, missing: Callable[[str, str], NoReturn]) -> None:
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        missing("pyright", "pip install 'pyright[nodejs]'")
    assert judged([pyright, "--pythonpath", sys.executable, str(code)], code) == WRONG


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_wrong_call_of_a_late_import_is_found_in_its_module(tmp_path: Path) -> None:
    """The edge imports these functions when it first needs them, and mypy sees them all the same."""
    source = TOP / "src" / "pipeline" / "edge.py"
    calls = ["check_body(42)", "answer_at_edge(42, 42, 42)", "stream(42, 42, 42)", "InnerBody(42, 42)"]
    text = source.read_text()
    copy = tmp_path / "edge_with_mistakes.py"
    copy.write_text(text + "".join(f"\n{call}" for call in calls) + "\n")
    first = text.count("\n") + 2
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(TOP / "pyproject.toml"), str(copy)]
    assert judged(mypy, copy) == set(range(first, first + len(calls)))
