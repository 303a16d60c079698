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
from collections.abc import Generator, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

_NOT_SPACE = re.compile(rb"[^\t\n\f\r ]")
_TAG_NAME_END = re.compile(rb"[\t\n\f\r />]")
_ATTRIBUTE = re.compile(rb"[^\t\n\f\r /]")
_ATTRIBUTE_NAME_END = re.compile(rb"[\t\n\f\r />=]")
_UNQUOTED_END = re.compile(rb"[\t\n\f\r >]")
_COMMENT_END = re.compile(rb"--!?>")
_IN_SCRIPT = re.compile(rb"<!--|-->|<(/?)script[\t\n\f\r />]", re.IGNORECASE)

_RAW_TEXT = {
    name: re.compile(rb"</%b[\t\n\f\r />]" % name, re.IGNORECASE)
    for name in (b"iframe", b"noembed", b"noframes", b"noscript", b"style", b"textarea", b"title", b"xmp")
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

T = TypeVar("T")
Waits: TypeAlias = Generator[None, None, T]
"""A step of reading. It waits for more of the page by ``yield`` if it needs more, and returns its result."""


class Unknown(Exception):
    """The page cannot be read for certain, so it must be left unchanged."""


class _Ended(Exception):
    """The page ends in the middle of its markup."""


class Attribute(NamedTuple):
    """An attribute of a tag, and its place."""

    value: bytes | None
    """The value as written, without quotes; None if the attribute has no value."""
    value_start: int
    value_end: int


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
        self._after_head = False
        self._at_end = False
        self._steps: Iterator[None] = self._read()

    def feed(self, units: bytes) -> bool:
        """Read more of the page. Return True if no more of it is needed."""
        self.text += units
        return self._go_on()

    def end(self) -> None:
        """Read the end of the page."""
        self._at_end = True
        self._go_on()

    def give_up(self) -> None:
        """Stop reading, and leave the page unchanged."""
        self.place = self.base = None
        self._finish()

    def _go_on(self) -> bool:
        if not self.finished:
            try:
                next(self._steps)
            except (StopIteration, _Ended):  # an incomplete tag at the end of the page is not a tag
                self._finish()
            except Unknown:
                self.give_up()
        return self.finished

    def _finish(self) -> None:
        self.finished = True
        self._steps = iter(())  # the generator refers to this object: no cycle is left

    def _more(self) -> Waits[None]:
        if self._at_end:
            raise _Ended
        yield

    def _has(self, length: int) -> Waits[None]:
        """Wait until the page has ``length`` code units."""
        while len(self.text) < length:
            yield from self._more()

    def _at(self, place: int) -> bytes:
        return bytes(self.text[place : place + 1])

    def _find(self, pattern: re.Pattern[bytes], start: int, longest: int = 1) -> Waits[re.Match[bytes]]:
        """Wait for a match of at most ``longest`` code units, and return it. No search goes back further."""
        while True:
            found = pattern.search(self.text, start)
            if found is not None:
                return found
            start = max(start, len(self.text) - longest + 1)
            yield from self._more()

    def _find_text(self, text: bytes, start: int) -> Waits[int]:
        """Wait for a text, and return its end."""
        return (yield from self._find(re.compile(re.escape(text)), start, len(text))).end()

    def _read(self) -> Waits[None]:
        """Read to the end of the head."""
        place = 0
        while True:
            if self.place is None:
                self.safe = place
            place = (yield from self._find(_NOT_SPACE, place)).start()
            end = None
            if self._at(place) == b"<":
                end = yield from self._markup_in_head(place)
            elif self._at(place) == b"&" and self.place is None:
                raise Unknown  # a character reference may stand for white space
            if end is None:
                self._stop_at(place)
                return
            place = end

    def _markup_in_head(self, place: int) -> Waits[int | None]:
        """Read the markup that begins with the "<" here, with the content of an element that has text, a template
        or a noscript. Return its end, or None if the head ends before it."""
        name, attributes, end = yield from self._markup(place)
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
            return (yield from self._noscript_end(end))
        if name == b"template":
            return (yield from self._template_end(end))
        if name == b"script" or name in _RAW_TEXT:
            return (yield from self._raw_text_end(name, end))
        return end

    def _stop_at(self, place: int) -> None:
        """Set the place for a base, unless it is set already."""
        if self.place is None:
            self.place = self.safe = place

    def _attributes(self, start: int) -> Waits[tuple[dict[bytes, Attribute], int]]:
        """Return the attributes of a tag, the first of each name, and the end of the tag."""
        attributes: dict[bytes, Attribute] = {}
        place = start
        while True:
            place = (yield from self._find(_ATTRIBUTE, place)).start()
            if self._at(place) == b">":
                return attributes, place + 1
            # An attribute may be named "=": the first character always belongs to the name.
            name_end = (yield from self._find(_ATTRIBUTE_NAME_END, place + 1)).start()
            name = bytes(self.text[place:name_end]).lower()
            place = (yield from self._find(_NOT_SPACE, name_end)).start()
            attribute = Attribute(None, name_end, name_end)
            if self._at(place) == b"=":
                place = (yield from self._find(_NOT_SPACE, place + 1)).start()
                value_start = place
                quote = self._at(place)
                if quote in (b'"', b"'"):
                    place = yield from self._find_text(quote, place + 1)
                    value = bytes(self.text[value_start + 1 : place - 1])
                elif quote == b">":
                    value = b""
                else:
                    place = (yield from self._find(_UNQUOTED_END, place)).start()
                    value = bytes(self.text[value_start:place])
                attribute = Attribute(value, value_start, place)
            attributes.setdefault(name, attribute)

    def _declaration_end(self, place: int) -> Waits[int]:
        """Return the end of a comment, a doctype, or markup that counts as a comment (``<?...>``)."""
        if self._at(place + 1) == b"!":
            for length in (3, 4):
                yield from self._has(place + length)
                if self._at(place + length - 1) != b"-":
                    break
            else:
                start = place + 2  # "<!-->" is a comment, and so is "<!--->"
                while True:
                    found = yield from self._find(_COMMENT_END, start, 4)
                    if found.end() - found.start() == 3 or found.start() >= place + 4:
                        return found.end()
                    start = found.start() + 1
        return (yield from self._find_text(b">", place + 2))

    def _raw_text_end(self, name: bytes, start: int) -> Waits[int]:
        """Return the end of an element whose content starts here and is text."""
        if name == b"script":
            end = yield from self._script_text_end(start)
        else:
            end = (yield from self._find(_RAW_TEXT[name], start, len(name) + 3)).start()
        return (yield from self._markup(end))[2]

    def _script_text_end(self, start: int) -> Waits[int]:
        """Return the place of the ``</script`` that ends a script: not always the first one (section 13.2.5.4)."""
        escaped = double = False
        place = start
        while True:
            found = yield from self._find(_IN_SCRIPT, place, 9)
            place = found.start()
            if self._at(place) == b"-":
                escaped = double = False
                place = found.end()
            elif self._at(place + 1) == b"!":
                escaped = True
                place += 2  # the dashes may belong to "-->", too
            elif found[1] and not double:
                return place
            else:
                double = escaped and not found[1]
                place = found.end() - 1

    def _noscript_end(self, start: int) -> Waits[int]:
        """Return the end of a noscript in the head. Its content is text if scripts run, and else elements."""
        try:
            end = (yield from self._find(_RAW_TEXT[b"noscript"], start, 11)).start()
            place = start
            while True:
                place = (yield from self._find_text(b"<", place)) - 1
                if place >= end:
                    break
                name, _, place = yield from self._markup(place)
                if name in (b"base", b"noscript", b"script", b"template") or name in _TWO_READINGS:
                    raise Unknown
                if name in _RAW_TEXT:
                    place = yield from self._raw_text_end(name, place)
        except _Ended:
            raise Unknown from None
        if place != end:
            raise Unknown  # the two readings end at different places
        return (yield from self._markup(end))[2]

    def _template_end(self, start: int) -> Waits[int]:
        """Return the end of a template. A base in it is not a base of the page."""
        depth = 1
        place = start
        while depth:
            place = (yield from self._find_text(b"<", place)) - 1
            name, _, place = yield from self._markup(place)
            if name == b"noscript" or name in _TWO_READINGS:
                raise Unknown
            if name == b"script" or name in _RAW_TEXT:
                place = yield from self._raw_text_end(name, place)
            depth += (name == b"template") - (name == b"/template")
        return place

    def _markup(self, place: int) -> Waits[tuple[bytes, dict[bytes, Attribute], int]]:
        """Return the name of the tag that begins with the "<" here, its attributes, and its end. The name of an end
        tag begins with "/". A comment, and a "<" that is only text, have the name ""."""
        yield from self._has(place + 2)
        start = place + 1
        if self._at(start) in (b"!", b"?"):
            return b"", {}, (yield from self._declaration_end(place))
        if self._at(start) == b"/":
            start += 1
            yield from self._has(start + 1)
            if not self._at(start).isalpha():
                return b"", {}, (yield from self._find_text(b">", start))
        if not self._at(start).isalpha():
            return b"", {}, place + 1
        start = (yield from self._find(_TAG_NAME_END, start)).start()
        name = bytes(self.text[place + 1 : start]).lower()
        attributes, end = yield from self._attributes(start)
        return name, attributes, end
