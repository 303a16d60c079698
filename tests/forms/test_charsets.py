"""Text in the encodings of browsers is what node and Chromium read and write, or it is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
import webencodings.labels
from webob.exc import HTTPBadRequest

from pipeline.forms.charsets import NEVER_SENT, decoded, known_charset
from pipeline.forms.fields import fields_of

LABELS = sorted(label for label, name in webencodings.labels.LABELS.items() if name not in NEVER_SENT)
DIFFERENT_IN_NODE = {"big5", "koi8-u", "gb18030", "gbk", "windows-1252", "iso-8859-16"}
"""Node 20 reads these by ICU's tables, which are not those of browsers (its windows-1252 has C1 controls)."""
WRONG_IN_CHROMIUM = {b"\x88b", b"\x88d", b"\x88\xa3", b"\x88\xa5"}
"""Two letters in Big5, of which Chromium makes a lone surrogate. No form sends them."""
READER = """
const found = {};
for (const name of JSON.parse(process.argv[1])) {
  const decoder = new TextDecoder(name, {fatal: true, ignoreBOM: true});
  const texts = found[name] = {};
  for (let first = 128; first < 256; first++) for (let second = 64; second < 256; second++) if (second != 127) {
    try { texts[[first, second]] = decoder.decode(new Uint8Array([first, second])) } catch {}
  }
}
console.log(JSON.stringify(found))
"""
IN_BROWSER = """
const [name] = arguments, decoder = new TextDecoder(name, {fatal: true, ignoreBOM: true}), texts = {};
const add = (...bytes) => { try { texts[bytes] = decoder.decode(new Uint8Array(bytes)) } catch {} };
for (let first = 128; first < 256; first++) {
  add(first);
  for (let second = 48; second < 256; second++) {
    add(first, second);
    if (name == "gb18030" && second < 58)
      for (let third = 129; third < 255; third += 25) for (let last = 48; last < 58; last++)
        add(first, second, third, last);
  }
}
return JSON.stringify(texts)
"""
"""Each text of one and two bytes, and of four in part."""


@pytest.mark.parametrize("label", LABELS)
def test_every_label_of_a_browser_is_known(label: str) -> None:
    assert known_charset(f" {label.upper()}") == webencodings.lookup(label).name


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_no_text_is_another_than_in_node() -> None:
    names = sorted({webencodings.labels.LABELS[label] for label in LABELS} - DIFFERENT_IN_NODE - {"iso-2022-jp"})
    answer = subprocess.run(["node", "-e", READER, json.dumps(names)], capture_output=True, check=True)
    for name, texts in json.loads(answer.stdout).items():
        for pair, text in texts.items():
            if any("\x80" <= letter <= "\x9f" for letter in text):
                continue  # a control that ICU makes of what it does not know
            raw = bytes(map(int, pair.split(",")))
            try:
                assert decoded(raw, name) == text, (name, raw)
            except HTTPBadRequest:
                continue


@pytest.mark.browser
def test_no_text_is_another_than_in_a_browser(browser: Any) -> None:
    for name in sorted({webencodings.labels.LABELS[label] for label in LABELS} - {"iso-2022-jp"}):
        for sent, text in json.loads(browser.execute_script(IN_BROWSER, name)).items():
            raw = bytes(map(int, sent.split(",")))
            try:
                assert decoded(raw, name) == text or raw in WRONG_IN_CHROMIUM, (name, raw)
            except HTTPBadRequest:
                assert name == "big5" or name.startswith("windows-"), (name, raw)


@pytest.mark.parametrize(
    ("label", "raw", "text"),
    [
        ("euc-kr", b"\x8cc", "똠"),
        ("shift_jis", b"\x87@\xee\xe0\x81`\\~\xb1", "①髙\uff5e\\~ｱ"),
        ("euc-jp", b"\xad\xa1\xa1\xc1\x8e\xb1a\x8f\xb0\xa1", "①\uff5eｱa丂"),
        ("iso-2022-jp", b"a\x1b$B-!!A\x1b(J\\\x1b(I1\x1b(Bb", "a①\uff5e¥ｱb"),
        ("big5", b"\xf9\xd6\xa3\xe1\xfeR\xa1E", "碁€猪‧"),
        ("gbk", b"\x80\xa8\xbc", "€ḿ"),
        ("koi8-u", b"\xae\xbe", "ўЎ"),
        ("gb2312", b"\xa2\xe3", "€"),
        ("latin1", b"\x80", "€"),
        ("latin-1", b"\xe9", "é"),
    ],
)
def test_texts_that_browsers_send(label: str, raw: bytes, text: str) -> None:
    charset = known_charset(label)
    assert charset is not None and decoded(raw, charset) == text
    assert fields_of(f"_charset_={label}&a={quote_from_bytes(raw)}", None)[1] == ("a", text)


@pytest.mark.parametrize(
    ("charset", "raw"),
    [("gbk", b"\x81"), ("gbk", b"\xff"), ("big5", b"\x80"), ("big5", b"\xa1"), ("euc-jp", b"\xa1"),
     ("euc-jp", b"\xa1a"), ("euc-jp", b"\x8e"), ("euc-jp", b"\xff\xff"), ("iso-2022-jp", b"\xa1"),
     ("iso-2022-jp", b"\x1b$B!"), ("iso-2022-jp", b"\x1b$A!!"), ("shift_jis", b"\x81")],
)  # fmt: skip
def test_bytes_without_a_meaning_are_400(charset: str, raw: bytes) -> None:
    with pytest.raises(HTTPBadRequest):
        decoded(raw, charset)
