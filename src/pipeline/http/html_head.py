"""Find the place for a ``<base>`` in an HTML page, block by block, in time linear in the input (S12).

``Head`` reads a page as a browser does (the WHATWG's HTML, sections 13.2.5 and 13.2.6), from its beginning to the
end of its head. A ``<base>`` at ``place`` only adds itself to the tree that a browser builds. White space, comments
and elements stay where they were, also if ``<html>`` or ``<head>`` is not written.

The place is as late as possible, so that the bytes before it can be sent at once: just before the first element of
the head that has a URL or may have effects. Only the end of the head shows whether the page has a base of its own.
A ``<noscript>`` is read with and without scripts. If the two readings differ in a way that matters here, or if
the page cannot be read for certain, there is no place.

Python's ``html.parser`` cannot do this: it gives line and column instead of an offset, copies its whole buffer with
each block, does not build a tree, and does not read scripts and comments as browsers do.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LESS = re.compile(rb"<")
_NOT_SPACE = re.compile(rb"[^\t\n\f\r ]")
_IN_SCRIPT = re.compile(rb"<!--|-->|<(/?)script[\t\n\f\r />]", re.IGNORECASE)

_VALUE = rb"""(?:"[^"]*+"|'[^']*+'|[^\t\n\f\r >"'][^\t\n\f\r >]*+|(?=>))"""
_EQUALS = rb"[\t\n\f\r ]*+=[\t\n\f\r ]*+"
# An attribute may be named "=": the first character always belongs to the name.
_ONE = rb"[\t\n\f\r /]*+([^\t\n\f\r />][^\t\n\f\r />=]*+)(?:%b(%b)|(?!%b))" % (_EQUALS, _VALUE, _EQUALS)
_ATTRIBUTE = re.compile(_ONE)
_MARKUP = re.compile(
    rb"<!--(?:-?>|.*?--!?>)|<(?:\?|!(?!--)|/(?![A-Za-z]))[^>]*+>|<(?![!?/A-Za-z])(?=.)"
    rb"|<(?P<name>/?[A-Za-z][^\t\n\f\r />]*+)(?P<attributes>(?:%b)*+)[\t\n\f\r /]*+>" % _ONE,
    re.DOTALL,
)
"""A comment, markup that counts as one, a "<" that is only text, or a tag. If it does not match, more is needed."""

RAW_TEXT = {
    name: re.compile(rb"</%b[\t\n\f\r />]" % name, re.IGNORECASE)
    for name in b"iframe noembed noframes noscript script style textarea title xmp".split()
}
"""Elements whose content is text up to their end tag, and the pattern of that end tag."""

_PASSED = {b"head", b"html", b"meta", b"title"}
"""Elements that may stand before the base because they have no URL. A meta with ``http-equiv`` may have one, or may
forbid bases."""
_IN_HEAD = _PASSED | {
    b"base",
    b"basefont",
    b"bgsound",
    b"link",
    b"noframes",
    b"noscript",
    b"script",
    b"style",
    b"template",
}
_ENDS_HEAD = {b"/body", b"/br", b"/html"}
"""End tags that have an effect in the head. Others are ignored."""
_TWO_READINGS = {b"math", b"plaintext", b"select", b"svg"}
"""Elements in which tags have another meaning. They may stand in a template."""

LONG = 1024
"""Bytes of markup that is read again with each block until it is complete."""


class Unknown(Exception):
    """The page cannot be read for certain, so it must be left unchanged."""


class Incomplete(Exception):
    """The end of the markup has not come yet."""


class Attribute(NamedTuple):
    """An attribute of a tag, and its place."""

    value: bytes | None
    """The value as written, without quotes; None if the attribute has no value."""
    value_start: int
    value_end: int


def markup(text: bytes | bytearray, place: int) -> tuple[bytes, dict[bytes, Attribute], int]:
    """Return the name of the tag that begins with the "<" here, its attributes, the first of each name, and its
    end. The name of an end tag begins with "/". A comment, and a "<" that is only text, have the name ""."""
    found = _MARKUP.match(text, place)
    if found is None:
        raise Incomplete
    attributes: dict[bytes, Attribute] = {}
    place = found.start("attributes")
    while place >= 0 and (one := _ATTRIBUTE.match(text, place)) is not None:
        value, place = one[2], one.end()
        attribute = Attribute(None, place, place)
        if value is not None:
            bare = value[1:-1] if value[:1] in (b'"', b"'") else value
            attribute = Attribute(bare, one.start(2), place)
        attributes.setdefault(one[1].lower(), attribute)
    return (found["name"] or b"").lower(), attributes, found.end()


def find(pattern: re.Pattern[bytes], text: bytes | bytearray, start: int) -> re.Match[bytes]:
    """Return the next match. Raise Incomplete if it has not come yet."""
    found = pattern.search(text, start)
    if found is None:
        raise Incomplete
    return found


