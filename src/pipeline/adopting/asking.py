"""A process that loads an ini as a server does, asks it for pages, and says what it found: what a Pyramid
application has included, and each answer.

``python -m pipeline.adopting.asking JOB ANSWERS``: two files in JSON. Each ini has a process of its own, so that
both can open the same databases, one after the other.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from paste.deploy import loadapp

from pipeline.loading.asking import answer_of, request_of
from pipeline.loading.command_line import make_importable, parse_variables, split_name
from pipeline.paste import load
from pipeline.staging.asked import Tags
from pipeline.telling.words import written

PACKAGES = ("pyramid_retry", "zope.sqlalchemy")
"""Modules that an application imports if it uses them."""


def main(job: str, answers: str) -> None:
    """Do what a file says, and write down what was found."""
    told = json.loads(Path(job).read_text("utf-8"))
    path, name = split_name(told["ini"])
    make_importable(path)
    variables = parse_variables(told["words"])
    if told["is_ours"]:
        app = load(f"config:{path}", name, **variables)
    else:
        app = loadapp(f"config:{path}", name, global_conf=variables)
    cookies: SimpleCookie = SimpleCookie("; ".join(told["cookies"]))
    asked = []
    for one in told["requests"]:
        if one.get("is_new_visitor"):
            cookies.clear()
        if one["method"] == "POST":
            one = with_hidden_fields(one, ask(app, one | {"method": "GET", "data": []}, cookies)["body"])
        asked.append(ask(app, one, cookies) | {"data": one["data"]})
    found = {"asked": asked, "pyramid": dict(of_pyramid()), "cookies": list(pairs_of(cookies))}
    Path(answers).write_text(json.dumps(found), "utf-8")


def ask(app: Any, asked: dict[str, Any], cookies: SimpleCookie) -> dict[str, Any]:
    """Return the answer to one request: status, headers, body, time. An exception that reaches the server is one.

    cookies  those of earlier answers, as a browser keeps them
    """
    environ = request_of(asked["method"], asked["path"], asked["headers"], asked["data"])
    if given := [*filter(None, [environ.get("HTTP_COOKIE")]), *pairs_of(cookies)]:
        environ["HTTP_COOKIE"] = "; ".join(given)
    status, headers, body, error = answer_of(app, environ)
    if error is not None:
        return {"status": f"{type(error).__name__}: {error}", "headers": [], "body": ""}
    for name, value in headers:
        if name.lower() == "set-cookie":
            with suppress(CookieError):  # its name has a sign that only browsers take
                cookies.load(value)
    return {"status": status, "headers": headers, "body": body.decode("latin-1"), "time": time.time()}


def with_hidden_fields(asked: dict[str, Any], page: str) -> dict[str, Any]:
    """Return a POST of a form with the hidden fields of its page, as a browser sends them."""
    if not asked["data"] or asked["data"][0].startswith(("@", "{", "[")):
        return asked
    given = dict(parse_qsl(asked["data"][0], keep_blank_values=True))
    return asked | {"data": [urlencode(Tags(page.encode("latin-1")).hidden() | given)]}


def pairs_of(cookies: SimpleCookie) -> Iterator[str]:
    """Yield cookies as a request has them."""
    for name, one in cookies.items():
        yield f"{name}={one.coded_value}"


def of_pyramid() -> Iterator[tuple[str, Any]]:
    """Yield what the Pyramid applications of this process have included, and how it is set."""
    config = sys.modules.get("pyramid.config")
    registries = list(config.global_registries) if config is not None else []
    for registry in registries[:1] if len(registries) == 1 else ():
        interfaces = sys.modules["pyramid.interfaces"]
        tweens = registry.queryUtility(interfaces.ITweens)
        settings = registry.settings
        yield "tweens", [str(name) for name, _ in tweens.implicit()] if tweens is not None else []
        yield "databases", sorted(getattr(registry, "_zodb_databases", {}))
        yield "has_manager_hook", bool(settings.get("tm.manager_hook"))
        yield "commit_veto", written(settings.get("tm.commit_veto") or "")
        yield "modules", [name for name in PACKAGES if name in sys.modules]


if __name__ == "__main__":
    main(*sys.argv[1:])
