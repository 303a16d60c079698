"""``base``: a page that was reached by default steps gets a ``<base>``, so that its links work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from html import escape
from urllib.parse import quote, urljoin

from pipeline.composition import element
from pipeline.http.encodings import with_own_tags
from pipeline.http.html_head import Attribute, Head
from pipeline.interfaces import Handler
from pipeline.ranges import at_least
from pipeline.request import PATH_SAFE, Request
from pipeline.response import Response

_BOMS = {b"\xfe\xff": "utf-16-be", b"\xff\xfe": "utf-16-le", b"\xef\xbb\xbf": "utf-8"}
_UTF_16 = {"utf-16": "utf-16-le", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be"}

_UNREADABLE = re.compile(rb"[\0\x1b]")
"""NUL, which browsers treat differently, and the escape that changes the meaning of letters (ISO-2022)."""

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[/\\]")
"""The beginning of a URL that does not depend on the page. A browser reads a backslash as a slash."""

PRESCAN = 1024
"""Bytes in which a browser looks for the encoding, if no header or byte order mark gives it."""


@element(
    requires=("context",),
    inside={"errors": "a filter that cannot be set up is an error page too"},
)
def base(next: Handler, *, window: int = 65_536) -> Handler:
    """Put ``<base href="...">`` into a page whose relative links would otherwise be wrong.

    window  bytes at the beginning of a page that are searched for the place; a page with a longer head is not
            changed

    Such a page was reached by default steps: the default view of a container without a slash at the end of the URL
    (by a method that is not redirected, or with ``slash_redirect = no``), or a deeper page that ``IDefaultSteps``
    led to. A ``<base>`` of the page is kept if its URL is absolute, and corrected if it is relative.

    The page is streamed. The part before the place is sent at once, the rest of the head when it is complete, and
    the rest of the page as it comes. Pages that are not ``text/html``, that are compressed, or parts (206) are not
    changed, and neither are pages that browsers may read differently.

    A ``<base>`` in the body is not found. HTML does not allow it there, but a browser uses it if it is the first of
    the page. The one that this element puts into the head is then the first, and counts instead.
    """
    at_least(PRESCAN, window=window)

    def base(request: Request, response: Response) -> None:
        environ = request.environ
        if "HTTP_IF_NONE_MATCH" in environ or "HTTP_IF_MATCH" in environ:
            with_own_tags(next, request, response)
        else:
            next(request, response)
        if request.lacks_slash or request.default_steps:
            url = url_of_page(request)
            if url is not None:
                response.add_filter(partial(corrected, response, url, window))

    return base


def url_of_page(request: Request) -> str | None:
    """Return the URL that the relative links of the page are meant for; None if they work with the requested
    URL."""
    asked = url = request.path_url
    if request.default_steps:
        steps = "/".join([quote(step, safe=PATH_SAFE) for step in request.default_steps])
        url = f"{url.removesuffix('/')}/{steps}"
    if request.lacks_slash:
        url += "/"
    return None if url.rpartition("/")[0] == asked.rpartition("/")[0] or not url.isascii() else url


def corrected(response: Response, url: str, window: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Return ``chunks`` with the base, or ``chunks`` itself if the page needs no correction. This is the filter."""
    if response.content_type != "text/html" or response.status_code == 206:
        return chunks
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        return chunks
    return with_base(chunks, url, response.charset, window)


def with_base(chunks: Iterator[bytes], url: str, charset: str | None, window: int) -> Iterator[bytes]:
    """Yield the blocks of a page with a base of this URL in it. ``charset`` is that of the Content-Type."""
    page = _Page(url, charset, window)
    for block in chunks:
        if ready := page.add(block):
            yield ready
        if page.done:
            yield from chunks
            return
    yield page.end()


