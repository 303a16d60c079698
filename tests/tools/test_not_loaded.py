"""The page of a site that does not load: it waits for the mending, and never takes all threads."""

from __future__ import annotations

import json
import threading
from html import escape
from typing import Any

import pytest
from webob import Request

from pipeline import Pipeline
from pipeline.http import debug_key
from pipeline.interfaces import OrderError
from pipeline.serving import not_loaded
from pipeline.serving.not_loaded import HELD, mistake

KEY = "k" * 40


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    monkeypatch.setattr(debug_key, "_key", KEY)
    monkeypatch.setattr(not_loaded, "PAUSE", 0.01)
    return threading.Event()


def begin(app: Any, **more: Any) -> tuple[dict[str, str], Any]:
    """Ask as a browser with the key does. Return the headers and the body, which is not read."""
    headers: list[tuple[str, str]] = []
    asked = {"HTTP_COOKIE": f"{debug_key.COOKIE}={KEY}", "HTTP_ACCEPT": "text/html", **more}
    body = app({**Request.blank("/").environ, **asked}, lambda status, given, exc_info=None: headers.extend(given))
    return dict(headers), body


def test_the_page_ends_when_the_server_stops(stopping: threading.Event) -> None:
    headers, body = begin(Pipeline(mistake(error=ValueError("a mistake"), stopping=stopping)))
    assert headers["Refresh"] == "0" and "Content-Length" not in headers
    blocks = iter(body)
    assert b"a mistake" in next(blocks)
    rest: list[list[bytes]] = []
    reading = threading.Thread(target=lambda: rest.append(list(blocks)))
    reading.start()
    reading.join(0.1)
    assert reading.is_alive()
    stopping.set()
    reading.join(10)
    assert rest == [[]]
    body.close()


def test_the_page_ends_when_its_visitor_is_gone(stopping: threading.Event) -> None:
    gone = {"waitress.client_disconnected": lambda: True}
    body = begin(Pipeline(mistake(error=ValueError("a mistake"), stopping=stopping)), **gone)[1]
    assert len(list(body)) == 1
    body.close()


ORDER = (
    "c must be outside a: it is so. The order as written, outermost first: a b c end. "
    "An order that works: c a b end"
)
DRAWN = """\
  The order as written      An order that works

  a                       * c
  b                         a
* c                         b
  end                       end
"""


def of_the_site() -> Exception:
    """Return a mistake that came up below lines of a library."""
    names: dict[str, Any] = {}
    exec(compile("import json\ndef hook(pairs): 1 / 0", "/srv/site/models.py", "exec"), names)
    try:
        json.loads("{}", object_hook=names["hook"])
    except ZeroDivisionError as error:
        assert error.__traceback__ is not None
        return error.with_traceback(error.__traceback__.tb_next)  # without the line of this test
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "said", "not_said"),
    [
        (OrderError(ORDER), ("<p>c must be outside a: it is so.</p>", escape(DRAWN.rstrip())), "Traceback"),
        (SyntaxError("invalid", ("/srv/v.py", 3, 1, "def (", 3, 2)), ("v.py, line 3", "def ("), "Traceback"),
        (of_the_site(), ("models.py&quot;, line 2, in hook", "ZeroDivisionError"), "json"),
    ],
)
def test_the_page_shows_the_mistake_and_not_the_way_to_it(
    stopping: threading.Event, error: Exception, said: tuple[str, ...], not_said: str
) -> None:
    stopping.set()
    page = b"".join(begin(Pipeline(mistake(error=error, stopping=stopping)))[1]).decode()
    assert "<h1>The site does not load</h1>" in page
    for text in said:
        assert text in page
    assert not_said not in page


@pytest.mark.parametrize(
    "asked", [{"HTTP_COOKIE": ""}, {"HTTP_ACCEPT": "*/*"}, {"REQUEST_METHOD": "HEAD"}, {"REQUEST_METHOD": "POST"}]
)
def test_only_a_page_of_the_developer_waits(stopping: threading.Event, asked: dict[str, str]) -> None:
    headers, body = begin(Pipeline(mistake(error=ValueError("a mistake"), stopping=stopping)), **asked)
    assert type(body) is list and headers["Refresh"] == "1"


def test_there_is_always_a_thread_for_a_further_page(stopping: threading.Event) -> None:
    app = Pipeline(mistake(error=ValueError("a mistake"), stopping=stopping))
    held = [begin(app)[1] for _ in range(HELD)]
    assert type(begin(app)[1]) is list
    held.pop().close()
    assert type(begin(app)[1]) is not list
    for body in held:
        body.close()
