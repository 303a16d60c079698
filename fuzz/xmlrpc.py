"""Calls by XML-RPC. A byte above 127 stands for one of ``PIECES``, as the fuzzer would otherwise be busy with
finding them.

An answer with status 200 is a result or a fault that a client can read. A fault is not answered 500.
"""

from __future__ import annotations

import xmlrpc.client
from xml.parsers.expat import ExpatError

from fuzz.target import Broken, Environ, environ, judged, run, site
from pipeline.interfaces import IXMLRPCRequest

PIECES = (
    *(b"<methodCall>", b"</methodCall>", b"<methodName>", b"</methodName>", b"<params>", b"</params>"),
    *(b"<param>", b"</param>", b"<value>", b"</value>", b"<array><data>", b"</data></array>"),
    *(b"<struct>", b"</struct>", b"<member>", b"</member>", b"<name>", b"</name>"),
    *(b"<int>", b"</int>", b"<i8>", b"</i8>", b"<double>", b"</double>", b"<boolean>", b"</boolean>"),
    *(b"<string>", b"</string>", b"<base64>", b"</base64>", b"<dateTime.iso8601>", b"</dateTime.iso8601>"),
    *(b"echo", b"a.b.", b"<nil/>", b"&#0;", b"&#xd800;", b"&lt;", b"<![CDATA[", b"]]>"),
    *(b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"<?xml version='1.0' encoding='utf-16'?>", b"++item++"),
    *(b"20240101T00:00:00", b"1e400", b"99999999999"),
)


def pieces(*texts: bytes) -> bytes:
    """Return the bytes that stand for these pieces; what is not a piece stands for itself."""
    return b"".join(bytes([128 + PIECES.index(text)]) if text in PIECES else text for text in texts)


def call(method: bytes, *parameters: bytes) -> bytes:
    """Return a call; the method and the parameters are pieces already."""
    values = [pieces(b"<param>", b"<value>", one, b"</value>", b"</param>") for one in parameters]
    head = pieces(b"<methodCall>", b"<methodName>", method, b"</methodName>", b"<params>")
    return b"".join((head, *values, pieces(b"</params>", b"</methodCall>")))


MEMBER = (b"<member>", b"<name>", b"a", b"</name>", b"<value>", b"</value>", b"</member>")
SEEDS = (
    call(b"echo", pieces(b"<int>", b"1", b"</int>"), pieces(b"<int>", b"2", b"</int>")),
    call(b"a.b.echo", pieces(b"<array><data>", b"<value>", b"x", b"</value>", b"</data></array>")),
    call(b"echo", pieces(b"<struct>", *MEMBER, b"</struct>")),
    call(b"echo", pieces(b"<base64>", b"YQ==", b"</base64>")),
    call(b"echo", pieces(b"<dateTime.iso8601>", b"20240101T00:00:00", b"</dateTime.iso8601>")),
    call(b"echo", pieces(b"<double>", b"1e400", b"</double>"), b"<nil/>"),
    pieces(b"<!DOCTYPE a [<!ENTITY b 'c'>]>") + call(b"echo", b"&b;"),
    call(b"_x", b"&#xd800;"),
)


def judge(environ: Environ, status: str, headers: dict[str, str], body: bytes) -> None:
    if status[:3] == "200":
        if headers["Content-Type"] != "text/xml; charset=UTF-8":
            raise Broken("this was not a call")
        try:
            xmlrpc.client.loads(body)
        except xmlrpc.client.Fault as fault:
            if not 400 <= fault.faultCode < 500:
                raise Broken(f"the fault {fault.faultCode}") from None
        except (ExpatError, xmlrpc.client.Error, ValueError) as error:
            raise Broken(f"a client cannot read {body!r}") from error


def make(data: bytes) -> Environ:
    body = b"".join([PIECES[byte - 128] if 0 <= byte - 128 < len(PIECES) else bytes([byte]) for byte in data])
    return environ("/", body, CONTENT_TYPE="text/xml", REQUEST_METHOD="POST")


if __name__ == "__main__":
    run(judged(site(request_type=IXMLRPCRequest), judge), make, lambda length: call(b"echo", b"a" * length), SEEDS)
