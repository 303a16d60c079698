"""``base``: a page that was reached by default steps gets the ``<base>`` that makes its links work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from html import escape
from urllib.parse import quote, urljoin

from pipeline.composition import element
from pipeline.http.html_head import Attribute, Head
from pipeline.interfaces import Handler, OptionError
from pipeline.request import PATH_SAFE, Request
from pipeline.response import Response

_BOMS = {b"\xfe\xff": "utf-16-be", b"\xff\xfe": "utf-16-le", b"\xef\xbb\xbf": "utf-8"}
_UTF_16 = {"utf-16": "utf-16-le", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be"}

_UNREADABLE = re.compile(rb"[\0\x1b]")
"""NUL, which browsers treat in many ways, and the escape by which letters change their meaning (ISO-2022)."""

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[/\\]")
"""How a URL begins that means the same wherever the page is; a browser reads a backslash as a slash."""

PRESCAN = 1024
"""Bytes in which a browser looks for the encoding, if nobody told it."""


@element(
    requires=("context",),
    inside={"errors": "a filter that cannot be set up is an error page too"},
)
def base(next: Handler, *, window: int = 65_536) -> Handler:
    """Put ``<base href="...">`` into a page whose relative links would else lead astray.

    window  bytes at the beginning of a page that are read to find the place; a longer head is left alone

    That is a page reached by default steps: the default view of a container without a slash at the end of the
    URL (by a method that is not redirected, or with ``slash_redirect = no``), and what ``IDefaultSteps`` led
    to, deeper down. A ``<base>`` that the page has is left as it is if its URL is absolute, and corrected if
    it is relative.

    The page is streamed: what stands ahead of the place leaves at once, the rest of the head when it is
    complete, all that is behind it as it comes, untouched. Left alone are pages that are not ``text/html``,
    that are compressed or parts (206), and those of which it cannot be known how a browser reads them.

    A ``<base>`` in the body, behind the head, is not seen. HTML does not allow it there, but a browser takes it if
    it is the first of the page. The one that this element puts into the head is then the first, and counts instead.
    """
    if window < PRESCAN:
        raise OptionError(f"the option window is at least {PRESCAN} bytes, and not {window}")

    def base(request: Request, response: Response) -> None:
        next(request, response)
        if request.lacks_slash or request.default_steps:
            url = url_of_page(request)
            if url is not None:
                response.add_filter(partial(corrected, response, url, window))

    return base


def url_of_page(request: Request) -> str | None:
    """The URL that the relative links of the page are meant for; None if they work with the one asked for."""
    asked = url = request.path_url
    if request.default_steps:
        steps = "/".join([quote(step, safe=PATH_SAFE) for step in request.default_steps])
        url = f"{url.removesuffix('/')}/{steps}"
    if request.lacks_slash:
        url += "/"
    return None if url.rpartition("/")[0] == asked.rpartition("/")[0] or not url.isascii() else url


def corrected(response: Response, url: str, window: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The output filter: ``chunks`` with the base, or ``chunks`` if this is no page to be corrected."""
    if response.content_type != "text/html" or response.status_code == 206:
        return chunks
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        return chunks
    return with_base(chunks, url, response.charset, window)


def with_base(chunks: Iterator[bytes], url: str, charset: str | None, window: int) -> Iterator[bytes]:
    """A page in blocks with a base of this URL in it. ``charset`` is what Content-Type says."""
    page = _Page(url, charset, window)
    for block in chunks:
        if ready := page.add(block):
            yield ready
        if page.done:
            yield from chunks
            return
    yield page.end()


class _Page:
    """A page of which not all is known yet: blocks in, blocks out."""

    def __init__(self, url: str, charset: str | None, window: int) -> None:
        self.url = url
        self.charset = charset
        self.window = window
        self.done = False
        self.held = bytearray()
        self.start = -1
        """Where the first character stands, behind the byte order mark; -1 until the encoding is known."""
        self.width = 1
        self.encoding = ""
        """That of the characters if it is UTF-16, else "ascii"."""
        self.sent = 0
        self.read = 0
        self.head = Head()

    def add(self, block: bytes) -> bytes:
        """What can be sent now that there is this block, too."""
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
        """Whether a browser knows the encoding without looking for it in the page."""
        return bool(self.start or self.charset)

    def end(self) -> bytes:
        """What is left to be sent."""
        if self.start < 0:
            self._find_encoding(at_end=True)
        self.head.feed(self._units())
        if self.read < self.window:
            self.head.end()
        elif not self.head.finished:
            self.head.give_up()
        return self._rest()

    def _find_encoding(self, *, at_end: bool) -> bool:
        """A byte order mark beats what Content-Type says, and that what the page says itself."""
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
        """The code units that were not read yet, one byte each, as far as they can be read."""
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
        """All that is held, with the base in its place."""
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
        """What text stands for what is there now, in code units; None to leave it."""
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
        """Whether a meta that may say the encoding would no longer stand where a browser looks for it."""
        seen = bytes(self.held[place:PRESCAN]).lower()
        last = seen.rfind(b"<meta")
        return last >= 0 and (seen.find(b">", last) < 0 or place + seen.find(b">", last) + length >= PRESCAN)


def _meant(href: Attribute, url: str) -> str | None:
    """What a base that is relative to the page was meant to be; None if it is to be left as it is."""
    value = href.value or b""
    if not value.isascii() or b"&" in value.replace(b"&amp;", b""):
        return None
    text = value.decode("ascii").replace("&amp;", "&").strip(" \t\n\f\r")
    if _ABSOLUTE.match(text) or "\\" in text or not text.isprintable():
        return None
    return urljoin(url, text)


@lru_cache(maxsize=64)
def _is_like_ascii(label: str) -> bool:
    """Whether text in this encoding has its markup in the bytes of ASCII. What is unknown to browsers has."""
    ascii = bytes(range(32, 127))
    try:
        return not label or ascii.decode(label) == ascii.decode("ascii")
    except LookupError:
        return True
    except ValueError:
        return False
