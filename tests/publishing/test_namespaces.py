"""Traversal namespaces, default steps, steps that hooks add, request types, and the null resource."""

from __future__ import annotations

import xmlrpc.client
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transaction.interfaces import TransientError
from webob import Request as Sent
from zope.interface import Interface, implementer

from pipeline import Pipeline, element, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.traverse import traverse
from pipeline.interfaces import (
    PUBLIC,
    IDefaultSteps,
    IEtc,
    IJSONRequest,
    INamespace,
    INullResource,
    IPublishTraverse,
    IRequest,
    IXMLRPCRequest,
)
from pipeline.publisher import publisher
from pipeline.publishing.namespaces import skin
from pipeline.views import adapter, utility


class Note:
    def __init__(self, text: str) -> None:
        self.text = text


class Folder(dict[str, Any]):
    published_attributes = ("cover", "kind", "method", "missing")
    cover = Note("a cover")
    kind = Note
    secret = Note("secret")

    def method(self) -> None: ...


class Careless(dict[str, Any]):
    """Publishes one attribute, but says it as if it were many."""

    published_attributes = "secret"
    secret = s = Note("secret")


class Start(dict[str, Any]):
    """Has a default step."""


class IPlainSkin(IRequest):
    """A skin."""


skin(IPlainSkin, "plain")
skin(IPlainSkin, "größe")


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


@view(context=Folder, name="of_a_browser", methods=("POST",), permission=PUBLIC)
def of_a_browser(context: Folder, request: Any, response: Any) -> str:
    raise AssertionError("reached")


