"""Notes what werkzeug or Django reads in its own tests: a plugin of pytest, or run in place of Django's runtests.

RECORDED names the file. It gets a line of JSON for each form ("form", type, body, fields, error) and each Cookie
header ("cookies", header, pairs).
"""

from __future__ import annotations

import base64
import json
import os
import sys
from io import BytesIO
from typing import Any


def note(kind: str, body: bytes, found: list[Any], error: Exception | None = None) -> None:
    fields = [[name, value if isinstance(value, str) else [value[0], encoded(value[1])]] for name, value in found]
    with open(os.environ["RECORDED"], "a") as notes:
        print(json.dumps(["form", kind, encoded(body), fields, error and type(error).__name__]), file=notes)


def note_cookies(header: str, found: list[Any]) -> None:
    with open(os.environ["RECORDED"], "a") as notes:
        print(json.dumps(["cookies", header, found]), file=notes)


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def content_of(file: Any) -> bytes:
    file.seek(0)
    content: bytes = file.read()
    file.seek(0)
    return content


def note_werkzeug() -> None:
    import werkzeug.sansio.http
    from werkzeug.formparser import FormDataParser
    from werkzeug.http import dump_options_header

    parse = FormDataParser.parse

    def noting(self: Any, stream: Any, mimetype: str, content_length: Any, options: Any = None) -> Any:
        body = stream.read()
        kind = dump_options_header(mimetype, options or {})
        try:
            answer = parse(self, BytesIO(body), mimetype, content_length, options)
        except Exception as error:
            note(kind, body, [], error)
            raise
        files = [(name, (file.filename, content_of(file.stream))) for name, file in answer[2].items(multi=True)]
        note(kind, body, [*answer[1].items(multi=True), *files])
        return answer

    FormDataParser.parse = noting
    parse_cookie = werkzeug.sansio.http.parse_cookie

    def noting_cookies(cookie: Any = None, *more: Any, **options: Any) -> Any:
        found = parse_cookie(cookie, *more, **options)
        if isinstance(cookie, str):
            note_cookies(cookie, list(found.items(multi=True)))
        return found

    werkzeug.sansio.http.parse_cookie = noting_cookies


def note_django() -> None:
    import django.core.handlers.wsgi
    import django.http.cookie
    from django.core.handlers.wsgi import WSGIRequest
    from django.http.request import HttpRequest

    load = HttpRequest._load_post_and_files

    def noting(self: Any) -> None:
        if self.method != "POST" or getattr(self, "_read_started", False) or not hasattr(self, "_stream"):
            return load(self)
        body = self._stream.read()
        self._stream = BytesIO(body)
        kind = self.META.get("CONTENT_TYPE", "")
        try:
            load(self)
        except Exception as error:
            note(kind, body, [], error)
            raise
        found = [(name, value) for name, values in self._post.lists() for value in values]
        for name, files in self._files.lists():
            found += [(name, (file.name, content_of(file))) for file in files if not file.closed]
        note(kind, body, found)

    HttpRequest._load_post_and_files = WSGIRequest._load_post_and_files = noting
    parse_cookie = django.http.cookie.parse_cookie

    def noting_cookies(cookie: str) -> Any:
        found = parse_cookie(cookie)
        note_cookies(cookie, list(found.items()))
        return found

    django.http.cookie.parse_cookie = django.http.parse_cookie = noting_cookies
    django.core.handlers.wsgi.parse_cookie = noting_cookies


note_django() if "django" in os.environ["RECORDED"] else note_werkzeug()

if __name__ == "__main__":  # in the directory of Django's tests: record_forms.py NAME...
    import runpy

    sys.path[:0] = ["."]
    sys.argv[:1] = ["runtests.py", "--parallel=1"]
    runpy.run_path("runtests.py", run_name="__main__")
