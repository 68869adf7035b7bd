"""Absolute paths as text, without a look at the files."""

from __future__ import annotations

from collections.abc import Iterator


def parents(path: str) -> Iterator[str]:
    """Yields all folders above an absolute path, the nearest first, up to /."""
    while path.startswith("/") and path != "/":
        folder, _, _name = path.rpartition("/")
        path = folder or "/"  # "/usr" has "" before its "/"
        yield path


def steps_to(path: str) -> list[str]:
    """The folders above an absolute path except /, the highest first, and then the path itself."""
    return [step for step in reversed([path, *parents(path)]) if step != "/"]


def is_inside(path: str, folder: str) -> bool:
    """Whether an absolute path is the folder or inside it."""
    beginning = folder.rstrip("/") + "/"  # "/" for the folder /
    return path == folder or path.startswith(beginning)


def reversed_names(path: str) -> list[str]:
    """The names in a path except ".", in reverse order, so that pop() returns the next name on the way."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]
