"""The annotation that lists capacityd's keys and their published numbers.

Anybody who may patch Nodes can write the annotation, so invalid entries are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from capacityd.model.key import Key
from capacityd.model.quantity import LARGEST_QUANTITY, name_problem


def published_in(annotation: str | None) -> dict[Key, int]:
    """Key -> published number, from the annotation's text. Skips invalid entries.

    annotation: None if the Node has no annotation.
    """
    published: dict[Key, int] = {}
    for text, number in _content(annotation).items():
        key = Key.from_text(text)
        if not isinstance(number, int) or isinstance(number, bool):  # in Python, True is an int
            continue
        if 0 <= number <= LARGEST_QUANTITY and not name_problem(key.name):
            published[key] = number
    return published


def annotation_text(published: Mapping[Key, int]) -> str | None:
    """The annotation's text for these numbers; None if no annotation is needed."""
    if not published:
        return None
    content = {str(key): number for key, number in published.items()}
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def why_unreadable(annotation: str | None) -> str:
    """Why an annotation, or a part of it, can't be read; "" if it can be read or is missing."""
    if annotation is None:
        return ""
    if _parsed(annotation) is None:
        return "it is not a JSON object"
    readable = {str(key) for key in published_in(annotation)}
    unreadable = [text for text in sorted(_content(annotation)) if text not in readable]
    return f"not a number of an extended resource: {', '.join(unreadable)}" if unreadable else ""


def is_annotated(annotation: str | None, published: Mapping[Key, int]) -> bool:
    """Whether the annotation contains exactly these numbers. annotation: None if the Node has no annotation."""
    if not published:
        return annotation is None
    has_nothing_else = len(_content(annotation)) == len(published)
    return has_nothing_else and published_in(annotation) == published


def _content(annotation: str | None) -> dict[str, object]:
    """The annotation's JSON object; empty if the annotation is missing, or is not a JSON object."""
    return _parsed(annotation) or {}


def _parsed(annotation: str | None) -> dict[str, object] | None:
    """The annotation's JSON object; None if the annotation is missing, or is not a JSON object."""
    try:
        content = json.loads(annotation or "")
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
