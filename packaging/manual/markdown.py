"""Markdown helpers for the pages, and the conversion of Markdown to manual pages with go-md2man."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence


def page(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


def for_man(*parts: str) -> str:
    """Converts Markdown to roff. Lists of terms, and tables (too wide for a terminal), become definition lists."""
    text = re.sub(r"^\| (key|field) \|.*\n\|---.*\n", "", page(*parts), flags=re.MULTILINE)
    text = re.sub(r"^\| (`|the object).*\|$", _row_for_man, text, flags=re.MULTILINE)
    text = re.sub(r"^- (`.*?`): (.*)$", r"\1\n: \2\n", text, flags=re.MULTILINE)
    roff = subprocess.run(["/usr/bin/go-md2man"], input=text, capture_output=True, encoding="utf-8", check=True).stdout
    return roff.replace(r"\fC", "")  # Debian 12's go-md2man selects this font; Debian 13's groff lacks it


def _row_for_man(row: re.Match[str]) -> str:
    key, of, *default, text = (cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row[0])[1:-1])
    more = f" (default: {default[0]})" if any(default) else ""
    return f"{key}{' =' if default else ':'} *{of.replace('`', '')}*\n: {text}{more}\n"


def escaped(text: str) -> str:
    """Escapes asterisks and brackets outside of `code`."""
    pieces = text.split("`")
    return "`".join(re.sub(r"([*<\[\]])", r"\\\1", p) if n % 2 == 0 else p for n, p in enumerate(pieces))


def terms(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- `{term}`: {escaped(text)}" for term, text in rows)


def table(rows: Iterable[Sequence[str]]) -> str:
    """Returns a table. rows: key, type, default ("" for none), meaning."""
    cells = ([f"`{key}`", escaped(of), default and f"`{default}`", escaped(text)] for key, of, default, text in rows)
    lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in cells]
    return "\n".join(["| key | value | default | |", "|---|---|---|---|", *(f"| {line} |" for line in lines)])


def code(kind: str, text: str) -> str:
    return f"```{kind}\n{text.rstrip()}\n```"
