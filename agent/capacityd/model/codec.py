"""Converts dataclasses, NamedTuples and enums to JSON and back, for messages between processes and for files.

Decoding is strict. A value of another type, an unknown key, or a missing key without a default raises Malformed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import repeat
from math import isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

_T = TypeVar("_T")


class Malformed(ValueError):
    """The data is not the output of encode() for this type."""


def encode(value: object) -> Any:
    """Converts a value for json.dumps(). An instance of a class becomes a dict. A tuple or a set becomes a list.

    The keys of a mapping must be texts, or have a class with from_text(), the inverse of str().

    If a field's type is a union of several classes, the field's value becomes [name of the class, dict].
    """
    return _encode(type(value), value)


def decode(kind: type[_T], data: object) -> _T:
    """Restores the value that was given to encode(). kind: the value's class. Raises Malformed."""
    decoded: _T = _decode(kind, data)
    return decoded


def encode_variant(value: object) -> Any:
    """Encodes a value of one of several classes: [name of the class, encode(value)]."""
    return [type(value).__name__, encode(value)]


def decode_variant(union: Any, data: object) -> Any:
    """Restores the value that was given to encode_variant(). Raises Malformed. union: the possible classes."""
    return _decode_variant(get_args(union) or (union,), data)


def parse(content: bytes | bytearray) -> Any:
    """Parses JSON. Raises Malformed, also for NaN and infinity, and for JSON that is nested too deeply."""
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as e:
        raise Malformed("not JSON") from e


def _refuse_constant(constant: str) -> float:
    """json.loads() calls this for NaN, Infinity and -Infinity."""
    raise Malformed(f"{constant} is not JSON")


def _encode(kind: Any, value: object) -> Any:
    """Encodes a value of a declared type. If the type is a union with a container, the container must come first."""
    types = _types_without_none(kind)
    if isinstance(value, Enum):
        return value.value
    if _has_fields(value):
        own_class: Any = type(value)
        content: dict[str, Any] = {}
        for name, field_kind in _fields(own_class).items():
            content[name] = _encode(field_kind, getattr(value, name))
        return [own_class.__name__, content] if _variants(types) else content
    if isinstance(value, Mapping):
        keys = map(str, value.keys())
        values = map(_encode, _item_kinds(types[0]), value.values())
        return dict(zip(keys, values, strict=True))
    if isinstance(value, Set):
        return sorted(map(_encode, _item_kinds(types[0]), value))
    if isinstance(value, list | tuple):
        return list(map(_encode, _item_kinds(types[0]), value))
    return value


def _decode(kind: Any, data: Any) -> Any:
    if kind is Any:
        return data
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _decode_union(get_args(kind), data)
    if origin is tuple:
        return _decode_tuple(get_args(kind), data)
    if origin is frozenset:
        (item_kind,) = get_args(kind)
        return frozenset(_decode(item_kind, item) for item in _require_type(list, data))
    if origin is not None and issubclass(origin, Mapping):
        key_kind, value_kind = get_args(kind)
        content = _require_type(dict, data).items()
        return {_decode_key(key_kind, key): _decode(value_kind, item) for key, item in content}
    if issubclass(kind, Enum):
        return _construct(kind, data)
    if _has_fields(kind):
        return _decode_fields(kind, _require_type(dict, data))
    if kind is float:
        return _decode_number(data)
    return _require_type(kind, data)


def _decode_union(kinds: tuple[Any, ...], data: Any) -> Any:
    """Restores a value of the class that the data names or, if no class is named, of the first type that fits."""
    variants = _variants(kinds)
    if variants and isinstance(data, list):
        return _decode_variant(variants, data)
    for kind in kinds:
        if kind in variants:  # its data would be a list with the name of the class
            continue
        try:
            return _decode(kind, data)
        except Malformed:
            continue  # the next type may fit
    raise Malformed("not of an allowed type")


def _decode_variant(classes: tuple[Any, ...], data: Any) -> Any:
    """Restores a value from [name of its class, content]."""
    class_by_name = {kind.__name__: kind for kind in classes}
    match data:
        case [str(name), content] if name in class_by_name:
            return _decode(class_by_name[name], content)
    raise Malformed("not a variant")


def _decode_tuple(kinds: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    items = _require_type(list, data)
    if len(kinds) == 2 and kinds[1] is Ellipsis:  # as in tuple[int, ...]
        return tuple(_decode(kinds[0], item) for item in items)
    if len(items) != len(kinds):
        raise Malformed("of a wrong length")
    return tuple(_decode(kind, item) for kind, item in zip(kinds, items, strict=True))


def _decode_fields(kind: Any, data: Mapping[str, Any]) -> Any:
    declared = _fields(kind)
    unknown = data.keys() - declared.keys()
    if unknown:
        raise Malformed(f"unknown: {', '.join(sorted(unknown))}")
    values = {name: _decode(declared[name], value) for name, value in data.items()}
    return _construct(kind, **values)


def _decode_key(kind: Any, text: str) -> Any:
    return text if kind is str else kind.from_text(text)


def _decode_number(data: Any) -> float:
    if type(data) not in (int, float):
        raise Malformed("not a number")
    try:
        number = float(data)
    except OverflowError as e:
        raise Malformed("too large") from e
    if not isfinite(number):
        raise Malformed("not finite")
    return number


def _require_type(kind: type[_T], data: Any) -> _T:
    """Returns the data if it has exactly this type. Otherwise raises Malformed, even for a bool instead of an int."""
    if type(data) is not kind:
        raise Malformed(f"not a {kind.__name__}")
    return data


def _construct(kind: Any, /, *arguments: Any, **named: Any) -> Any:
    """Calls a class. Raises Malformed if the class does not accept the arguments."""
    try:
        return kind(*arguments, **named)
    except (ValueError, TypeError) as e:
        raise Malformed(str(e)) from e


def _types_without_none(kind: Any) -> tuple[Any, ...]:
    """The types of a union without None; for any other type, only the type itself."""
    if get_origin(kind) not in (Union, UnionType):
        return (kind,)
    return tuple(member for member in get_args(kind) if member is not NoneType)


def _variants(types: tuple[Any, ...]) -> tuple[Any, ...]:
    """The classes in a union that need a name in the data; empty if the union contains fewer than two classes."""
    classes = tuple(kind for kind in types if _has_fields(kind))
    return classes if len(classes) > 1 else ()


def _item_kinds(kind: Any) -> Iterator[Any]:
    """The declared type of each item of a container, or of each value of a mapping; Any if no types are declared."""
    declared = get_args(kind)
    origin = get_origin(kind)
    if not declared:
        return repeat(Any)
    if origin is tuple and Ellipsis not in declared:
        return iter(declared)
    if issubclass(origin, Mapping):
        _key_kind, value_kind = declared
        return repeat(value_kind)
    return repeat(declared[0])


def _has_fields(thing: object) -> bool:
    """Whether a class or an instance has named fields, because it is a dataclass or a NamedTuple."""
    return is_dataclass(thing) or hasattr(thing, "_fields")


@cache
def _fields(kind: Any) -> dict[str, Any]:
    """Name -> declared type, for each field of a dataclass or a NamedTuple."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    return {name: hints[name] for name in names}
