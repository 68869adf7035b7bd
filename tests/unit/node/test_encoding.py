"""JSON as the API server writes it. In tests/cluster/test_guard_text.py, a real API server compares the text."""

from __future__ import annotations

import pytest

from capacityd.node.documents.encoding import go_json

SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
SURROGATES = range(0xD800, 0xE000)


def go(c: str) -> str:
    """appendString of Go's encoding/json, with escapeHTML. A lone surrogate can only be sent escaped."""
    escaped = c < " " or c in "<>&\u2028\u2029" or ord(c) in SURROGATES
    return SHORT.get(c) or (f"\\u{ord(c):04x}" if escaped else c)


def test_each_character_is_written_as_go_does() -> None:
    assert [hex(n) for n in (*range(0x10100), 0x1F600, 0x10FFFF) if go_json(chr(n)) != f'"{go(chr(n))}"'] == []


def test_a_value_is_written_on_one_line_without_spaces() -> None:
    assert go_json({"é<": [None, True, -1, "\\u003c \\b", {}]}) == '{"é\\u003c":[null,true,-1,"\\\\u003c \\\\b",{}]}'
    with pytest.raises(ValueError, match="Out of range"):
        go_json(float("nan"))
