"""Text as tests compare it."""

from __future__ import annotations

import re


def squeezed(text: str) -> str:
    """Text without separators and letter case, so that an identifier is found however it is written."""
    return re.sub(r"\\x[0-9A-Fa-f]{2}|[\W_]+", "", text).lower()