@view(context=Folder, name="joined", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
class Joined:
    def __init__(self, context: Folder, request: Any) -> None:
        self.context = context

    def __call__(self, words: list[str], record: dict[str, Any], by: str = "-") -> str:
        return by.join((*words, *record))


@view(context=Folder, name="odd", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def odd(context: Folder, request: Any) -> object:
    return object()


@view(context=Note, name="late", request_type=IPlainSkin)
def late(context: Note, request: Any) -> str:
    if request.attempt < 3:
        raise TransientError
    return f"{request.attempt} {request.application_url} {request.accept_language}"


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
    "pipeline.publishing.namespaces",
    "pipeline.publishing.json",
    "pipeline.publishing.xmlrpc",
)


@pytest.fixture
def root() -> Folder:
    made = Folder(note=Note("hello"), method=Note("item"), list=[Note("in a list")], start=Start())
    made["start"]["welcome"] = Note("welcome")
    made["code"] = Folder
    made["careless"] = Careless()
    return made


def pipeline(root: Any, request_type: Any = None) -> Pipeline:
    return Pipeline(errors(), traverse(root=lambda: root, request_type=request_type), publisher(scan=SCAN))


XMLRPC = pipeline(Folder(), IXMLRPCRequest)


def ask(app: Any, path: str, **options: Any) -> tuple[int, str]:
    answer = Sent.blank(path, **options).get_response(app)
    return answer.status_int, answer.text


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/++skin++plain/note", 200, "plain hello http://localhost/++skin++plain"),
        ("/++skin++gr%C3%B6%C3%9Fe/note", 200, "plain hello http://localhost/++skin++gr%C3%B6%C3%9Fe"),
        ("/++skin++none/note", 404, None),
        ("/++skin++plain/++skin++plain/note", 400, None),  # S16
        ("/++lang++de/", 200, None),
        ("/++lang++zh-Hant-TW/", 200, None),
        ("/++lang++<b>/", 404, None),
        ("/++lang++/", 404, None),
        ("/++lang++de,en/", 404, None),
        ("/++lang++de/++lang++en/", 400, None),
        ("/++item++note", 200, "hello"),
        ("/++item++method", 200, "item"),
        ("/start/++item++welcome", 200, "welcome"),
        ("/++item++nothing", 404, None),
        ("/++item++", 404, None),
        ("/++item++list/++item++0", 400, None),
        ("/note/++item++text", 404, None),
        ("/list/++item++0", 404, None),
        ("/++attribute++cover", 200, "a cover"),
        ("/++attribute++secret", 404, None),  # S4
        ("/++attribute++method", 404, None),  # S1, though it is listed
        ("/++attribute++kind", 404, None),
        ("/++attribute++missing", 404, None),
        ("/++attribute++__class__", 404, None),
        ("/++attribute++published_attributes", 404, None),
        ("/++attribute++", 404, None),
        ("/++attribute++cover/++attribute++cover", 400, None),
        ("/cover", 404, None),
        ("/note/++attribute++text", 404, None),
        ("/careless/++attribute++secret", 404, None),
        ("/careless/++attribute++s", 404, None),
        ("/++etc++about", 200, "about"),
        ("/note/++etc++about", 200, "about"),
        ("/++etc++process", 404, None),
        ("/++etc++", 404, None),
        ("/++etc++about/++etc++about", 400, None),
        ("/++resource++nothing/style.css", 404, None),  # more in test_resources
        ("/++vh++http:evil.example:80/++/note", 404, None),  # S9; more in test_vhost
        ("/VirtualHostBase/http/evil.example:80/VirtualHostRoot/note", 404, None),
        ("/++debug++traceback/note", 404, None),  # S17
        ("/++upper++shout", 200, "SHOUT"),
        ("/++upper++a/++upper++b", 400, None),
        ("/++nobody++shout", 404, None),
        ("/++view++nothing", 404, None),
        ("/++view++of_a_browser", 405, None),
        ("/++view++_x", 404, None),
        ("/++++note", 404, None),
        ("/+note", 404, None),
        ("/++note", 404, None),
        ("/%2B%2Bitem%2B%2Bnote", 200, "hello"),
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


def test_every_attempt_enters_them_anew(root: Folder) -> None:
    """R2: the path and the types of the request are those of the first attempt again."""
    app = Pipeline(retry(delay=0), errors(), traverse(root=lambda: root), publisher(scan=SCAN))
    status, text = ask(app, "/++skin++plain/++lang++de/note/@@late")
    assert (status, text) == (200, "3 http://localhost/++skin++plain/++lang++de de")


def test_debug_flags(root: Folder) -> None:
    """S17: for whom the request is in debug mode, and nobody else."""

    @element(outside={"traverse": "the mode is asked for there"})
    def developing(next: Any) -> Any:
        def developing(request: Any, response: Any) -> None:
            request.debug = "developer" in request.GET
            next(request, response)
            response.headers["X-Flags"] = " ".join(request.debug_flags)

        return developing

    app = Pipeline(errors(), developing(), traverse(root=lambda: root), publisher(scan=SCAN))
    answer = Sent.blank("/++debug++timing/note?developer").get_response(app)
    assert (answer.text, answer.headers["X-Flags"]) == ("hello", "timing")
    assert ask(app, "/++debug++timing/note")[0] == 404
    assert ask(app, "/++debug++a/++debug++b/note?developer")[0] == 400  # S16


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


class Shelf:
    """Has no items: a traverser makes them."""


class Closed(Start):
    """Its default step is a view, though an item has that name."""


@adapter(Shelf, IPublishTraverse)
class Books:
    kind = "book"

    def __init__(self, shelf: Shelf) -> None: ...

    def publishTraverse(self, request: Any, name: str) -> Note:
        return Note(f"{self.kind} {name}")


@adapter(Shelf, IPublishTraverse, request_type=IJSONRequest)
class Records(Books):
    kind = "record"


@adapter(Closed, IDefaultSteps)
class ToTheSign:
    def __init__(self, closed: Closed) -> None: ...

    def default_steps(self, request: Any) -> tuple[str, ...]:
        return ("@@sign",)


@view(context=Closed, name="sign")
def sign(closed: Closed, request: Any) -> str:
    return "closed"


@pytest.mark.parametrize(
    ("request_type", "text"),
    [(None, "book 7"), (IPlainSkin, "plain book 7 http://localhost"), (IJSONRequest, '{"text":"record 7"}')],
)
def test_a_traverser_may_be_for_a_type_of_requests(root: Folder, request_type: Any, text: str) -> None:
    root["shelf"] = Shelf()
    assert ask(pipeline(root, request_type), "/shelf/7") == (200, text)


def test_a_default_step_may_be_marked_as_a_view(root: Folder) -> None:
    root["closed"] = Closed(sign=Note("an item"))
    assert ask(pipeline(root), "/closed/") == (200, "closed")


def test_json_that_contains_itself_is_an_error_of_the_view(root: Folder) -> None:
    inner: list[Any] = []
    inner.append({"inner": inner})
    root["note"] = Note(inner)  # type: ignore[arg-type]
    assert ask(pipeline(root, IJSONRequest), "/note")[0] == 500


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.5, {"a": float("-inf")}]])
def test_json_has_no_number_that_no_reader_reads(root: Folder, value: Any, caplog: Any) -> None:
    root["note"] = Note(value)
    assert ask(pipeline(root, IJSONRequest), "/note")[0] == 500
    assert "the value at the result['text']" in caplog.text


