"""Bodies that are not in memory, on their way to the server."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from pipeline.http.error_pages import log_failure
from pipeline.http.files import BLOCK, FileBody, SentFile
from pipeline.http.redirects import check_redirect
from pipeline.request import Request, close
from pipeline.response import Response, check_headers


class InnerBody:
    """A streamed body as the foreign middleware around an inner pipeline sees it.

    The middleware must close it (PEP 3333), and so must the request. Only the first of the two calls counts (R7).
    """

    def __init__(self, request: Request, body: Any) -> None:
        self.request = request
        self.closer = getattr(body, "close", None)
        self.blocks: Iterator[bytes] = iter(body)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self.blocks)

    def close(self) -> None:
        closers, closer = self.request.closers, self.closer
        if closers and closer in closers:
            closers.remove(closer)
            closer()


def stream(request: Request, response: Response, body: Any) -> Any:
    """Return the body for the server, if it is not in memory.

    A plain file without filters is handed to the server as a file, if the server supports that. Connections that
    were opened to find the file are given back before a slow client reads the first byte.
    """
    is_file = isinstance(body, FileBody) and body.is_plain_file
    if not is_file or not (body.is_described or response.content_length == body.left):  # else it is too short
        return SentBody(request, response, body)

    def close_sent(size: int | None) -> None:
        request.bytes_sent = size
        close(request)

    wrapper = request.environ.get("wsgi.file_wrapper")
    sent = SentBody(request, response, body) if wrapper is None else wrapper(SentFile(body, close_sent), BLOCK)
    request.release(body.close)
    return sent


class SentBody:
    """A body that is streamed to the server in blocks. Closing it, or an error in it, closes the request.

    The first block is made before ``start_response`` is called, so that a view which fails before its first block
    becomes an error page. A later failure is logged and raised to the server. The server breaks the connection, so
    the client sees that the answer is incomplete.
    """

    def __init__(self, request: Request, response: Response, chunks: Any) -> None:
        self.request = request
        self.sent = 0
        headers = response.headerlist
        lengths = [int(text) for name, text in headers if len(name) == 14 and name.lower() == "content-length"]
        blocks = blocks_of(chunks, lengths[0] if lengths else None)
        before = response.status_line, headers.copy()
        self.blocks = chain([block] if (block := next(blocks, None)) else [], blocks)
        if (response.status_line, response.headerlist) != before:  # by the first step of a generator
            check_headers(response.headerlist)
            check_redirect(request, response)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            chunk = next(self.blocks)
        except StopIteration:
            raise
        except BaseException as error:
            if isinstance(error, Exception):
                log_failure(self.request, error, f"in mid-stream, after {self.sent} bytes")
            self.close()
            raise
        self.sent += len(chunk)
        return chunk

    def close(self) -> None:
        self.request.bytes_sent = self.sent
        close(self.request)


def blocks_of(chunks: Any, length: int | None) -> Iterator[bytes]:
    """Yield the blocks of a body that are not empty. Raise ValueError if their length is not the Content-Length.

    The last block is held back until it is known that no block follows. Otherwise a body that is too long, or that
    fails at its very end, would look complete.
    """
    left = length
    iterator = iter(chunks)
    for block in iterator:
        if not isinstance(block, bytes):
            raise TypeError(f"a streamed body yielded {block!r:.80}, which is not bytes")
        if not block:
            continue
        if left is not None:
            left -= len(block)
            if left < 0 or (left == 0 and any(iterator)):
                raise ValueError(f"a streamed body is longer than its Content-Length, {length} bytes")
        yield block
    if left:
        raise ValueError(f"a streamed body is {left} bytes shorter than its Content-Length, {length} bytes")
