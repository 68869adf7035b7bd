"""Encoded values are decoded unchanged. All other input raises Malformed, never another exception or a wrong type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.codec import Malformed, decode, decode_variant, encode, encode_variant, parse
from capacityd.model.file_codec import from_file, to_file


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """A class with every kind of field."""

    name: str
    colour: Colour | None = None
    points: tuple[Point, ...] = ()
    size: tuple[int, str] = (0, "")
    weights: Mapping[str, float] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    amount: int | float = 0
    whole: bool = True
    anything: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name == "refused":
            raise ValueError(self.name)


@dataclass(frozen=True, slots=True)
class Hole:
    depth: float


Thing: TypeAlias = Shape | Hole


@dataclass(frozen=True, slots=True)
class Place:
    """Its fields are unions with one class, which is stored without its name."""

    at: str | Point
    hole: Hole | None = None


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Its fields are those of Hole."""

    depth: float


@dataclass(frozen=True, slots=True)
class Map:
    """Fields that contain one of several classes."""

    things: Mapping[str, Thing]
    way: Hole | Tunnel | None = None
    ways: tuple[Hole | Tunnel, ...] = ()


texts = st.text(max_size=6)
numbers = st.floats(allow_nan=False, allow_infinity=False)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
shapes = st.builds(
    Shape,
    texts.filter(lambda name: name != "refused"),
    st.none() | st.sampled_from(Colour),
    st.lists(st.builds(Point, st.integers(), st.integers()), max_size=2).map(tuple),
    st.tuples(st.integers(), texts),
    st.dictionaries(texts, numbers, max_size=2),
    st.frozensets(texts, max_size=3),
    st.integers() | numbers,
    st.booleans(),
    st.dictionaries(texts, documents, max_size=2),
)
WHOLE = encode(Shape("a", Colour.RED, (Point(1, 2),), (3, "b"), {"c": 1.5}, frozenset({"d"}), 4, False, {"e": [None]}))
REFUSED: dict[str, list[Any]] = {  # a key of WHOLE, and values that its type does not allow
    "name": [None, 7, ["a"]],
    "colour": ["green", 1],
    "points": [None, "text", [7], {"x": 1}],
    "size": [[], [1], [1, 2], [1, "a", 3], ["a", "a"], [True, "a"]],
    "weights": [[], {"a": "b"}, {"a": True}],
    "tags": [{}, [7]],
    "amount": [True, "7", None],
    "whole": [1, None],
    "anything": [[], None],
}


@given(shapes)
def test_a_value_comes_back_unchanged(shape: Shape) -> None:
    assert decode(Shape, json.loads(json.dumps(encode(shape)))) == shape
    assert from_file(Shape, to_file(shape, "1.0"), "1.0") == shape


@given(shapes | st.builds(Hole, numbers))
def test_a_variant_comes_back_unchanged(thing: Thing) -> None:
    assert decode_variant(Thing, json.loads(json.dumps(encode_variant(thing)))) == thing


@pytest.mark.parametrize("place", [Place("a"), Place(Point(1, 2)), Place("a", Hole(3.0))])
def test_a_field_with_one_class_and_other_types_comes_back_unchanged(place: Place) -> None:
    assert decode(Place, json.loads(json.dumps(encode(place)))) == place


@given(st.dictionaries(texts, shapes | st.builds(Hole, numbers), max_size=2), numbers)
def test_a_field_with_one_of_several_classes_comes_back_unchanged(things: Mapping[str, Thing], depth: float) -> None:
    value = Map(things, Tunnel(depth), (Tunnel(depth), Hole(depth)))
    assert decode(Map, json.loads(json.dumps(encode(value)))) == value


@pytest.mark.parametrize("way", [{"depth": 1.0}, ["Shape", {"depth": 1.0}], ["Hole"], ["Hole", {"depth": "1"}], "Hole"])
def test_a_class_is_never_read_as_another(way: object) -> None:
    with pytest.raises(Malformed):
        decode(Map, {"things": {}, "way": way})


@given(documents)
def test_any_json_is_malformed_or_comes_back_unchanged(document: Any) -> None:
    for read in (lambda: decode(Shape, document), lambda: decode_variant(Thing, document)):
        with pytest.raises(Malformed):
            assert encode(read()) == document


@pytest.mark.parametrize("key", WHOLE)
def test_a_value_of_another_type_is_malformed(key: str) -> None:
    for value in REFUSED[key]:
        with pytest.raises(Malformed):
            decode(Shape, WHOLE | {key: value})


@pytest.mark.parametrize(
    "data",
    [
        WHOLE | {"other": 1},
        {key: value for key, value in WHOLE.items() if key != "name"},
        WHOLE | {"points": [{"y": 1}]},
        WHOLE | {"points": [{"x": 1, "z": 1}]},
        WHOLE | {"name": "refused"},
        WHOLE | {"weights": {"c": 10**400}},
    ],
)
def test_other_keys_and_refused_values_are_malformed(data: Any) -> None:
    with pytest.raises(Malformed):
        decode(Shape, data)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5_000, b"NaN", b"[Infinity]", b"\0"]
)
def test_what_is_not_json_is_malformed(content: bytes) -> None:
    with pytest.raises(Malformed):
        parse(content)


def test_a_changed_byte_is_malformed_or_changes_nothing() -> None:
    """Each bit of each byte is changed, even if the result is still JSON of the right shape."""
    content = to_file(decode(Shape, WHOLE), "1.0")
    for at in range(len(content)):
        for bit in range(8):
            damaged = content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :]
            try:
                assert encode(from_file(Shape, damaged, "1.0")) == WHOLE, damaged
            except Malformed:
                continue


def test_a_file_of_another_version_is_malformed() -> None:
    shape = decode(Shape, WHOLE)
    for content in (to_file(shape, "1.1"), json.dumps(WHOLE | {"version": "1.0"}).encode()):
        with pytest.raises(Malformed):
            from_file(Shape, content, "1.0")
