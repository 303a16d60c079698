"""Traversal namespaces, default steps, steps that hooks add, request types, and the null resource."""

from __future__ import annotations

import xmlrpc.client
from typing import Any

import pytest
from webob import Request as Sent
from zope.interface import Interface, implementer

from pipeline import Pipeline, element, view
from pipeline.auth.policy import PUBLIC
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.interfaces import (
    IDefaultSteps,
    IEtc,
    IJSONRequest,
    INamespace,
    INullResource,
    IRequest,
    IXMLRPCRequest,
)
from pipeline.namespaces import skin
from pipeline.publisher import publisher
from pipeline.views import adapter, utility


class Folder(dict[str, Any]):
    published_attributes = ("title",)
    title = None
    secret = "x"

    def method(self) -> None: ...


class Note:
    def __init__(self, text: str) -> None:
        self.text = text


class Start(dict[str, Any]):
    """Has a default step."""


class IPlainSkin(IRequest):
    """A skin."""


skin(IPlainSkin, "plain")


@view(context=Folder)
def folder(context: Folder, request: Any) -> str:
    return f"folder {sorted(context)} {request.absolute_url(context)} {request.accept_language}"


@view(context=Note)
def note(context: Note, request: Any) -> str:
    return context.text


@view(context=Note, request_type=IPlainSkin)
def plain_note(context: Note, request: Any) -> str:
    return f"plain {context.text} {request.application_url}"


@view(context=Note, request_type=IJSONRequest)
def json_note(context: Note, request: Any) -> Any:
    return {"text": context.text}


@view(context=Folder, request_type=IJSONRequest)
def json_folder(context: Folder, request: Any) -> Any:
    return sorted(context)


@view(context=Folder, name="titles", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def titles(context: Folder, request: Any, limit: int) -> list[str]:
    return sorted(context)[:limit]


@view(context=Folder, name="hidden", methods=("POST",), request_type=IXMLRPCRequest, permission="manage")
def hidden(context: Folder, request: Any) -> str:
    raise AssertionError("reached")


@view(context=Folder, name="odd", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def odd(context: Folder, request: Any) -> object:
    return object()


@adapter(Start, IDefaultSteps)
@implementer(IDefaultSteps)
class Front:
    def __init__(self, context: Start) -> None: ...

    def default_steps(self, request: Any) -> tuple[str, ...]:
        return ("welcome",)


@utility(IEtc, name="about")
class About(Note):
    def __init__(self) -> None:
        super().__init__("about")


@adapter(Interface, INamespace, name="upper")
@implementer(INamespace)
class Upper:
    def __init__(self, context: Any) -> None: ...

    def step(self, request: Any, name: str) -> Note:
        return Note(name.upper())


@adapter(Folder, INullResource)
class NewNote:
    __name__ = ""

    def __init__(self, container: Folder) -> None:
        self.container = container


@view(context=NewNote, methods=("PUT",), permission=PUBLIC)
def put_new(context: NewNote, request: Any, response: Any) -> str:
    context.container[context.__name__] = Note(request.body.decode())
    response.status = 201
    return context.__name__


@view(context=Note, methods=("PUT", "DELETE"), permission=PUBLIC)
def put_note(context: Note, request: Any, response: Any) -> None:
    context.text = request.body.decode()
    response.status = 204


ROOT = Folder()
SCAN = (
    __name__,
    "pipeline.namespaces",
    "pipeline.json_results",
    "pipeline.xmlrpc",
)


@pytest.fixture
def root() -> Folder:
    made = Folder(note=Note("hello"), method=Note("item"), list=[Note("in a list")], start=Start())
    made["start"]["welcome"] = Note("welcome")
    return made


def pipeline(root: Any, request_type: Any = None) -> Pipeline:
    return Pipeline(errors(), traverse(root=lambda: root, request_type=request_type), publisher(scan=SCAN))


def ask(app: Any, path: str, **options: Any) -> tuple[int, str]:
    answer = Sent.blank(path, **options).get_response(app)
    return answer.status_int, answer.text


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/++skin++plain/note", 200, "plain hello http://localhost/++skin++plain"),
        ("/++skin++none/note", 404, None),
        ("/++skin++plain/++skin++plain/note", 400, None),  # S16
        ("/++lang++de/", 200, None),
        ("/++lang++<b>/", 404, None),
        ("/++item++note", 200, "hello"),
        ("/++item++nothing", 404, None),
        ("/note/++item++text", 404, None),
        ("/list/++item++0", 404, None),
        ("/++attribute++secret", 404, None),  # S4
        ("/++attribute++method", 404, None),
        ("/++attribute++__class__", 404, None),
        ("/++etc++about", 200, "about"),
        ("/++etc++process", 404, None),
        ("/++debug++traceback/note", 404, None),  # S17
        ("/++upper++shout", 200, "SHOUT"),
        ("/++nobody++shout", 404, None),
        ("/++view++nothing", 404, None),
        ("/note/++view++", 200, "hello"),
        ("/note/@@", 200, "hello"),
        ("/start", 200, "welcome"),
        ("/start/", 200, "welcome"),
        ("/start/welcome", 200, "welcome"),
        ("/++++", 404, None),
        ("/++skin++", 404, None),
    ],
)
def test_namespaces(root: Folder, path: str, status: int, text: str | None) -> None:
    answer = ask(pipeline(root), path)
    assert answer[0] == status, answer
    if text is not None:
        assert answer[1] == text


def test_the_language_and_the_skin_stay_in_urls(root: Folder) -> None:
    status, text = ask(pipeline(root), "/++lang++de/")
    assert status == 200
    assert "http://localhost/++lang++de/" in text and text.endswith(" de")


