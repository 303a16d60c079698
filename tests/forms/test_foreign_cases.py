"""Forms and cookies in the tests of python-multipart, werkzeug and Django are read as these read them, or refused.

Where an answer differs otherwise, docs/howto/forms.rst says why. The packages come from the index, tests included.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from webob import Request as Asked

from environments import make_environment
from pipeline import Pipeline, view
from pipeline.cookies import cookies_by_name
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher

pytestmark = pytest.mark.slow
SOURCES = (
    "5c/0f/9c55ac6c84c0336e22a26fa84ca6c51d58d7ac3a2d78b0dfa8748826c883/python_multipart-0.0.9.tar.gz",
    "7e/c0/c753d487a83d873f6946cee6cbc26cea3fe59a476ad0de99a14938a2fbd8/python_multipart-0.0.34.tar.gz",
    "a4/34/4dd12fc8bb7d61c91467ec3efe415ffa7d5456f799954b40c5bbaeae470e/werkzeug-3.1.9.tar.gz",
    "02/29/a487a108caa76430c8b616aa90a6d09cf431306112c14093e6f0a7454e17/django-5.2.19.tar.gz",
)
PACKAGES = ("werkzeug==3.1.9", "django==5.2.19")
PACKAGES += ("pytest", "pytest-timeout", "ephemeral-port-reserve", "cryptography")
OF_WERKZEUG = tuple(f"tests/test_{name}.py" for name in ("formparser", "http", "wrappers", "test"))
OF_DJANGO = ("requests_tests", "file_uploads", "httpwrappers", "test_client", "test_client_regress")
LIMITS = {"RequestDataTooBig", "TooManyFieldsSent", "TooManyFilesSent", "CustomUploadError", "ValueError"}
"""Errors of a limit or an upload handler that a test of Django has set."""
REASONS = (
    "the name of a file is what was sent, without a directory",
    "a file with content and without a name is a file",
    "a form in JSON has its members as fields",
    "a form may name another charset than UTF-8",
    "one header of a part may have 4,096 bytes",
    "a body with the last boundary alone is a form without fields",
)
"""Why an answer of ours has something else than that of another framework. The page says so."""
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
GOT: list[Any] = []


class Root(dict[str, Any]):
    """The context of the view."""


@view(context=Root, methods=("POST",))
def page(context: Root, request: Any) -> str:
    for name, value in request.POST.items():
        GOT.append([name, value if isinstance(value, str) else [value.filename, encoded(value.file.read())]])
    return "got"


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the packages, unpacked."""
    directory = tmp_path_factory.mktemp("sources")
    for source in SOURCES:
        with urlopen(f"https://files.pythonhosted.org/packages/{source}", timeout=60) as answer:
            packed = directory / source.rpartition("/")[2]
            packed.write_bytes(answer.read())
        with tarfile.open(packed) as tar:
            tar.extractall(directory, filter="data")
    return directory


@pytest.fixture(scope="module")
def noted(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """What werkzeug and Django have read in their own tests."""
    here = Path(__file__).parent
    python = make_environment(tmp_path_factory.mktemp("foreign") / "venv", *PACKAGES)
    werkzeug, django = sources / "werkzeug-3.1.9", sources / "django-5.2.19" / "tests"
    runs = {
        "werkzeug": (werkzeug, ["-m", "pytest", "-q", "-p", "record_forms", *OF_WERKZEUG]),
        "django": (django, [str(here / "record_forms.py"), *OF_DJANGO]),
    }
    found = []
    for name, (directory, words) in runs.items():
        notes = sources / f"{name}.notes"
        environ = {**os.environ, "RECORDED": str(notes), "PYTHONPATH": str(here)}
        run = subprocess.run([python, *words], cwd=directory, env=environ, capture_output=True, check=False)
        assert notes.exists(), run.stdout + run.stderr
        found += [[name, *json.loads(line)] for line in notes.read_text().splitlines()]
    return found


def of_python_multipart(sources: Path) -> Iterator[tuple[str, bytes, list[Any], str | None]]:
    """Yield type, body, fields and error of the cases of python-multipart."""
    import yaml  # not every environment has it

    for told in sorted(sources.glob("python_multipart-*/tests/test_data/http/*.yaml")):
        case = yaml.safe_load(told.read_text())
        boundary, expected = case["boundary"], case["expected"]
        kind = f'multipart/form-data; boundary="{boundary if isinstance(boundary, str) else boundary.decode()}"'
        fields: list[Any] = []
        for field in expected if isinstance(expected, list) else ():
            raw = field["data"] if isinstance(field["data"], bytes) else field["data"].encode()
            is_file = field["type"] == "file"
            fields.append([field["name"], [field["file_name"], encoded(raw)] if is_file else raw.decode("latin-1")])
        yield kind, told.with_suffix(".http").read_bytes(), fields, None if fields else "error"


def difference(kind: str, body: bytes, fields: list[Any], error: str | None) -> str:
    """Return "" if a form is read as expected or refused, a reason of REASONS, or what is wrong."""
    asked = Asked.blank("/", method="POST", body=body)
    asked.environ["CONTENT_TYPE"] = kind
    GOT.clear()
    answer = asked.get_response(Pipeline(errors(), forms(), traverse(root=Root), publisher(scan=(__name__,))))
    if answer.status_int in (400, 413, 415) and not GOT:
        return ""
    if not GOT and body.strip() == kind.partition("boundary=")[2].strip('"').join(["--", "--"]).encode():
        return REASONS[5]
    files = [value for _, value in GOT if isinstance(value, list)]
    if answer.status_int != 200:
        return f"{answer.status}: {kind} {body[:300]!r}"
    if error in LIMITS or (not error and sorted(map(repr, GOT)) == sorted(map(repr, fields))):
        return ""
    if kind == "application/json" and not fields:
        return REASONS[2]
    if error == "BadRequest" and "charset=" in kind:
        return REASONS[3]
    if error == "MultiPartParserError" and b"X-Long-Header" in body:
        return REASONS[4]
    if any(not name for name, _ in files) and not error:
        return REASONS[1]
    their_files = [value for _, value in fields if isinstance(value, list)]
    contents = sorted(content for _, content in files)
    if not error and files and (not fields or contents == sorted(content for _, content in their_files)):
        return REASONS[0]  # or an upload handler has taken the file
    return f"{GOT!r:.300} in place of {fields!r:.300} {error}: {kind} {body[:300]!r}"


def test_the_forms_of_others(sources: Path, noted: list[list[Any]]) -> None:
    cases = list(of_python_multipart(sources))
    cases += [(one[2], base64.b64decode(one[3]), one[4], one[5]) for one in noted if one[1] == "form"]
    assert len(cases) > 180
    found = [difference(*case) for case in cases]
    assert [one for one in found if one and one not in REASONS] == []
    assert set(found) - {""} == set(REASONS)
    page = (Path(__file__).parents[2] / "docs" / "howto" / "forms.rst").read_text()
    assert [reason for reason in REASONS if reason not in " ".join(page.split())] == []


def test_the_cookies_of_others(noted: list[list[Any]]) -> None:
    headers = [(one[2], one[3]) for one in noted if one[1] == "cookies" and one[3]]
    assert len(headers) > 20
    for header, pairs in headers:
        ours = cookies_by_name({"HTTP_COOKIE": header.encode().decode("latin-1")})
        plain = [(name, value) for name, value in pairs if ";" not in value and f"{name}=" in header]
        named = [(name, value) for name, value in plain if NAME.fullmatch(name)]
        assert [name for name, _ in named if (name, ours.get(name)) not in named] == [], header
