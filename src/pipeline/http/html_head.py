"""Where in a page of HTML a ``<base>`` can go: found block by block, in time linear in what is read (S12).

``Head`` reads a page as a browser does (the WHATWG's HTML, sections 13.2.5 and 13.2.6) from its beginning
to where its head ends, and no further than it is given. Put at ``place``, a ``<base>`` changes nothing in the
tree that a browser builds but for being there: each piece of white space, each comment and each element is
still where it was, also where ``<html>`` or ``<head>`` is not written.

The place is as far back as it can be, so that what stands ahead of it need not wait: ahead of the first thing
in the head that has a URL or may have effects. Whether the page has a base of its own is only known where the
head ends. What a browser would read in two ways (``<noscript>`` with and without scripts) is read in both; if
they disagree on anything that matters here, or where anything else cannot be known, there is no place.

Python's ``html.parser`` does not serve: it says line and column instead of a place, copies all it has with
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
"""Elements whose content is text up to their end tag, and the pattern of that."""

_PASSED = {b"head", b"html", b"meta", b"title"}
"""What may stand ahead of the base, having no URL; but a meta with ``http-equiv`` may, or forbid bases."""
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
_ENDS_HEAD = {b"body", b"br", b"html"}
"""End tags that do something in the head; others are ignored."""
_TWO_READINGS = {b"math", b"plaintext", b"select", b"svg"}
"""Elements in which tags mean something else; they may stand in a template."""

T = TypeVar("T")
Waits: TypeAlias = Generator[None, None, T]
"""What comes of reading on, which waits, by ``yield``, for more of the page where it needs it."""


class Unknown(Exception):
    """This page is not to be touched."""


class _Ended(Exception):
    """There is no more, and something was still missing."""


class Attribute(NamedTuple):
    """An attribute of a tag, and where it is written."""

    name: bytes
    name_end: int
    value: bytes | None
    """As written, without quotes; None if it has none."""
    value_start: int
    value_end: int


class Head:
    """What is known of the head of a page after all that was fed. Places are counted in code units."""

    def __init__(self) -> None:
        self.text = bytearray()
        """The page, one byte for each code unit; what is not ASCII is any byte above 127."""
        self.safe = 0
        """Up to here nothing will be changed."""
        self.place: int | None = None
        """Where a base can be put in, if it can."""
        self.base: Attribute | None = None
        """The ``href`` of the base that the page has."""
        self.finished = False
        self._at_end = False
        self._steps: Iterator[None] = self._read()

    def feed(self, units: bytes) -> bool:
        """Take more of the page; True when all is decided and no more is wanted."""
        self.text += units
        return self._go_on()

    def end(self) -> None:
        """There is no more of the page."""
        self._at_end = True
        self._go_on()

    def give_up(self) -> None:
        """There is more of the page, which will not be looked at."""
        self.place = self.base = None
        self._finish()

    def _go_on(self) -> bool:
        if not self.finished:
            try:
                next(self._steps)
            except (StopIteration, _Ended):  # a tag that is not complete when the page ends is none
                self._finish()
            except Unknown:
                self.give_up()
        return self.finished

    def _finish(self) -> None:
        self.finished = True
        self._steps = iter(())  # the generator and this object hold each other

    def _more(self) -> Waits[None]:
        if self._at_end:
            raise _Ended
        yield

    def _has(self, length: int) -> Waits[None]:
        """Wait until there are so many code units."""
        while len(self.text) < length:
            yield from self._more()

    def _at(self, place: int) -> bytes:
        return bytes(self.text[place : place + 1])

    def _find(self, pattern: re.Pattern[bytes], start: int, longest: int = 1) -> Waits[re.Match[bytes]]:
        """Wait for a match, which is no longer than ``longest``; no code unit is looked at more often."""
        while True:
            found = pattern.search(self.text, start)
            if found is not None:
                return found
            start = max(start, len(self.text) - longest + 1)
            yield from self._more()

    def _find_text(self, text: bytes, start: int) -> Waits[int]:
        """Wait for a text; where it ends."""
        while True:
            found = self.text.find(text, start)
            if found >= 0:
                return found + len(text)
            start = max(start, len(self.text) - len(text) + 1)
            yield from self._more()

    def _read(self) -> Waits[None]:
        """Read up to where the head ends. The first thing that is not passed on the way sets ``place``."""
        after_head = False
        place = 0
        while True:
            if self.place is None:
                self.safe = place
            place = (yield from self._find(_NOT_SPACE, place)).start()
            if self._at(place) != b"<":
                if self._at(place) == b"&" and self.place is None:
                    raise Unknown  # it may stand for white space
                self._stop_at(place)
                return
            yield from self._has(place + 2)
            letter = self._at(place + 1)
            if _is_letter(letter):
                name, start = yield from self._tag_name(place + 1)
                if name not in _IN_HEAD or (after_head and name == b"noscript"):
                    self._stop_at(place)
                    return
                attributes, end = yield from self._attributes(start)
                if name not in _PASSED or (name == b"meta" and b"http-equiv" in attributes):
                    self._stop_at(place)
                place = end
                if name == b"base" and b"href" in attributes:
                    self.base = attributes[b"href"]
                    return
                if name == b"noscript":
                    place = yield from self._noscript_end(place)
                elif name == b"template":
                    place = yield from self._template_end(place)
                elif name == b"script" or name in _RAW_TEXT:
                    place = yield from self._raw_text_end(name, place)
            elif letter == b"/":
                yield from self._has(place + 3)
                letter = self._at(place + 2)
                if _is_letter(letter):
                    name, start = yield from self._tag_name(place + 2)
                    if name in _ENDS_HEAD:
                        self._stop_at(place)
                        return
                    if name == b"head":
                        self._stop_at(place)
                        after_head = True
                    place = yield from self._tag_end(start)
                else:
                    place = yield from self._find_text(b">", place + 2)
            elif letter in (b"!", b"?"):
                place = yield from self._declaration_end(place)
            else:
                self._stop_at(place)
                return

    def _stop_at(self, place: int) -> None:
        """A base goes here, if it has not gone somewhere before."""
        if self.place is None:
            self.place = self.safe = place

    def _tag_name(self, start: int) -> Waits[tuple[bytes, int]]:
        end = (yield from self._find(_TAG_NAME_END, start)).start()
        return bytes(self.text[start:end]).lower(), end

    def _tag_end(self, start: int) -> Waits[int]:
        return (yield from self._attributes(start))[1]

    def _attributes(self, start: int) -> Waits[tuple[dict[bytes, Attribute], int]]:
        """The attributes of a tag, the first of each name, and where the tag ends."""
        attributes: dict[bytes, Attribute] = {}
        place = start
        while True:
            place = (yield from self._find(_ATTRIBUTE, place)).start()
            if self._at(place) == b">":
                return attributes, place + 1
            # An attribute may be named "=": its first letter is never the end of it.
            name_end = (yield from self._find(_ATTRIBUTE_NAME_END, place + 1)).start()
            name = bytes(self.text[place:name_end]).lower()
            place = (yield from self._find(_NOT_SPACE, name_end)).start()
            attribute = Attribute(name, name_end, None, name_end, name_end)
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
                attribute = Attribute(name, name_end, value, value_start, place)
            attributes.setdefault(name, attribute)

    def _declaration_end(self, place: int) -> Waits[int]:
        """Where a comment ends, a doctype, or what is taken for a comment: ``<?...>``, ``<![if ...]>``."""
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
        """Where the element ends whose content starts here and is text."""
        if name == b"script":
            end = yield from self._script_text_end(start)
        else:
            end = (yield from self._find(_RAW_TEXT[name], start, len(name) + 3)).start()
        return (yield from self._tag_end(end + 2 + len(name)))

    def _script_text_end(self, start: int) -> Waits[int]:
        """Where ``</script`` stands that ends a script, which is not always the first (section 13.2.5.4)."""
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
                place += 2  # the dashes may be those of "-->", too
            elif found[1]:
                if not double:
                    return place
                double = False
                place = found.end() - 1
            else:
                double = escaped
                place = found.end() - 1

    def _noscript_end(self, start: int) -> Waits[int]:
        """Where a noscript in the head ends: text where scripts run, and elements where they do not."""
        try:
            end = (yield from self._find(_RAW_TEXT[b"noscript"], start, 11)).start()
            place = start
            while True:
                place = (yield from self._find_text(b"<", place)) - 1
                if place >= end:
                    break
                name, place = yield from self._markup(place)
                if name in (b"base", b"noscript", b"script", b"template") or name in _TWO_READINGS:
                    raise Unknown
                if name in _RAW_TEXT:
                    place = yield from self._raw_text_end(name, place)
        except _Ended:
            raise Unknown from None
        if place != end:
            raise Unknown  # the two readings part here
        return (yield from self._tag_end(end + len(b"</noscript")))

    def _template_end(self, start: int) -> Waits[int]:
        """Where a template ends. A base in it is none of the page."""
        depth = 1
        place = start
        while depth:
            place = (yield from self._find_text(b"<", place)) - 1
            name, place = yield from self._markup(place)
            if name == b"noscript" or name in _TWO_READINGS:
                raise Unknown
            if name == b"script" or name in _RAW_TEXT:
                place = yield from self._raw_text_end(name, place)
            depth += (name == b"template") - (name == b"/template")
        return place

    def _markup(self, place: int) -> Waits[tuple[bytes, int]]:
        """What begins with the "<" here, and where it ends: a tag's name (with "/" for an end tag), or "" for
        a comment and for what is text after all."""
        yield from self._has(place + 2)
        letter = self._at(place + 1)
        if letter in (b"!", b"?"):
            return b"", (yield from self._declaration_end(place))
        slash = b""
        if letter == b"/":
            slash = b"/"
            yield from self._has(place + 3)
            letter = self._at(place + 2)
            if not _is_letter(letter):
                return b"", (yield from self._find_text(b">", place + 2))
        if not _is_letter(letter):
            return b"", place + 1
        name, start = yield from self._tag_name(place + 1 + len(slash))
        return slash + name, (yield from self._tag_end(start))


def _is_letter(text: bytes) -> bool:
    return text.isalpha() and text.isascii()
