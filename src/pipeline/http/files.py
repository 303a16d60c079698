"""Files as answers: from the disk or from a blob, whole or in ranges.

``serve`` is for views. An open file that a view returns, or that a foreign WSGI app wraps with
``wsgi.file_wrapper``, becomes a ``FileBody``. If no filter changes it, the edge hands it to the server in the
server's own ``wsgi.file_wrapper``, which may send it without Python.
"""

from __future__ import annotations

import hashlib
import io
import mimetypes
import os
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import formatdate
from errno import ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR
from functools import cache, lru_cache
from typing import Any, BinaryIO
from urllib.parse import quote

from webob.exc import HTTPForbidden, HTTPNotFound

from pipeline.http.encodings import vary
from pipeline.request import Request
from pipeline.response import NOSNIFF, HeaderList, Response, check_headers

BLOCK = 64 * 1024
"""Bytes per block, enough to make the cost per block negligible."""

REPRODUCIBLE = 315_705_600
"""Seconds since the epoch. Tools that build reproducibly give all files a time before: 0, 1 or January 1980."""
SETTLED = 1.0
"""Seconds after a change from which on the times of a file show the next one. Its hash is kept only then."""
MOST_HASHES = 10_000
"""Hashes of files that are kept."""
_hashes: dict[tuple[int, ...], str] = {}

UNKNOWN_TYPE = "application/octet-stream"

_SAFE_IN_QUOTES = frozenset(map(chr, range(32, 127))) - frozenset('"%')
_SAFE_IN_EXTENDED = "!#$&+-.^_`|~"  # RFC 8187 attr-char, beside letters and digits

PASSED_ON = (
    "ETag",
    "Last-Modified",
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers",
    "Content-Language",
    "Content-Security-Policy",
    "Content-Security-Policy-Report-Only",
    "Cross-Origin-Embedder-Policy",
    "Cross-Origin-Opener-Policy",
    "Cross-Origin-Resource-Policy",
    "Permissions-Policy",
    "Referrer-Policy",
    "Server-Timing",
    "Strict-Transport-Security",
    "Vary",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-Robots-Tag",
)
"""Headers of the site that nginx would drop when it sends a file, so that the location of nginx must add them."""


_WORKERS = ("worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet")
RUN = frozenset(("script", "style", "xslt", *_WORKERS))
"""Values of ``Sec-Fetch-Dest`` by which a browser says that it will run a file."""


def serve(
    request: Request,
    response: Response,
    file: str | os.PathLike[str] | BinaryIO | Any,
    *,
    content_type: str | None = None,
    name: str | None = None,
    etag: str | None = None,
    modified: datetime | float | None = None,
    inline: bool = False,
    cache: str | None = None,
) -> None:
    """Answer with a file: the whole, the requested range, or 304 if the client has it already.

    file          a path, or a file open for reading in binary mode, which is sent from its current position and
                  closed with the request. A path that does not lead to a file is a 404. Check a path that contains
                  input of a client: every file that it leads to is opened
    content_type  default: guessed from the name, or application/octet-stream
    name          file name for a browser that saves the file; default: the last segment of the path
    etag          a text that changes whenever the bytes do; default: a hash of a plain file, which is read for it
                  once. Give one for files so large that this takes too long
    modified      datetime (naive is UTC) or seconds since the epoch; default: the time of a plain file, unless it
                  is one of those that reproducible builds give to all files
    inline        whether a browser may show the file instead of saving it. Never use this for uploads of visitors:
                  an HTML page among them would run its scripts as scripts of the site (S7)
    cache         the header Cache-Control

    An attachment is a 403 to a page that wants to run it as a script or a style sheet (S7).
    """
    if not inline and request.environ.get("HTTP_SEC_FETCH_DEST") in RUN:
        raise HTTPForbidden("This is a file to save. No page may run it.")
    if isinstance(file, (str, os.PathLike)):
        name = name or os.path.basename(file)
        file = _open(os.fspath(file))
    body = FileBody(file)
    request.on_close(body.close)
    if body.state is not None and etag is None:
        etag = hash_of(body.state, body.file.fileno())
    validators = validators_of(body.state, etag, modified)
    headers = described(content_type, name, body.left, validators, inline, cache)
    check_headers(headers)
    body.is_described = True
    response.adopt(response.status, headers, body)
    if not inline:
        vary(response.headerlist, "Sec-Fetch-Dest")
    response.conditional_response = True


