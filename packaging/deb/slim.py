"""slim.py FOLDER: takes out of the modules in it what only people and tools read; what is left stays on its line.

That is comments, docstrings, and the types of functions' parameters. The package is a quarter smaller for it, and a
traceback still names lines of the sources. A module that would then be another program stops the build.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Cut(NamedTuple):
    """Lines count from 1; columns from 0, in bytes of UTF-8."""

    line: int
    column: int
    last: int
    end: int
    instead: bytes = b""


def slim(source: str) -> str:
    """The same program. Raises ValueError if it would be another one."""
    lines = source.encode().split(b"\n")
    tree = ast.parse(source)
    # From the end, so that what stands before keeps its place.
    for cut in sorted([*_texts(tree), *_comments(source), *_types(tree, lines)], reverse=True):
        before, after = lines[cut.line - 1][: cut.column], lines[cut.last - 1][cut.end :]
        left = before + cut.instead + after if after else (before + cut.instead).rstrip()
        lines[cut.line - 1 : cut.last] = [left, *[b""] * (cut.last - cut.line)]
    slimmed = b"\n".join(lines).decode()
    if _program(slimmed) != _program(source):
        raise ValueError("it would be another program")
    return slimmed


def _texts(tree: ast.Module) -> Iterator[Cut]:
    """Strings that stand alone: docstrings, and what is said of the constant above."""
    for body in _bodies(tree):
        for text in filter(_is_text, body):
            # A body can't be empty.
            yield _whole(text, b"pass" if len(body) == 1 else b"")


def _comments(source: str) -> Iterator[Cut]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.start != (1, 0):
            row, column = token.start
            yield Cut(row, len(token.line[:column].encode()), row, len(token.line.rstrip("\n").encode()))


def _types(tree: ast.Module, lines: list[bytes]) -> Iterator[Cut]:
    """Of parameters and results: nothing reads them when the program runs, unlike those of a class' fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            named = node.col_offset + len(node.arg.encode())
            yield _whole(node.annotation)._replace(line=node.lineno, column=named)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            result = _whole(node.returns)
            if result.line == result.last:  # else a line would end within the statement
                yield result._replace(column=lines[result.line - 1].rindex(b")", 0, result.column) + 1)


def _whole(node: ast.expr | ast.stmt, instead: bytes = b"") -> Cut:
    return Cut(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0, instead)


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    return [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _program(source: str) -> tuple[str, list[tuple[str, int]]]:
    """Everything that is executed, and the lines where it stands."""
    tree = ast.parse(source)
    for body in _bodies(tree):
        body[:] = [statement for statement in body if not (_is_text(statement) or isinstance(statement, ast.Pass))]
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree), [(type(n).__name__, n.lineno) for n in ast.walk(tree) if hasattr(n, "lineno")]


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).rglob("*.py")):
        try:
            path.write_text(slim(path.read_text("utf-8")), "utf-8")
        except ValueError as error:
            sys.exit(f"{path}: {error}")
