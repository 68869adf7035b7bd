"""How results look as text."""

from __future__ import annotations

import json
from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of aligned columns, the last one ragged."""
    width: dict[int, int] = {}
    for row in rows:
        for n, cell in enumerate(row):
            width[n] = max(width.get(n, 0), len(cell))
    return ["  ".join(cell.ljust(width[n]) for n, cell in enumerate(row)).rstrip() for row in rows]


def as_json(value: object) -> str:
    """JSON as people can read it too."""
    return json.dumps(value, indent=2, ensure_ascii=False)