def test_json_requests(root: Folder) -> None:
    app = pipeline(root, IJSONRequest)
    assert ask(app, "/note") == (200, '{"text":"hello"}')
    assert ask(app, "/") == (200, '["careless","code","list","method","note","start"]')


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
    assert call(app, "titles", 3) == ["careless", "code", "list"]
    root["sub"] = Folder(a=1, b=2)
    assert call(app, "sub.titles", 1) == ["a"]
    assert call(app, "joined", ["a", "b"], {"c": 1}) == "a-b-c"
    assert call(app, "joined", ["a"], {}, "+") == "a"


@pytest.mark.parametrize(
    ("method", "parameters", "code"),
    [
        ("nothing", (), 404),
        ("titles", (), 400),
        ("titles", (1, 2), 400),
        ("titles", ("x",), 400),
        ("titles", ([1],), 400),
        ("hidden", (), 403),
        ("_private.titles", (1,), 404),
        ("note.text.upper", (), 404),
        ("keys", (), 404),  # S2: a method of the object is no view
        ("of_a_browser", (1,), 404),  # S20
        ("code.titles", (1,), 404),  # S1
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
        "<!DOCTYPE a><methodCall><methodName>titles</methodName></methodCall>".encode("utf-16"),
        b"<?xml version='1.0' encoding='cp037'?>" + "<!DOCTYPE a><methodCall/>".encode("cp037"),
        b"<?xml version='1.0' encoding='none'?><methodCall><methodName>titles</methodName></methodCall>",
        b"<methodResponse><fault><value><string>x</string></value></fault></methodResponse>",
        b"<methodCall><methodName>titles</methodName><params><param><value><base64>x</base64></value></param>"
        b"</params></methodCall>",
        b"<value><array><data>" * 2000,
        b"<methodCall><methodName>titles</methodName><params><param><value><bigdecimal>x</bigdecimal></value>"
        b"</param></params></methodCall>",
        b"<methodCall><methodName>titles</methodName><params><param><value><int>x</int></value></param>"
        b"</params></methodCall>",
        *(
            xmlrpc.client.dumps((0,), "told").replace("<int>0</int>", value).encode()
            for value in ("<int>1_0</int>", "<i4>2147483648</i4>", "<x:i8>2147483648</x:i8>", "<double>1_</double>")
        ),
        b"\xff\xfe",
        b"<methodCall><methodName>joined</methodName><params><param><value><array><data/></array></value></param><param>"
        b"<value><struct><member><name>a</name><value>1</value></member><member><name>a</name><value>2</value></member>"
        b"</struct></value></param></params></methodCall>",
    ],
)
def test_xmlrpc_refuses_what_is_no_call(root: Folder, body: bytes) -> None:
    sent = Sent.blank("/", method="POST", body=body, content_type="text/xml")
    assert sent.get_response(pipeline(root, IXMLRPCRequest)).status_int == 400


_tags = st.sampled_from(
    [
        *("methodCall", "methodName", "params", "param", "value", "int", "i8", "string", "boolean", "double", "x"),
        *("dateTime.iso8601", "base64", "array", "data", "struct", "member", "name", "nil", "fault", "bigdecimal"),
    ]
)
_xml = st.recursive(
    st.sampled_from(["", "1", "x", "true", "titles", "sub.titles", "20261120T00:00:00", "&amp;", "&b;"]),
    lambda inner: st.tuples(_tags, st.lists(inner, max_size=4)).map(lambda e: f"<{e[0]}>{''.join(e[1])}</{e[0]}>"),
)


@given(_xml, st.booleans())
@settings(max_examples=150)
def test_whatever_is_sent_as_a_call(text: str, is_call: bool) -> None:
    """No input is a 500."""
    if is_call:
        text = f"<methodCall><methodName>titles</methodName><params>{text}</params></methodCall>"
    sent = Sent.blank("/", method="POST", body=text.encode(), content_type="text/xml")
    assert sent.get_response(XMLRPC).status_int in (200, 400)


def test_xmlrpc_is_limited(root: Folder) -> None:
    """S15."""
    sent = Sent.blank("/", method="POST", body=b"<" * (1024 * 1024 + 1), content_type="text/xml")
    assert sent.get_response(pipeline(root, IXMLRPCRequest)).status_int == 413


