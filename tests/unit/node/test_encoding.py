"""JSON as the API server writes it; tests/cluster/test_guard_text.py has the real one compare."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.node.client import encode

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain 4000 /", "plain 4000 /"),
        ('"\\', '\\"\\\\'),
        ("\n\r\t", "\\n\\r\\t"),
        ("\0\x01\x1b\x1f", "\\u0000\\u0001\\u001b\\u001f"),
        ("\b\f", "\\b\\f"),
        ("\x7f\x80\x9f\xa0\xad", "\x7f\x80\x9f\xa0\xad"),
        ("<>&", "\\u003c\\u003e\\u0026"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("é日本e\u0301 \u202e", "é日本e\u0301 \u202e"),
        ("\ufffd\ufffe\uffff\ue000\ufeff", "\ufffd\ufffe\uffff\ue000\ufeff"),
        ("😀\U00010000\U0010ffff", "😀\U00010000\U0010ffff"),
        ("\ud800x\udfff", "\\ud800x\\udfff"),
        ("\\u003c \\b", "\\\\u003c \\\\b"),
    ],
)
def test_a_string_is_written_as_go_does(text: str, written: str) -> None:
    assert encode(text) == f'"{written}"'
    assert encode({text: [text]}) == f'{{"{written}":["{written}"]}}'


@given(JSON)
def test_it_says_what_it_said(value: Any) -> None:
    written = encode(value)
    assert json.loads(written) == value
    assert "\n" not in written
    written.encode()


@given(TEXT)
def test_it_is_go_s_table(text: str) -> None:
    """appendString of Go's encoding/json, with escapeHTML, one character after another."""
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

    def go(c: str) -> str:
        if c in short:
            return short[c]
        return f"\\u{ord(c):04x}" if c < " " or c in "<>&\u2028\u2029" else c

    assert encode(text) == f'"{"".join(map(go, text))}"'


def test_what_is_no_json() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        encode(float("nan"))
