"""slim.py FOLDER: takes comments and docstrings out of the modules in it; all that is left stays where it is.

The package is a third smaller for it, and a traceback still names lines of the sources. A module that would then be
another program stops the build.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path


def slim(source: str) -> str:
    """The same program without what only people read. Raises ValueError if it would be another one."""
    lines = source.split("\n")
    for body in _bodies(ast.parse(source)):
        for text in filter(_is_text, body):
            # A body can't be empty.
            _cut(lines, text.lineno, text.col_offset, "pass" if len(body) == 1 else "")
            lines[text.lineno : text.end_lineno] = [""] * ((text.end_lineno or 0) - text.lineno)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.start != (1, 0):
            _cut(lines, token.start[0], len(token.line[: token.start[1]].encode()), "")
    slimmed = "\n".join(lines)
    if _program(slimmed) != _program(source):
        raise ValueError("without its comments it would be another program")
    return slimmed


def _cut(lines: list[str], number: int, column: int, instead: str) -> None:
    """column: in bytes of UTF-8, as ast counts."""
    kept = lines[number - 1].encode()[:column].decode()
    lines[number - 1] = (kept + instead).rstrip()


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.body for node in ast.walk(tree) if isinstance(node, kinds)]


def _is_text(statement: ast.stmt) -> bool:
    """A string that stands alone: a docstring, or what is said of the constant above it."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _program(source: str) -> list[tuple[str, int, int]]:
    """Everything that is executed, and where it stands."""
    tree = ast.parse(source)
    for body in _bodies(tree):
        body[:] = [statement for statement in body if not (_is_text(statement) or isinstance(statement, ast.Pass))]
    structure = [(ast.dump(tree), 0, 0)]
    return structure + [
        (type(node).__name__, node.lineno, node.col_offset) for node in ast.walk(tree) if hasattr(node, "lineno")
    ]


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).rglob("*.py")):
        try:
            path.write_text(slim(path.read_text("utf-8")), "utf-8")
        except ValueError as error:
            sys.exit(f"{path}: {error}")
