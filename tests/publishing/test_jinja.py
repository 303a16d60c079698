"""Pages by templates: where they are found, what they may do, and how their errors are told."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from chameleon import PageTemplate
from zope.interface import implementer
from zope.interface.verify import verifyObject

from asking import ask
from pipeline import Pipeline, Request, Response, render, view
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.interfaces import IResult
from pipeline.publisher import publisher
from pipeline.publishing.jinja import environment, places
from pipeline.telling.words import line_of_the_site
from pipeline.views import adapter

VIEWS = """
from pipeline import render, view
from pipeline.elements.traverse import traverse

class Root(dict): pass

class Broken(Exception): pass

def fail():
    raise Broken("in Python")

@view(context=Root)
def index(context, request):
    return render("index.html", title="<Tea> & more", names=["a", "b"])

@view(context=Root, name="named")
def named(context, request, response):
    response.content_type = "text/plain"
    return render(request.params["template"], fail=fail)

@view(context=Root, name="stored")
def stored(context, request, response):
    response.status = 201
    return render("beside.html")

@view(context=Broken)
def broken(context, request, response):
    return render("beside.html")
"""
FILES = {
    "__init__.py": "",
    "pages/__init__.py": "",
    "pages/views.py": VIEWS,
    "templates/base.html": "<title>{% block title %}{% endblock %}</title>{{ request.path }}",
    "templates/outer.html": "outer",
    "templates/both.html": "outer",
    "pages/templates/index.html": (
        "{% extends 'base.html' %}\n"
        "{% block title %}{{ title }}{% for name in names %} {{ name }}{% endfor %}{% endblock %}"
    ),
    "pages/templates/both.html": "inner",
    "pages/templates/undefined.html": "one\ntwo\n{{ nothing }}\n",
    "pages/templates/raising.html": "one\n{{ fail() }}\n",
    "pages/templates/wrong.html": "one\ntwo\n{% fi %}\n",
    "pages/beside.html": "beside",
    "secret.txt": "secret",
}
_numbers = itertools.count()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a package with templates."""
    name = f"site_with_templates_{next(_numbers)}"
    for file, text in FILES.items():
        path = tmp_path / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


@pytest.fixture
def app(package: str) -> Any:
    root = import_module(f"{package}.pages.views").Root
    return Pipeline(errors(), traverse(root=root), publisher(scan=(package,)))


def test_a_page(app: Any) -> None:
    answer = ask(app, "/")
    assert answer.text == "<title>&lt;Tea&gt; &amp; more a b</title>/", "escaped, with the request"
    assert answer.content_type == "text/html"


@pytest.mark.parametrize(
    ("template", "text"), [("beside.html", "beside"), ("outer.html", "outer"), ("both.html", "inner")]
)
def test_where_templates_are_found(app: Any, template: str, text: str) -> None:
    answer = ask(app, f"/named?template={template}")
    assert (answer.text, answer.content_type) == (text, "text/plain")


def test_the_status_of_the_view_stays(app: Any) -> None:
    assert ask(app, "/stored").status == 201


def test_an_error_view_may_return_one(app: Any) -> None:
    answer = ask(app, "/named?template=raising.html")
    assert (answer.status, answer.text) == (500, "beside")


@pytest.mark.parametrize(
    "name", ["../secret.txt", "../../secret.txt", "/etc/passwd", "..\\secret.txt", "views.pyc"]
)
def test_a_name_does_not_climb__S14(app: Any, name: str) -> None:
    assert ask(app, f"/named?template={name}").status == 500


@pytest.mark.parametrize(
    ("template", "line", "message"),
    [
        ("undefined.html", 3, "UndefinedError: 'nothing' is undefined"),
        ("wrong.html", 3, "TemplateSyntaxError: Encountered unknown tag 'fi'"),
    ],
)
def test_an_error_tells_the_file_and_the_line(
    app: Any, package: str, caplog: pytest.LogCaptureFixture, template: str, line: int, message: str
) -> None:
    assert ask(app, f"/named?template={template}").status == 500
    [record] = caplog.records
    assert f'{package}/pages/templates/{template}", line {line}' in str(record.exc_text)
    assert message in str(record.exc_text)


def test_a_missing_template_tells_where_it_was_looked_for(app: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert ask(app, "/named?template=none.html").status == 500
    assert "'none.html' not found in search paths:" in caplog.text
    assert "pages/templates" in caplog.text


def test_explain_names_the_line_of_the_template(package: str) -> None:
    """``pipeline explain`` and the page of debug mode ask this function."""
    views = import_module(f"{package}.pages.views")
    for template, expected in [
        ("undefined.html", "pages/templates/undefined.html, line 3"),
        ("raising.html", "pages/views.py, line 10"),
        ("wrong.html", "pages/templates/wrong.html, line 3"),
    ]:
        request = Request.blank(f"/?template={template}")
        with pytest.raises(Exception) as raised:
            views.named(None, request, Response())(request, None)
        assert line_of_the_site(raised.value).endswith(f"{package}/{expected}")


def test_a_package_adds_filters(app: Any, package: str) -> None:
    environment(f"{package}.pages.views").filters["shout"] = str.upper
    assert environment(f"{package}.pages").filters["shout"]("a") == "A", "modules of one place share it"
    assert "shout" not in environment(package).filters


def test_places_of_a_module_without_a_file() -> None:
    assert list(places("sys")) == []


def test_a_result_tells_what_it_is() -> None:
    result = render("page.html", template="a value of this name")
    assert repr(result) == f"render('page.html') of {__name__}"
    assert result.values == {"template": "a value of this name"}
    assert verifyObject(IResult, result)


def test_without_jinja_the_message_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['jinja2'] = None\nfrom pipeline import render\n"
        "try:\n    render('x.html')(None, None)\nexcept ModuleNotFoundError as error:\n    print(error)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == (
        "render() needs jinja2. Install it: pip install 'wsgi-pipeline[jinja]'\n",
        "",
    )


# Another template language is another result


class Chameleon:
    """A page by Chameleon, in the same way."""

    def __init__(self, template: str, **values: Any) -> None:
        self.template = template
        self.values = values


@adapter(Chameleon, IResult)
@implementer(IResult)
class ByChameleon:
    def __init__(self, page: Chameleon) -> None:
        self.page = page

    def __call__(self, request: Any, response: Any) -> str:
        text: str = PageTemplate(self.page.template)(request=request, **self.page.values)
        return text


class Shelf:
    """A root."""


@view(context=Shelf)
def by_chameleon(context: Shelf, request: Request) -> Chameleon:
    return Chameleon("<p>${title} at ${request.path}</p>", title="<Tea>")


def test_another_template_language() -> None:
    app = Pipeline(errors(), traverse(root=Shelf), publisher(scan=(__name__,)))
    assert ask(app, "/").text == "<p>&lt;Tea&gt; at /</p>"