def test_a_slash_is_added_behind_a_namespace(root: Folder) -> None:
    root["sub"] = Folder()
    answer = Sent.blank("/++lang++de/sub").get_response(pipeline(root))
    assert (answer.status_int, answer.headers["Location"]) == (302, "/++lang++de/sub/")


def test_hooks_add_steps(root: Folder) -> None:
    """A hook may lead on to further objects before the rest of the path is walked."""

    def lead(request: Any, obj: Any) -> None:
        if obj is root:
            request.add_steps("inner")

    @element(outside={"traverse": "the hook must be there first"})
    def leading(next: Any) -> Any:
        def leading(request: Any, response: Any) -> None:
            request.add_traversal_hook(lead)
            next(request, response)

        return leading

    root["outer"] = {"inner": Note("by the hook")}
    app = Pipeline(leading(), traverse(root=lambda: root), publisher(scan=SCAN))
    root["inner"] = Folder(note=Note("inside"))
    assert ask(app, "/note") == (200, "inside")


def test_json_requests(root: Folder) -> None:
    app = pipeline(root, IJSONRequest)
    assert ask(app, "/note") == (200, '{"text":"hello"}')
    assert ask(app, "/") == (200, '["list","method","note","start"]')


def test_a_request_type_must_extend_the_request() -> None:
    from pipeline.interfaces import ConfigurationError

    with pytest.raises(ConfigurationError, match="does not extend IRequest"):
        pipeline({}, INamespace)


def call(app: Any, method: str, *parameters: Any) -> Any:
    body = xmlrpc.client.dumps(parameters, method)
    sent = Sent.blank("/", method="POST", body=body.encode(), content_type="text/xml")
    answer = sent.get_response(app)
    assert answer.status_int == 200, answer.text
    return xmlrpc.client.loads(answer.body)[0][0]


def test_xmlrpc(root: Folder) -> None:
    app = pipeline(root, IXMLRPCRequest)
    assert call(app, "titles", 2) == ["list", "method"]
    root["sub"] = Folder(a=1, b=2)
    assert call(app, "sub.titles", 1) == ["a"]


@pytest.mark.parametrize(
    ("method", "parameters", "code"),
    [
        ("nothing", (), 404),
        ("titles", (), 400),
        ("titles", (1, 2), 400),
        ("hidden", (), 403),
        ("_private.titles", (1,), 404),
        ("note.text.upper", (), 404),
        ("keys", (), 404),  # S2: a method of the object is no view
        ("__class__", (), 404),
        ("", (), 404),
    ],
)
def test_xmlrpc_faults(root: Folder, method: str, parameters: tuple[Any, ...], code: int) -> None:
    with pytest.raises(xmlrpc.client.Fault) as caught:
        call(pipeline(root, IXMLRPCRequest), method or ".", *parameters)
    assert caught.value.faultCode == code


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<",
        b"<a/>",
        b"<methodCall></methodCall>",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><methodCall><methodName>&b;</methodName></methodCall>",
        b"<methodCall><methodName>titles</methodName><params><param><value><int>x</int></value></param>"
        b"</params></methodCall>",
        b"\xff\xfe",
    ],
)
def test_xmlrpc_refuses_what_is_no_call(root: Folder, body: bytes) -> None:
    sent = Sent.blank("/", method="POST", body=body, content_type="text/xml")
    assert sent.get_response(pipeline(root, IXMLRPCRequest)).status_int == 400


def test_xmlrpc_is_limited(root: Folder) -> None:
    """S15."""
    sent = Sent.blank("/", method="POST", body=b"<" * (1024 * 1024 + 1), content_type="text/xml")
    assert sent.get_response(pipeline(root, IXMLRPCRequest)).status_int == 413


def test_a_result_that_xmlrpc_cannot_say_is_an_error(root: Folder) -> None:
    sent = Sent.blank("/", method="POST", body=xmlrpc.client.dumps((), "odd").encode())
    assert sent.get_response(pipeline(root, IXMLRPCRequest)).status_int == 500


def test_without_xmlrpc_nothing_answers_it(root: Folder) -> None:
    """S20."""
    app = Pipeline(errors(), traverse(root=lambda: root), publisher(scan=(__name__,)))
    sent = Sent.blank("/", method="POST", body=xmlrpc.client.dumps((1,), "titles").encode())
    assert sent.get_response(app).status_int == 405


def test_put_makes_what_is_not_there(root: Folder) -> None:
    app = pipeline(root)
    assert ask(app, "/new", method="PUT", body=b"text") == (201, "new")
    assert ask(app, "/new") == (200, "text")
    assert ask(app, "/new", method="PUT", body=b"other")[0] == 204
    assert ask(app, "/new") == (200, "other")
    assert ask(app, "/none/new", method="PUT", body=b"text")[0] == 404
    assert ask(app, "/start/new", method="PUT", body=b"text")[0] == 404
    assert ask(app, "/_new", method="PUT", body=b"text")[0] == 404  # S3


def test_put_asks_the_policy() -> None:
    """The null resource is published like anything else: by a view that declares its permission (S2)."""

    class Closed(Folder):
        pass

    root = Closed()
    app = Pipeline(
        errors(),
        authenticate(check=lambda request, login, password: None, undeclared="deny"),
        traverse(root=lambda: root),
        publisher(scan=(__name__,)),
    )
    assert ask(app, "/new", method="PUT", body=b"text")[0] == 201
    assert ask(app, "/new", method="GET")[0] == 401
