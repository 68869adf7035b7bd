"""How results look as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Lines of aligned columns, the last one ragged; right: the numbers of those that are aligned to the right."""
    width: dict[int, int] = {}
    for row in rows:
        for n, cell in enumerate(row):
            width[n] = max(width.get(n, 0), len(cell))
    return [
        "  ".join(cell.rjust(width[n]) if n in right else cell.ljust(width[n]) for n, cell in enumerate(row)).rstrip()
        for row in rows
    ]


def clean(text: str) -> str:
    """A text as it may stand on a terminal: what isn't printable (a command to the terminal, say) is escaped."""
    if text.isprintable():
        return text
    from capacityd.printable import printable

    return printable(text)


def as_json(value: object) -> str:
    """JSON as people can read it too; what isn't printable in it is escaped."""
    import json

    text = json.dumps(value, indent=2, ensure_ascii=False)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
