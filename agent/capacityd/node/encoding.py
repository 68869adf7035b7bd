"""Encodes JSON as the API server does, which uses Go's encoding/json.

The server's JSON Patch compares a guard with the stored value byte by byte, both encoded, not the strings that they
stand for (github.com/evanphx/json-patch, lazyNode.equal). So "é" never equals "\\u00e9", nor "<" "\\u003c". The
kubernetes library encodes with json.dumps(), so such a guard would always fail.
"""

from __future__ import annotations

import json
import re

_AS_GO = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
# A stored string never contains a lone surrogate: the server decodes one as U+FFFD.
_AS_GO |= {half: f"\\u{half:04x}" for half in range(0xD800, 0xE000)}
_BEFORE_1_22 = {r"\b": r"\u0008", r"\f": r"\u000c"}


def encode(value: object) -> str:
    """Encodes a value as JSON on one line. Raises ValueError or TypeError for what JSON cannot express."""
    # Outside of strings, JSON contains none of the replaced characters.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_AS_GO)


def encode_before_go_1_22(value: object) -> str:
    """Encodes as Kubernetes before 1.30 does, whose version of Go escapes a backspace and a form feed otherwise."""
    return re.sub(r"\\.", lambda escape: _BEFORE_1_22.get(escape[0], escape[0]), encode(value))