class Head:
    """The head of a page, as far as it was fed. Places are counted in code units."""

    def __init__(self) -> None:
        self.text = bytearray()
        """The page, one byte for each code unit. A unit that is not ASCII is a byte above 127."""
        self.safe = 0
        """The end of the part that will not be changed."""
        self.place: int | None = None
        """The place where a base can be inserted, or None."""
        self.base: Attribute | None = None
        """The ``href`` of the base that the page has, or None."""
        self.finished = False
        """True if the place and the base are known, so that the rest of the page is not needed."""
        self._read = 0
        """The end of the markup that was read."""
        self._enough = 0
        """The length from which the page is read on. Long markup that is not complete is read again only when it
        has become longer by an eighth, so that the time is linear."""
        self._templates = 0
        """The number of templates that are open. A base in them is not a base of the page."""
        self._after_head = False
        self._at_end = False

    def feed(self, units: bytes) -> bool:
        """Read more of the page. Return True if no more of it is needed."""
        self.text += units
        if len(self.text) >= self._enough:
            self._go_on()
        return self.finished

    def end(self) -> None:
        """Read the end of the page. An incomplete tag there is not a tag."""
        self._at_end = True
        self._go_on()
        self.finished = True

    def give_up(self) -> None:
        """Stop reading, and leave the page unchanged."""
        self.place = self.base = None
        self.finished = True

    def _go_on(self) -> None:
        try:
            while not self.finished and self._go_to_next():
                self._read_one()
        except Incomplete:
            length = len(self.text)
            self._enough = length + max(length - self._read - LONG, 0) // 8
        except Unknown:
            self.give_up()

    def _go_to_next(self) -> bool:
        """Go to the next markup or text. Return whether there is any."""
        found = (_LESS if self._templates else _NOT_SPACE).search(self.text, self._read)
        self._read = len(self.text) if found is None else found.start()
        if self.place is None:
            self.safe = self._read
        return found is not None

    def _read_one(self) -> None:
        """Read the next markup, or end the head before it."""
        first = self.text[self._read]
        if first == ord("&") and self.place is None:
            raise Unknown  # a character reference may stand for white space
        read = self._in_template if self._templates else self._in_head
        end = read(self._read) if first == ord("<") else None
        if end is None:
            self._stop_at(self._read)
            self.finished = True
        else:
            self._read = end

    def _in_head(self, place: int) -> int | None:
        """Return the end of the markup here, with the content of an element that has text or a noscript; None if
        the head ends before it."""
        name, attributes, end = markup(self.text, place)
        if name == b"/head":
            self._stop_at(place)
            self._after_head = True
        if name in _ENDS_HEAD or end == place + 1:  # a "<" that is only text
            return None
        if name[:1] in (b"", b"/"):
            return end
        if name not in _IN_HEAD or (self._after_head and name == b"noscript"):
            return None
        if name not in _PASSED or (name == b"meta" and b"http-equiv" in attributes):
            self._stop_at(place)
        if name == b"base" and b"href" in attributes:
            self.base = attributes[b"href"]
            return None
        if name == b"noscript":
            return self._noscript_end(end)
        self._templates += name == b"template"
        return self._content_end(name, end)

    def _in_template(self, place: int) -> int:
        """Return the end of the markup here, with the content of an element that has text."""
        name, _, end = markup(self.text, place)
        if name == b"noscript" or name in _TWO_READINGS:
            raise Unknown
        end = self._content_end(name, end)
        self._templates += (name == b"template") - (name == b"/template")
        return end

    def _stop_at(self, place: int) -> None:
        """Set the place for a base, unless it is set already."""
        if self.place is None:
            self.place = self.safe = place

    def _content_end(self, name: bytes, start: int) -> int:
        """Return the end of an element whose content starts here and is text. Other elements end with their tag."""
        if name == b"script":
            end = self._script_text_end(start)
        elif name in RAW_TEXT:
            end = find(RAW_TEXT[name], self.text, start).start()
        else:
            return start
        return markup(self.text, end)[2]

    def _script_text_end(self, start: int) -> int:
        """Return the place of the ``</script`` that ends a script: not always the first one (section 13.2.5.4)."""
        escaped = double = False
        place = start
        while True:
            found = find(_IN_SCRIPT, self.text, place)
            place = found.start()
            if found[0] == b"-->":
                escaped = double = False
                place = found.end()
            elif found[0] == b"<!--":
                escaped = True
                place += 2  # the dashes may belong to "-->", too
            elif found[1] and not double:
                return place
            else:
                double = escaped and not found[1]
                place = found.end() - 1

    def _noscript_end(self, start: int) -> int:
        """Return the end of a noscript in the head. Its content is text if scripts run, and else elements."""
        try:
            end = find(RAW_TEXT[b"noscript"], self.text, start).start()
            place = start
            while (place := find(_LESS, self.text, place).start()) < end:
                name, _, place = markup(self.text, place)
                if name in (b"base", b"noscript", b"script", b"template") or name in _TWO_READINGS:
                    raise Unknown
                place = self._content_end(name, place)
        except Incomplete:
            if self._at_end:
                raise Unknown from None
            raise
        if place != end:
            raise Unknown  # the two readings end at different places
        return markup(self.text, end)[2]
