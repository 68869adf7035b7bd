"""The types of values: which values a configuration can contain, and what they match. Errors: see tests/unit/config."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.schema.matchers import Value
from capacityd.schema.units import UNITS, Dimension, parse_amount
from capacityd.schema.value_types import Amount, Choice, Flag, HexId, Kind, Text


def matches(kind: Kind, written: object, value: Value) -> bool:
    return any(pattern.matches(value) for pattern in kind.parse(written))


@pytest.mark.parametrize(
    ("kind", "written", "value", "expected"),
    [
        (Text(), "A17", "A17", True),
        (Text(), "A17", "a17", False),
        (Text(), "A*", "A17", True),
        (Text(), "A?[0-9]", "A17", True),
        (Text(), "A[!0-9]7", "A17", False),
        (Text(), "[*]", "*", True),
        (Text(), "a(b[|]c)", "a(b|c)", True),  # without the brackets, it is rejected as a regular expression
        (Text(), r"[\]dev", r"\dev", True),
        (Text(), "*", None, False),  # None: the device has no value
        (Text(), "", None, True),
        (Text(), "", (), True),  # an empty list of values
        (Text(), "", "x", False),
        (Text(), ["a", "b"], "b", True),
        (Text(), "b", ("a", "b"), True),
        (Text(), "a.c", "abc", False),
        (Text(ignore_case=True), "EUI.AB", "eui.ab", True),
        (Choice(("nvme", "ssd")), ["nvme", "ssd"], "hdd", False),
        (HexId(4), "10DE", "10de", True),
        (HexId(4), "0x10de", "10DE", True),
        (HexId(4), "10*", "10de", True),
        (HexId(6, prefix_matches=True), "03", "030200", True),
        (HexId(6, prefix_matches=True), "0303", "030200", False),
        (HexId(6, prefix_matches=True), "03", ("000000", "030200"), True),
        (Flag(), True, True, True),
        (Flag(), False, None, False),
        (Amount("size"), ">=500GB", 500 * 10**9, True),
        (Amount("size"), ">500GB", 500 * 10**9, False),
        (Amount("size"), "< 1 GiB", 2**30, False),
        (Amount("size"), ">=1.5TB", 15 * 10**11, True),
        (Amount("size"), ">=100GB, <1TB", 10**12, False),
        (Amount("size"), ["<1GB", ">1TB"], 2 * 10**12, True),
        (Amount("speed"), ">=10Gbit/s", 10**10, True),
        (Amount("frequency"), ">=3.4GHz", 3_400_000_000, True),
        (Amount("frequency"), ">3400MHz", 3_400_000_000, False),
        (Amount("number"), 3, 3, True),
        (Amount("number"), ">=0", None, False),
        (Amount("number"), 1, True, False),  # a flag is no number
        (Amount("number"), ">=0", 0, True),
    ],
)
def test_each_condition_matches_its_values(kind: Kind, written: object, value: Value, expected: bool) -> None:
    assert matches(kind, written, value) is expected


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from([*UNITS["size"].items(), *UNITS["speed"].items()]))
def test_amounts_are_exact(whole: int, thousandths: int, unit: tuple[str, int]) -> None:
    name, factor = unit
    exact = (whole + Fraction(thousandths, 1000)) * factor
    text = f"{whole}.{thousandths:03}{name}"
    dimension: Dimension = "speed" if "bit" in name else "size"
    if exact.denominator == 1:
        assert parse_amount(text, dimension) == exact
    else:
        with pytest.raises(ValueError, match="not a whole number"):
            parse_amount(text, dimension)


@given(st.sampled_from([">=", "<=", ">", "<", ""]), st.integers(1, 100), st.integers(0, 100))
def test_comparisons_mean_what_they_say(sign: str, bound: int, value: int) -> None:
    expected = {">=": value >= bound, "<=": value <= bound, ">": value > bound, "<": value < bound, "": value == bound}
    assert matches(Amount("number"), f"{sign}{bound}", value) is expected[sign]


def test_a_plain_amount_has_no_comparison() -> None:
    assert Amount("speed").amount(" 1 Mbit/s ") == 10**6
    assert Amount("number").amount(7) == Amount("number").amount("7") == 7
    for dimension, raw in (("speed", ">=10Gbit/s"), ("speed", 10), ("speed", "10"), ("number", -7), ("number", True)):
        with pytest.raises(ValueError, match=r"."):
            Amount(dimension).amount(raw)  # type: ignore[arg-type]


@given(st.text(max_size=20))
def test_any_text_parses_or_is_a_value_error(text: str) -> None:
    kinds: list[Kind] = [Text(), HexId(4), HexId(6, prefix_matches=True), *map(Amount, UNITS)]
    for kind in kinds:
        try:
            patterns = kind.parse(text)
        except ValueError:
            continue
        for pattern in patterns:
            pattern.matches(text)
            pattern.matches(None)
