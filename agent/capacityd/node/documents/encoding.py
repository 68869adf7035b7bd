"""Encodes the JSON of a request byte for byte as the API server does. Pure."""

from __future__ import annotations

import json

_SPECIAL = [ord(character) for character in "<>&\u2028\u2029"]
"""Characters that Go's encoding/json escapes."""
_SURROGATES = range(0xD800, 0xE000)
"""Escaped as well, because lone surrogates cannot be encoded as UTF-8. Stored strings contain none, because the server
replaces them."""
_ESCAPES = {code: f"\\u{code:04x}" for code in (*_SPECIAL, *_SURROGATES)}


def go_json(value: object) -> str:
    """Encodes a value as one line of JSON, as Go's encoding/json does. Raises ValueError or TypeError.

    The server's JSON Patch compares a test's value with the stored value byte by byte, both as JSON, not the decoded
    strings (github.com/evanphx/json-patch, lazyNode.equal). So "é" never equals "\\u00e9", and "<" never equals
    "\\u003c". The kubernetes library encodes with json.dumps(), so such a test would always fail.
    """
    # Outside of strings, JSON does not contain the replaced characters.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)
