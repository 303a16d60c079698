"""Bodies: the first line is the content type, the rest the body (S15). ``|`` stands for CRLF, as the fuzzer
would otherwise be busy with finding it."""

from __future__ import annotations

from fuzz.target import Environ, environ, run, site

TYPE = b"multipart/form-data; boundary=x"


SEEDS = (
    b'\n--x|Content-Disposition: form-data; name="a:int"||1|--x--|',
    b'\n--x|Content-Disposition: form-data; name=f; filename="\\"a\\""|Content-Type: text/plain||1|--x--|',
    TYPE + b"; charset=latin-1\n--x|Content-Disposition: form-data; name=_charset_||gbk|--x|--x--",
    b'multipart/form-data; boundary="y"; charset=utf-8\n--y|Content-Length: 1|--y--',
    b'application/json\n{"a": [1, "\\ud834\\udd1e", null]}',
    b"application/x-www-form-urlencoded; charset=gbk\na=%81%40&b:list=1",
)


def make(data: bytes) -> Environ:
    kind, _, body = data.partition(b"\n")
    return environ(body=body.replace(b"|", b"\r\n"), CONTENT_TYPE=(kind or TYPE).decode("latin-1"))


def plain(length: int) -> bytes:
    return b"\n--x|Content-Disposition: form-data; name=a||" + b"a" * length + b"|--x--"


if __name__ == "__main__":
    run(site(), make, plain, SEEDS)
