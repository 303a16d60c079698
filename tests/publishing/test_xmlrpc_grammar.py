"""A call of XML-RPC is read as it was sent, or refused: nothing in it is left out without a word (R11)."""

from __future__ import annotations

import xmlrpc.client
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webob.exc import HTTPBadRequest

from asking import ask
from pipeline import Pipeline, Request, view
from pipeline.elements.errors import errors
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.interfaces import IXMLRPCRequest
from pipeline.publisher import publisher


class Root(dict[str, Any]):
    """The root of the site."""


@view(context=Root, name="echo", methods=("POST",), request_type=IXMLRPCRequest)
def echo(context: Root, request: Request, value: Any = None, more: Any = None) -> list[Any]:
    return [value, more]


@view(context=Root, name="stores", methods=("POST",), request_type=IXMLRPCRequest)
def stores(context: Root, request: Request) -> None:
    request.tm.commit()
    raise HTTPBadRequest("It is stored, and the rest is not valid.")


app = Pipeline(
    errors(), transaction(), traverse(root=Root, request_type=IXMLRPCRequest),
    publisher(scan=(__name__, "pipeline.publishing.xmlrpc")),
)  # fmt: skip


def called(body: str | bytes) -> Any:
    """Return the result of a call; the status if it was refused."""
    body = body if isinstance(body, bytes) else body.encode()
    answer = ask(app, "/", "POST", body, CONTENT_TYPE="text/xml")
    return xmlrpc.client.loads(answer.body)[0][0] if answer.status_int == 200 else answer.status_int


def call_of(value: str) -> str:
    params = f"<params><param>{value}</param></params>"
    return f"<methodCall>\n <methodName>echo</methodName>\n {params}</methodCall>"


GOOD = {
    "<value>tea</value>": "tea",
    "<value></value>": "",
    "<value> </value>": " ",
    "<value><string> a\n</string></value>": " a\n",
    "<value>\n <int>7</int>\n</value>": 7,
    "<value><boolean>1</boolean></value>": True,
    "<value><nil/></value>": None,
    "<value><ex:i8>7</ex:i8></value>": 7,
    "<value><array><data>\n<value>a</value><value><int>1</int></value></data></array></value>": ["a", 1],
    "<value><array><data/></array></value>": [],
    "<value><struct> <member> <name> a</name><value/></member></struct></value>": {" a": ""},
    "<value><struct/></value>": {},
}
BAD = [
    "<value>3<int>4</int></value>",
    "<value><int>4</int>3</value>",
    "<value><int>4</int><int>5</int></value>",
    "<value><int>4</int><string/></value>",
    "<value><int>4<b>5</b></int></value>",
    "<value><nil>4</nil></value>",
    "<value><boolean>2</boolean></value>",
    "<value><what>4</what></value>",
    "<int>1</int>",
    "text<value>1</value>",
    "<value><array>x<data/></array></value>",
    "<value><array><data>x</data></array></value>",
    "<value><array><data><int>1</int></data></array></value>",
    "<value><struct>x</struct></value>",
    "<value><struct><member><name>a</name></member></struct></value>",
    "<value><struct><member><name>a</name><value>1</value><value>2</value></member></struct></value>",
    "<value><struct><member><name>a<i>b</i></name><value>1</value></member></struct></value>",
    "<value><struct><member>x<name>a</name><value>1</value></member></struct></value>",
    "<value><struct>" + "<member><name>a</name><value>1</value></member>" * 2 + "</struct></value>",
]


@pytest.mark.parametrize("value", GOOD)
def test_a_value_is_read(value: str) -> None:
    assert called(call_of(value)) == [GOOD[value], None]


@pytest.mark.parametrize("value", BAD)
def test_what_no_value_is_is_refused(value: str) -> None:
    """Text and elements that have no place were left out, or were taken for a further parameter."""
    assert called(call_of(value)) == 400


@pytest.mark.parametrize(
    "body",
    [
        "<methodCall>echo</methodCall>",
        "<methodCall/>",
        "<methodCall><methodName/></methodCall>",
        "<methodCall><methodName>echo</methodName><params/>x</methodCall>",
    ],
)
def test_what_no_call_is_is_refused(body: str) -> None:
    assert called(body) == 400


def test_a_method_without_parameters_needs_no_params() -> None:
    assert called("<methodCall><methodName>echo</methodName></methodCall>") == [None, None]


@pytest.mark.parametrize(("depth", "is_read"), [(100, True), (101, False)])
def test_the_depth_has_a_limit(depth: int, is_read: bool) -> None:
    value = "<value><array><data>" * depth + "</data></array></value>" * depth
    assert (called(call_of(value)) != 400) is is_read


plain = st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.text("ab <&]é\n\t") | st.binary()
values = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text("ab. &"), inner))


@given(values)
def test_whatever_the_standard_library_writes_is_read(value: Any) -> None:
    [read, _] = called(xmlrpc.client.dumps((value,), "echo", allow_none=True))
    assert without_binary(read) == value


def without_binary(value: Any) -> Any:
    """Return a value with bytes in the place of the wrapper of the standard library."""
    if isinstance(value, xmlrpc.client.Binary):
        return value.data
    if isinstance(value, dict):
        return {name: without_binary(one) for name, one in value.items()}
    return [without_binary(one) for one in value] if isinstance(value, list) else value


def test_a_method_that_has_committed_by_itself_tells_its_fault() -> None:
    """It was a 500: the transaction that was to be taken back had ended."""
    with pytest.raises(xmlrpc.client.Fault, match="It is stored"):
        called(xmlrpc.client.dumps((), "stores"))