def described(
    content_type: str | None,
    name: str | None,
    length: int | None,
    validators: HeaderList,
    inline: bool,
    cache: str | None,
) -> HeaderList:
    """Return the headers of a file."""
    headers = [("Content-Type", content_type or guessed_type(name or "")), NOSNIFF]
    headers.append(("Content-Disposition", disposition(name, inline=inline)))
    if length is not None:
        headers += [("Content-Length", str(length)), ("Accept-Ranges", "bytes")]
    headers += validators
    if cache is not None:
        headers.append(("Cache-Control", cache))
    return headers


def validators_of(state: os.stat_result | None, etag: str | None, modified: datetime | float | None) -> HeaderList:
    """Return the headers ETag and Last-Modified, as far as they are known."""
    if state is not None and modified is None and state.st_mtime > REPRODUCIBLE:
        modified = state.st_mtime
    validators = [] if etag is None else [("ETag", f'"{etag}"')]
    return validators if modified is None else [*validators, ("Last-Modified", _http_date(modified))]


def hash_of(state: os.stat_result, descriptor: int) -> str | None:
    """Return a hash of a plain file in that state; None if the file changes while it is read."""
    key = key_of(state)
    if (found := _hashes.get(key)) is not None:
        return found
    digest = hashlib.blake2b(digest_size=16)
    place = 0
    while block := os.pread(descriptor, 1024 * 1024, place):
        digest.update(block)
        place += len(block)
    if key_of(os.fstat(descriptor)) != key:
        return None
    found = digest.hexdigest()
    if time.time() - max(state.st_mtime, state.st_ctime) > SETTLED:
        if len(_hashes) >= MOST_HASHES:
            _hashes.clear()
        _hashes[key] = found
    return found


def key_of(state: os.stat_result) -> tuple[int, ...]:
    """Return values that differ if the file was replaced or changed."""
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


@lru_cache(maxsize=256)
def disposition(name: str | None, *, inline: bool = False) -> str:
    """Return a Content-Disposition header (RFC 6266). It has both forms of a name that is not ASCII (RFC 8187)."""
    kind = "inline" if inline else "attachment"
    if not name:
        return kind
    # Replace separators, controls, surrogates, and marks that change the direction of text.
    name = "".join(letter if letter.isprintable() and letter not in "/\\" else "_" for letter in name)
    plain = "".join(letter if letter in _SAFE_IN_QUOTES else "_" for letter in name)
    if plain == name:
        return f'{kind}; filename="{plain}"'
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe=_SAFE_IN_EXTENDED)}"


class FileBody:
    """The bytes of an open binary file, from its current position to its current end.

    The code that opened the file must close it; ``close`` is that of the file.
    """

    is_described = False
    """True if the answer has all headers of the file, which ``described`` made."""

    def __init__(
        self, file: BinaryIO | Any, size: int | None = None, state: os.stat_result | None = None
    ) -> None:
        if hasattr(file, "blob"):  # ZODB closes it when another request replaces the blob
            file, of_blob = io.FileIO(os.dup(file.fileno())), file
            of_blob.close()
        self.file = file
        self.close: Callable[[], object] = getattr(file, "close", lambda: None)
        self.state = state or _state(file)
        """`os.stat` result of a plain file, which is read by its descriptor alone; else None."""
        self.left = self._length() if size is None else size
        """Bytes to be sent; None if the length is not known before reading."""

    @property
    def is_plain_file(self) -> bool:
        """True if the server may send the file itself, by its descriptor."""
        return self.state is not None

    @classmethod
    def wrap(cls, file: Any, block_size: int = BLOCK) -> FileBody:
        """Wrap a file. This is the ``wsgi.file_wrapper`` of a WSGI app inside a pipeline."""
        return cls(file)

    def __iter__(self) -> Iterator[bytes]:
        left = self.left
        while left is None or left > 0:
            block = self.file.read(BLOCK if left is None else min(BLOCK, left))
            if not block:
                return
            if left is not None:
                left -= len(block)
            yield block

    def _length(self) -> int | None:
        try:
            here: int = self.file.tell()
            if self.state is not None:
                return max(self.state.st_size - here, 0)
            end: int = self.file.seek(0, os.SEEK_END)
            self.file.seek(here)
            return max(end - here, 0)
        except (AttributeError, OSError, ValueError, TypeError):
            return None

    def app_iter_range(self, start: int, stop: int) -> FileBody:
        """Return the part from ``start`` up to but not including ``stop``. The name is WebOb's."""
        size = stop - start
        if self.left is not None:
            self.file.seek(start, os.SEEK_CUR)
        else:
            while start > 0 and (block := self.file.read(min(BLOCK, start))):
                start -= len(block)
        return FileBody(self.file, size)