class _Page:
    """A page that is read and sent block by block."""

    def __init__(self, url: str, charset: str | None, window: int) -> None:
        self.url = url
        self.charset = charset
        self.window = window
        self.done = False
        self.held = bytearray()
        self.start = -1
        """The place of the first character, behind the byte order mark; -1 until the encoding is known."""
        self.width = 1
        self.encoding = ""
        """The encoding of the characters if it is UTF-16, else "ascii"."""
        self.sent = 0
        self.read = 0
        self.head = Head()

    def add(self, block: bytes) -> bytes:
        """Add a block. Return the bytes that can be sent now."""
        self.held += block
        if self.start < 0 and not self._find_encoding(at_end=False):
            return b""
        head = self.head
        if not head.finished and not head.feed(self._units()) and self.read >= self.window:
            head.give_up()
        if head.finished and (self._is_told_encoding() or len(self.held) >= PRESCAN):
            return self._rest()
        safe = self.start + head.safe * self.width
        ready = bytes(self.held[self.sent : safe])
        self.sent = max(self.sent, safe)
        return ready

    def _is_told_encoding(self) -> bool:
        """Return whether a browser knows the encoding without looking for it in the page."""
        return bool(self.start or self.charset)

    def end(self) -> bytes:
        """Return the rest of the page, at its end."""
        if self.start < 0:
            self._find_encoding(at_end=True)
        self.head.feed(self._units())
        if self.read < self.window:
            self.head.end()
        elif not self.head.finished:
            self.head.give_up()
        return self._rest()

    def _find_encoding(self, *, at_end: bool) -> bool:
        """Find the encoding and return whether it is known. A byte order mark has priority over Content-Type, which
        has priority over the page."""
        if len(self.held) < 3 and not at_end:
            return False
        label = (self.charset or "").strip(" \"'").lower()
        self.start = 0
        self.encoding = _UTF_16.get(label, "ascii")
        for mark, encoding in _BOMS.items():
            if self.held.startswith(mark):
                self.start = len(mark)
                self.encoding = encoding if encoding in _UTF_16.values() else "ascii"
                break
        else:
            if self.encoding == "ascii" and not _is_like_ascii(label):
                self.head.give_up()
        self.width = 1 if self.encoding == "ascii" else 2
        return True

    def _units(self) -> bytes:
        """Return the code units that were not read yet, one byte each, as far as they can be read."""
        begin = self.start + self.read
        end = min(len(self.held), self.start + self.window)
        end -= (end - begin) % self.width
        raw = bytes(self.held[begin:end])
        self.read += len(raw)
        if self.width == 2:
            little = self.encoding == "utf-16-le"
            low, high = raw[1 - little :: 2], raw[little::2]
            raw = bytes([255 if page else unit for unit, page in zip(low, high, strict=True)]) if any(high) else low
        found = _UNREADABLE.search(raw)
        if found is not None:
            self.read = self.window
            return raw[: found.start()]
        return raw

    def _rest(self) -> bytes:
        """Return all bytes that are held, with the base in its place."""
        edit = self._edit()
        if edit is None:
            rest = bytes(self.held[self.sent :])
        else:
            start, stop, text = edit
            start, stop = self.start + start * self.width, self.start + stop * self.width
            rest = bytes(self.held[self.sent : start]) + text.encode(self.encoding) + self.held[stop:]
        self.done = True
        self.held.clear()
        return rest

    def _edit(self) -> tuple[int, int, str] | None:
        """Return the start and the end of a part, in code units, and the text that replaces it; None for no
        change."""
        head = self.head
        if head.base is not None:
            url = _meant(head.base, self.url)
            if url is None:
                return None
            start = head.base.value_start
            equals = "=" if head.base.value is None else ""
            return start, head.base.value_end, f'{equals}"{escape(url)}"'
        if head.place is None:
            return None
        text = f'<base href="{escape(self.url)}" />'
        if not self._is_told_encoding() and self._hides_encoding(head.place, len(text)):
            return None
        return head.place, head.place, text

    def _hides_encoding(self, place: int, length: int) -> bool:
        """Return whether the base would move a meta with the encoding out of the part that a browser searches."""
        seen = bytes(self.held[place:PRESCAN]).lower()
        last = seen.rfind(b"<meta")
        return last >= 0 and (seen.find(b">", last) < 0 or place + seen.find(b">", last) + length >= PRESCAN)


def _meant(href: Attribute, url: str) -> str | None:
    """Return the absolute URL that a relative base was meant to be; None if the base must stay as it is."""
    value = href.value or b""
    if not value.isascii() or b"&" in value.replace(b"&amp;", b""):
        return None
    text = value.decode("ascii").replace("&amp;", "&").strip(" \t\n\f\r")
    if _ABSOLUTE.match(text) or "\\" in text or not text.isprintable():
        return None
    return urljoin(url, text)


@lru_cache(maxsize=64)
def _is_like_ascii(label: str) -> bool:
    """Return whether markup in this encoding has the bytes of ASCII. Browsers read unknown encodings in that
    way."""
    ascii = bytes(range(32, 127))
    try:
        return not label or ascii.decode(label) == ascii.decode("ascii")
    except LookupError:
        return True
    except ValueError:
        return False