def test_what_xml_has_no_characters_for_is_replaced(root: Folder) -> None:
    root["a\0b\ud800\U0001f600\f"] = Note("x")
    assert call(pipeline(root, IXMLRPCRequest), "titles", 1) == ["a\ufffdb\ufffd\U0001f600\ufffd"]


def test_a_result_that_xmlrpc_cannot_say_is_an_error(root: Folder) -> None:
    sent = Sent.blank("/", method="POST", body=xmlrpc.client.dumps((), "odd").encode())
    assert sent.get_response(pipeline(root, IXMLRPCRequest)).status_int == 500


@view(context=Folder, name="told", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def told(context: Folder, request: Any, value: Any) -> Any:
    return context[value] if value in ("account",) else value


def test_a_text_comes_back_with_its_line_ends(root: Folder) -> None:
    """A parser of XML makes a line feed of each CR that is not written as a reference (XML 1.0 section 2.11)."""
    text = "a\r\nb\rc\nd"
    sent = xmlrpc.client.dumps(({"name": [text]},), "told").replace("\r", "&#13;")
    answer = Sent.blank("/", method="POST", body=sent.encode()).get_response(pipeline(root, IXMLRPCRequest))
    assert xmlrpc.client.loads(answer.body)[0][0] == {"name": [text]}
    assert ElementTree.fromstring(answer.body).find(".//string").text == text  # type: ignore[union-attr]


def test_the_attributes_of_an_object_are_not_published__S4(root: Folder) -> None:
    root["account"] = account = Note("x")
    account._password = "the hash of a password"  # type: ignore[attr-defined]
    sent = xmlrpc.client.dumps(("account",), "told")
    answer = Sent.blank("/", method="POST", body=sent.encode()).get_response(pipeline(root, IXMLRPCRequest))
    assert answer.status_int == 500 and b"password" not in answer.body


@pytest.mark.parametrize(("zone", "status"), [("", 200), ("Z", 500), ("+02:00", 500)])
def test_a_time_does_not_lose_its_zone(root: Folder, zone: str, status: int) -> None:
    """A call has any form of ISO 8601, and an answer the one of XML-RPC, which has no zone."""
    time = f"<dateTime.iso8601>2026-01-31T12:00:00{zone}</dateTime.iso8601>"
    sent = xmlrpc.client.dumps(([0],), "told").replace("<int>0</int>", time)
    answer = Sent.blank("/", method="POST", body=sent.encode()).get_response(pipeline(root, IXMLRPCRequest))
    assert answer.status_int == status


@pytest.mark.parametrize("value", [True, -1, 0.5, "x", b"x", None, datetime(2026, 1, 31, 12), (1, [2]), {"a": {}}])
def test_the_values_of_xmlrpc_come_back(root: Folder, value: Any) -> None:
    sent = xmlrpc.client.dumps((value,), "told", allow_none=True)
    answer = Sent.blank("/", method="POST", body=sent.encode()).get_response(pipeline(root, IXMLRPCRequest))
    wanted = [1, [2]] if isinstance(value, tuple) else value
    assert xmlrpc.client.loads(answer.body, use_builtin_types=True)[0][0] == wanted


@pytest.mark.parametrize("inserted", ["", " ", "\n", "\r\n\t", "=", "-", "!", "\u00e9", "==="])
def test_bytes_come_as_they_were_sent_or_not_at_all__R11(root: Folder, inserted: str) -> None:
    """RFC 4648, section 3.3: characters outside of the alphabet are refused. Lines may be broken."""
    app, encoded = pipeline(root, IXMLRPCRequest), "aGVsbG8gd29ybGQ="
    for place in range(len(encoded) + 1):
        text = f"{encoded[:place]}{inserted}{encoded[place:]}"
        sent = xmlrpc.client.dumps((0,), "told").replace("<int>0</int>", f"<base64>{text}</base64>")
        answer = Sent.blank("/", method="POST", body=sent.encode()).get_response(app)
        if inserted.strip():
            assert answer.status_int == 400, text
        else:
            assert xmlrpc.client.loads(answer.body, use_builtin_types=True)[0][0] == b"hello world"


@pytest.mark.parametrize("number", ["nan", "inf", "-1e999"])
def test_a_number_that_is_none_is_refused(root: Folder, number: str) -> None:
    sent = xmlrpc.client.dumps(([{"a": 0.5}],), "told").replace("0.5", number)
    answer = Sent.blank("/", method="POST", body=sent.encode()).get_response(pipeline(root, IXMLRPCRequest))
    assert answer.status_int == 400


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
