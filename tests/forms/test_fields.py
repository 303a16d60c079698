"""Fields of a query or a urlencoded body are those that the standard library reads, and S19 holds."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webob.exc import HTTPBadRequest

from pipeline.forms.fields import fields_of

SENT = st.text("ab=&+%41;:é\x00", max_size=20) | st.lists(
    st.tuples(st.text(min_size=1, max_size=5), st.text(max_size=5))
).map(lambda pairs: urlencode(pairs, errors="replace"))


@given(SENT)
def test_they_are_those_of_the_standard_library(sent: str) -> None:
    raw = sent.encode("latin-1", "replace")
    expected = [
        (name, value) for name, value in parse_qsl(raw.decode("latin-1"), True, encoding="iso8859-2") if name
    ]
    assert fields_of(sent, "iso-8859-2") == expected


@pytest.mark.parametrize("charset", ["utf-8", None])
@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ("a=1&b=two+2&c=3%2B4", [("a", "1"), ("b", "two 2"), ("c", "3+4")]),
        ("%61=%C3%A4&b", [("a", "ä"), ("b", "")]),
        ("a=\xc3\xa4", [("a", "ä")]),
        ("a=1;b=2&=x&&a=%zz%", [("a", "1;b=2"), ("a", "%zz%")]),
    ],
)
def test_a_field_is_one_between_ampersands__S19(
    sent: str, fields: list[tuple[str, str]], charset: str | None
) -> None:
    assert fields_of(sent, charset) == fields


def test_the_field_of_the_charset_may_be_encoded_itself() -> None:
    assert fields_of("_charset_=iso%2d8859-1&a=%E4", None) == [("_charset_", "iso-8859-1"), ("a", "ä")]
    with pytest.raises(HTTPBadRequest, match="charset"):
        fields_of("_charset_=rot13&a=b", None)


@pytest.mark.parametrize("sent", ["a=%E4", "%E4=a", "a=\xe4"])
def test_what_is_not_in_the_charset_is_a_400(sent: str) -> None:
    with pytest.raises(HTTPBadRequest, match="not utf-8"):
        fields_of(sent)
