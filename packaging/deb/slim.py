"""slim.py FOLDER: takes out of the modules in it what only people and tools read; what is left stays on its line.

That is comments, docstrings, and types with what is imported for them. Only the types of a class' fields stay:
dataclasses read them. The package is a quarter smaller for it, and a traceback still names lines of the sources. A
module that would then be another program stops the build.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_OF_TYPES = ("collections.abc", "typing")  # to import them does nothing, so what is not used need not be


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
    blocks = [_whole(node) for node in tree.body if _is_for_checkers(node)]
    cuts = [*_texts(tree), *_comments(source), *_types(tree, lines), *_imports(tree, _used(_executed(source)))]
    cuts = [cut for cut in cuts if not any(block[:2] < cut[:2] < block[2:4] for block in blocks)]
    # From the end, so that what stands before keeps its place.
    for cut in sorted([*blocks, *cuts], reverse=True):
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
    """Of parameters, results and variables; what a program does does not depend on them, unlike on those of fields."""
    fields = _fields(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            cut = _whole(node.annotation)._replace(column=node.col_offset + len(node.arg.encode()))
        elif isinstance(node, ast.AnnAssign) and node.value is not None and node not in fields:
            cut = _whole(node.annotation)._replace(column=node.target.end_col_offset or 0)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            result = _whole(node.returns)
            cut = result._replace(column=lines[result.line - 1].rindex(b")", 0, result.column) + 1)
        else:
            continue
        if cut.line == cut.last:  # else a line would end within the statement
            yield cut


def _imports(tree: ast.Module, used: set[str]) -> Iterator[Cut]:
    """Of types that nothing uses when the program runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in _OF_TYPES and node.lineno == node.end_lineno:
            names = [one.name for one in node.names if one.name in used]
            left = f"from {node.module} import {', '.join(names)}".encode() if names else b""
            yield _whole(node, left)


def _whole(node: ast.expr | ast.stmt, instead: bytes = b"") -> Cut:
    return Cut(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0, instead)


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    return [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]


def _fields(tree: ast.Module) -> set[ast.stmt]:
    return {field for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for field in node.body}


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _is_for_checkers(statement: ast.stmt) -> bool:
    """TYPE_CHECKING = False, or a block with nothing but this as its condition."""
    named = statement.targets[0] if isinstance(statement, ast.Assign) else None
    named = statement.test if isinstance(statement, ast.If) and not statement.orelse else named
    return isinstance(named, ast.Name) and named.id == "TYPE_CHECKING"


class _Executed(ast.NodeTransformer):
    """Takes the same out of a tree: a second opinion on what was taken out of the text."""

    def __init__(self, tree: ast.Module) -> None:
        self._fields = _fields(tree)

    def _statement(self, node: ast.stmt) -> ast.AST | None:
        of_types = isinstance(node, ast.ImportFrom) and node.module in _OF_TYPES
        if _is_text(node) or _is_for_checkers(node) or isinstance(node, ast.Pass) or of_types:
            return None
        if isinstance(node, ast.AnnAssign) and node.value is not None and node not in self._fields:
            node = ast.copy_location(ast.Assign([node.target], node.value), node)
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        return self.generic_visit(node)

    def visit(self, node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.arg):
            node.annotation = None
        return self._statement(node) if isinstance(node, ast.stmt) else self.generic_visit(node)


def _executed(source: str) -> ast.Module:
    tree = ast.parse(source)
    _Executed(tree).visit(tree)
    return tree


def _used(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _imported(source: str) -> set[str]:
    """The names of types that it imports when it runs."""
    run = [node for node in ast.parse(source).body if not _is_for_checkers(node)]
    found = [n for s in run for n in ast.walk(s) if isinstance(n, ast.ImportFrom) and n.module in _OF_TYPES]
    return {one.name for node in found for one in node.names}


def _program(source: str) -> tuple[str, list[tuple[str, int]], set[str]]:
    """Everything that is executed, the lines where it stands, and which imported types it uses."""
    tree = _executed(source)
    lines = [(type(node).__name__, node.lineno) for node in ast.walk(tree) if hasattr(node, "lineno")]
    return ast.dump(tree), lines, _imported(source) & _used(tree)


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).rglob("*.py")):
        try:
            path.write_text(slim(path.read_text("utf-8")), "utf-8")
        except ValueError as error:
            sys.exit(f"{path}: {error}")
