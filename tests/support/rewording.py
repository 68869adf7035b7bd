"""Replaces the text of all messages, to show that no code depends on it.

Latin letters become Cyrillic ones, and ";" and ":" become other characters, so that no word or separator is left for
code to find. The replacement is one to one and idempotent: output with replaced messages, replaced once more, equals
the replaced usual output.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import capacityd
from capacityd.cli.commands import status
from capacityd.config import merge
from capacityd.model.errors import CapacitydError
from capacityd.reconcile import condition, machine_record
from capacityd.worker import runtime_files

Set = Callable[[Any, str, object], None]
"""setattr or monkeypatch.setattr."""

_USUAL = f"{ascii_lowercase}{ascii_uppercase};:"
_REPLACED = [*range(0x430, 0x430 + 26), *range(0x410, 0x410 + 26), 0xA6, 0x2236]
_TABLE = str.maketrans(_USUAL, "".join(map(chr, _REPLACED)))
_MESSAGES = frozenset(
    (
        *("reason", "message", "warning", "note", "advice", "error"),
        *("doubt", "excepted", "unwritable", "conflict", "incomplete_because"),
    )
)
_NOT_OURS = {  # class and field -> what the field holds
    ("Condition", "reason"): "an identifier of the Kubernetes API",
    ("Condition", "message"): "the Node's current message",
    ("Event", "reason"): "an identifier of the Kubernetes API",
}
_FUNCTIONS = (  # each returns a message
    *((status, "_note"), (status, "_stale_reason"), (merge, "_summary")),
    *((machine_record, "not_writable"), (runtime_files, "unwritable")),
)
_FILE_KEYS = _MESSAGES | {"errors", "event_source_errors"}


def reword(text: str) -> str:
    """Returns the replaced text."""
    return text.translate(_TABLE)


def install(put: Set = setattr) -> None:
    """Makes values, exceptions and the Node condition contain replaced messages."""
    found = {(kind, field.name) for kind in _dataclasses() for field in dataclasses.fields(kind)}
    assert not _MESSAGES - {name for _, name in found}, "a message field that no class has"
    assert not _NOT_OURS.keys() - {(kind.__name__, name) for kind, name in found}, "no such class or field"
    for kind in {kind for kind, _ in found}:
        names = sorted(n for k, n in found if k is kind and n in _MESSAGES and (k.__name__, n) not in _NOT_OURS)
        if names:
            put(kind, "__init__", _rewording(kind.__init__, names))
    put(CapacitydError, "__init__", _rewording(_error, ["message"]))
    for module, name in _FUNCTIONS:
        put(module, name, _reworded_by(getattr(module, name)))
    put(condition, "_changed", _rewording(condition._changed, ["message"]))


def reword_files(folder: Path) -> None:
    """Replaces the messages in the JSON files of a folder."""
    for path in folder.glob("*.json"):
        path.write_text(json.dumps(_reworded(json.loads(path.read_text()))))


def _error(self: CapacitydError, message: str = "") -> None:
    Exception.__init__(self, message)


def _dataclasses() -> Iterator[type[Any]]:
    for module in pkgutil.walk_packages(capacityd.__path__, "capacityd."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(value) and dataclasses.is_dataclass(value) and value.__module__ == module.name:
                    yield value


def _rewording(call: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    """Returns a function that replaces the text of these arguments."""
    signature = inspect.signature(call)

    def reworded(*args: object, **named: object) -> Any:
        given = signature.bind(*args, **named)
        given.arguments |= {n: reword(given.arguments[n]) for n in names if isinstance(given.arguments.get(n), str)}
        return call(*given.args, **given.kwargs)

    return reworded


def _reworded_by(make: Callable[..., str]) -> Callable[..., str]:
    return lambda *args: reword(make(*args))


def _reworded(value: Any, message: bool = False) -> Any:
    if isinstance(value, dict):
        return {key: _reworded(item, key in _FILE_KEYS) for key, item in value.items()}
    if isinstance(value, list):
        return [_reworded(item, message) for item in value]
    return reword(value) if message and isinstance(value, str) else value