class SentFile:
    """A plain file that the server reads through its ``wsgi.file_wrapper``, but only to the end of the body.

    It has ``fileno`` only if the whole file is sent. Some servers ignore the position of a descriptor and the
    Content-Length (uWSGI sends the file from its beginning to its end).
    """

    def __init__(self, body: FileBody, close: Callable[[int | None], object]) -> None:
        self.file = body.file
        self.start: int = body.file.tell()
        self.end = self.start + (body.left or 0)
        self._close: Callable[[int | None], object] | None = close
        if body.state is not None and (self.start, self.end) == (0, body.state.st_size):
            if os.lseek(body.file.fileno(), 0, os.SEEK_CUR) != 0:  # the file was read, and has a buffer
                body.file.seek(0, os.SEEK_END)
                body.file.seek(0)
            self.fileno = body.file.fileno

    def read(self, size: int = -1) -> bytes:
        left = max(self.end - self.file.tell(), 0)
        data: bytes = self.file.read(left if size < 0 else min(size, left))
        if left and size and not data:  # a server that has promised more would ask again, without end
            raise OSError("the file has become shorter while it was sent")
        return data

    def tell(self) -> int:
        return int(self.file.tell())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            offset, whence = self.end + offset, os.SEEK_SET
        return int(self.file.seek(offset, whence))

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Close the request, once, with the number of bytes that were read from the file. The number is None if the
        server has sent the file by its descriptor (sendfile), and so does not say how many bytes it sent."""
        close, self._close = self._close, None
        if close is not None:
            read = self.file.tell() - self.start
            close(read if read or self.end == self.start else None)


def _open(path: str) -> BinaryIO:
    """Open the file at ``path``. Raise a 404 if it is missing, a directory or a device."""
    try:
        if stat.S_ISREG(os.stat(path).st_mode):  # checked first: opening a named pipe would wait for a writer
            return open(path, "rb", buffering=0)
    except (OSError, ValueError) as error:  # ValueError of a name with a NUL
        if getattr(error, "errno", None) not in (None, ENOENT, ENOTDIR, ENAMETOOLONG, ELOOP):
            raise
    raise HTTPNotFound("There is no such file.")


def _state(file: Any) -> os.stat_result | None:
    """Return the ``stat`` of a plain file, else None. The descriptor of a wrapper, such as gzip's, is
    misleading."""
    raw = file.raw if type(file) in (io.BufferedReader, io.BufferedRandom) else file
    if type(raw) is not io.FileIO:
        return None
    try:
        state = os.fstat(raw.fileno())
    except (OSError, ValueError):
        return None
    return state if stat.S_ISREG(state.st_mode) else None


@cache
def known_types() -> dict[str, str]:
    """Return the media types that count before those of the machine, by the end of a name: ours, and Python's."""
    return mimetypes.read_mime_types(os.path.join(os.path.dirname(__file__), "mime.types")) or {}


def guessed_type(name: str) -> str:
    """Return the media type of a file by its name."""
    if kind := known_types().get(os.path.splitext(name)[1].lower()):
        return kind
    kind, encoding = mimetypes.guess_type(name, strict=False)
    if encoding is not None:  # "x.tar.gz" is sent as gzip, and not as a tar with a Content-Encoding
        return "application/gzip" if encoding == "gzip" else UNKNOWN_TYPE
    return kind or UNKNOWN_TYPE


def _http_date(moment: datetime | float) -> str:
    if isinstance(moment, datetime):
        moment = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    return _date_of_second(int(min(moment, time.time())))  # never in the future (RFC 9110 section 8.8.2.1)


@lru_cache(maxsize=256)
def _date_of_second(second: int) -> str:
    return formatdate(second, usegmt=True)
