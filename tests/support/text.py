"""Normalizes text for comparisons in tests."""

from __future__ import annotations

import re


def squeezed(text: str) -> str:
    """The text in lower case without separators and escapes (\\x20), to find an identifier in any notation."""
    return re.sub(r"\\x[0-9A-Fa-f]{2}|[\W_]+", "", text).lower()
