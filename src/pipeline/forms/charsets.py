"""The charsets of forms, as browsers read and write them: the encodings of the WHATWG by their labels."""

# ruff: noqa: RUF001 - letters that are alike are different bytes
from __future__ import annotations

import codecs
import re
from contextlib import suppress
from typing import Any, NamedTuple

from webob.exc import HTTPBadRequest

from pipeline.options import on_demand

lookup: Any = on_demand("webencodings:lookup")  # of the extra "forms": the core reads queries in UTF-8

NEVER_SENT = ("replacement", "utf-16be", "utf-16le", "x-user-defined")
"""Encodings that have labels, but in which no browser sends a form."""
_OF_GB18030 = """80€ a3a0\u3000 a6d9︐ a6da︒ a6db︑ a6dc︓ a6dd︔ a6de︕ a6df︖ a6ec︗ a6ed︘ a6f3︙ a8bcḿ
fe59龴 fe61龵 fe66龶 fe67龷 fe6d龸 fe7e龹 fe90龺 fea0龻 8135f437\ue7c7"""
_OF_BIG5 = """a145‧ a14e﹑ a1c2¯ a1e3～ a1f2⊕ a1f3⊙ a241∕ a242﹨ a244￥ a246￠ a247￡ a3e0␡ a3e1€
c6cf廴 c6d3无 c6d5癶 c6d7隶 c6de〃 c6df仝 fa5f倩 fa66偽 fabd包 fac5卄 fad5卿 fb48嘅 fbb8婷 fbf3幵
fbf9廐 fc4f彘 fc6c悤 fcb9撐 fce2晴 fcf1杞 fdb7沜 fdb8渝 fdbb港 fdf1煮 fe52猪 fe6f瑜 feaa瓩 fedd砉"""
_OF_BIG5 += "".join(f" a3{0xC0 + number:x}{chr(0x2400 + number)}" for number in range(32))


class Table(NamedTuple):
    """An encoding that Python's codec reads otherwise than browsers do."""

    codec: str
    piece: re.Pattern[bytes]
    different: dict[bytes, str]


def _texts(different: str) -> dict[bytes, str]:
    words = [(word, word.lstrip("0123456789abcdef")) for word in different.replace("\n", " ").split(" ")]
    return {bytes.fromhex(word.removesuffix(text)): text for word, text in words}


_GB18030 = re.compile(rb"[\x81-\xfe][0-9][\x81-\xfe][0-9]|[\x81-\xfe].|[\x00-\x7f]++|.", re.DOTALL)
_BIG5 = re.compile(rb"[\x81-\xfe].|[\x00-\x7f]++|.", re.DOTALL)
_KOI8_U = re.compile(rb"[\x00-\x7f]++|.", re.DOTALL)
_CHINESE = Table("gb18030", _GB18030, _texts(_OF_GB18030))
TABLES = {
    "gbk": _CHINESE,
    "gb18030": _CHINESE,
    "big5": Table("big5hkscs", _BIG5, _texts(_OF_BIG5)),
    "koi8-u": Table("koi8_u", _KOI8_U, _texts("aeў beЎ")),
}
"""By the encodings of the WHATWG. What stands in no table and no codec is refused."""
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
        if charset in TABLES:
            codec, piece, different = TABLES[charset]
            return "".join([different.get(one) or one.decode(codec) for one in piece.findall(raw)])
        return raw.decode(lookup(charset).codec_info.name)
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
