"""The charsets of forms, as browsers read and write them: the encodings of the WHATWG by their labels."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from typing import Any

from webob.exc import HTTPBadRequest

from pipeline.options import on_demand

lookup: Any = on_demand("webencodings:lookup")  # of the extra "forms": the core reads queries in UTF-8

NEVER_SENT = ("replacement", "utf-16be", "utf-16le", "x-user-defined")
"""Encodings that have labels, but in which no browser sends a form."""
_CODECS = {"gbk": "gb18030"}
"""Python's codecs for encodings where webencodings names a codec that reads less than a browser writes."""
_EUC_JP = re.compile(rb"\x8f..|\x8e.|[\xa1-\xfe].|[\x00-\x8d\x90-\xa0]+|.", re.DOTALL)
_ISO_2022_JP = re.compile(rb"\x1b(\(B|\(J|\(I|\$B|\$@)")


def known_charset(name: str | None) -> str | None:
    """Return the encoding of a label, or None without a label; HTTPBadRequest if no form is sent in it."""
    if not name:
        return None
    found = lookup(name)
    if found is None:
        with suppress(LookupError, ValueError):  # ValueError of a name with a NUL
            found = lookup(codecs.lookup(name).name)  # such as "latin-1", which programs write
    if found is None or found.name in NEVER_SENT:
        raise HTTPBadRequest("No form is sent in that charset.")
    return str(found.name)


def decoded(raw: bytes, charset: str) -> str:
    """Return the text of bytes in an encoding that ``known_charset`` has returned. Raise a 400 for other bytes."""
    try:
        if charset == "utf-8":
            return raw.decode()
        if charset == "euc-jp":
            return _from_euc_jp(raw)
        if charset == "iso-2022-jp":
            return _from_iso_2022_jp(raw)
        return raw.decode(_CODECS.get(charset) or lookup(charset).codec_info.name)
    except UnicodeError:
        raise HTTPBadRequest(f"The query or form is not {charset}.") from None


def _from_euc_jp(raw: bytes) -> str:
    """Decode EUC-JP by the table of Microsoft's Shift_JIS, as browsers do. Python's codec lacks the characters of
    NEC and IBM in it, and has another wave dash."""
    return "".join([_euc_jp_piece(piece) for piece in _EUC_JP.findall(raw)])


def _euc_jp_piece(piece: bytes) -> str:
    if piece[0] == 0x8E:
        return piece.decode("euc_jp")
    if len(piece) == 2 and piece[0] >= 0xA1 <= piece[1]:
        lead, trail = divmod((piece[0] - 0xA1) * 94 + piece[1] - 0xA1, 188)
        lead += 0x81 if lead < 31 else 0xC1
        trail += 0x40 if trail < 63 else 0x41
        return bytes((lead, trail)).decode("cp932")
    return piece.decode("euc_jp" if piece[0] == 0x8F else "ascii")


def _from_iso_2022_jp(raw: bytes) -> str:
    pieces = [b"(B", *_ISO_2022_JP.split(raw)]
    text = ""
    for escape, piece in zip(pieces[::2], pieces[1::2], strict=True):
        if not piece.isascii() or b"\x1b" in piece:
            raise UnicodeError("a byte that has no meaning in ISO-2022-JP")
        if escape.startswith(b"$"):
            text += _from_euc_jp(bytes(byte | 0x80 for byte in piece))
        elif escape == b"(I":
            text += bytes(byte | 0x80 for byte in piece).decode("cp932")
        else:
            plain = piece.decode("ascii")
            text += plain.replace("\\", "¥").replace("~", "‾") if escape == b"(J" else plain
    return text
