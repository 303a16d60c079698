"""The rules for names in URLs, and for titles, checked here for forms and for the importer.

The functions return the text in Unicode normal form NFC, so that a name typed on two systems is the same name. They
raise ``BadText`` with a sentence for the author.
"""

from __future__ import annotations

import re
import unicodedata

MAX_NAME = 200
"""Upper limit of the bytes of a name in UTF-8. Most file systems allow it, with room for a suffix."""
MAX_TITLE = 200
"""Characters in a title."""
MAX_TEXT = 1024 * 1024
"""Bytes of UTF-8 in the text of a document."""

# Direction overrides make `evil<RLO>gpj.exe` look like a picture.
_BIDI = set("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNPRINTABLE = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}


class BadText(ValueError):
    """A name, title or text that the site does not take."""


def clean_name(name: str) -> str:
    """Return a name that traversal reaches and that every system reads in the same way (S3, S14)."""
    name = unicodedata.normalize("NFC", name)
    _refuse_unprintable("name", name)
    if not name or name != name.strip():
        raise BadText("A name needs at least one character, and no blank around it.")
    if name in (".", ".."):
        raise BadText("“.” and “..” have a meaning of their own in a URL.")
    if name.startswith(("_", "@@", "++")):
        raise BadText("A name may not begin with “_”, “@@” or “++”.")
    if "/" in name or "\\" in name:
        raise BadText("A name may not contain “/” or “\\”.")
    if len(name.encode()) > MAX_NAME:
        raise BadText(f"A name may have {MAX_NAME} bytes at most; this one has {len(name.encode())}.")
    return name


def clean_title(title: str) -> str:
    """A title: one line that is not blank."""
    title = unicodedata.normalize("NFC", title).strip()
    if not title:
        raise BadText("A title is needed.")
    _refuse_unprintable("title", title)
    if len(title) > MAX_TITLE:
        raise BadText(f"A title may have {MAX_TITLE} characters at most; this one has {len(title)}.")
    return title


def clean_text(text: str) -> str:
    """Return the text of a document, with a plain newline at the end of each line."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for character in text:
        if (character < " " and character not in "\n\t\f") or character == "\x7f":
            raise BadText(f"The text has the control character U+{ord(character):04X}.")
        if "\ud800" <= character <= "\udfff":
            raise BadText(f"The text has half a character, U+{ord(character):04X}.")
    if len(text) > MAX_TEXT or len(text.encode()) > MAX_TEXT:
        raise BadText(f"A text may have {MAX_TEXT // 1024} KiB at most.")
    return text


def name_from_title(title: str) -> str:
    """Return a name made from a title: ``"Über uns!"`` gives ``"über-uns"``."""
    words = re.findall(r"[\w.]+", unicodedata.normalize("NFC", title).casefold())
    name = "-".join(words).strip("._-")
    while len(name.encode()) > MAX_NAME:
        name = name[:-1]
    return name or "untitled"


def _refuse_unprintable(what: str, text: str) -> None:
    for character in text:
        if unicodedata.category(character) in _UNPRINTABLE or character in _BIDI:
            raise BadText(f"A {what} may not contain the invisible character U+{ord(character):04X}.")
