"""The kinds of value: what a configuration may write, what it says of mistakes, and what matches."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.kinds import UNITS, Amount, Bounds, Choice, Flag, HexId, Kind, Text, amount, said
from capacityd.model import Value


def matches(kind: Kind, written: object, value: Value) -> bool:
    return any(pattern.matches(value) for pattern in kind.parse(written))


@pytest.mark.parametrize(
    ("kind", "written", "value", "expected"),
    [
        (Text(), "A17", "A17", True),
        (Text(), "A17", "a17", False),
        (Text(), "A17", "A170", False),
        (Text(), "A*", "A17", True),
        (Text(), "A?7", "A17", True),
        (Text(), "A[0-9]7", "A17", True),
        (Text(), "A[!0-9]7", "A17", False),
        (Text(), "[*]", "*", True),
        (Text(), "*", None, False),
        (Text(), "*", "", False),
        (Text(), "", None, True),
        (Text(), "", "", True),
        (Text(), "", (), True),
        (Text(), "", "x", False),
        (Text(), ["a", "b"], "b", True),
        (Text(), "b", ("a", "b"), True),
        (Text(), "c", ("a", "b"), False),
        (Text(), ["", "x"], None, True),
        (Text(), "a.c", "abc", False),
        (Text(fold=True), "EUI.AB", "eui.ab", True),
        (Choice(("nvme", "ssd")), "ssd", "ssd", True),
        (Choice(("nvme", "ssd")), ["nvme", "ssd"], "hdd", False),
        (HexId(4), "10DE", "10de", True),
        (HexId(4), "0x10de", "10DE", True),
        (HexId(4), "10*", "10de", True),
        (HexId(4), "", None, True),
        (HexId(6, prefix=True), "03", "030200", True),
        (HexId(6, prefix=True), "0302", "030200", True),
        (HexId(6, prefix=True), "0303", "030200", False),
        (HexId(6, prefix=True), "03", ("000000", "030200"), True),
        (Flag(), True, True, True),
        (Flag(), False, True, False),
        (Flag(), False, None, False),
        (Amount("size"), ">=500GB", 500 * 10**9, True),
        (Amount("size"), ">500GB", 500 * 10**9, False),
        (Amount("size"), "1GiB", 2**30, True),
        (Amount("size"), "< 1 GiB", 2**30, False),
        (Amount("size"), ">=1.5TB", 15 * 10**11, True),
        (Amount("size"), ">=100GB, <1TB", 5 * 10**11, True),
        (Amount("size"), ">=100GB, <1TB", 10**12, False),
        (Amount("size"), ["<1GB", ">1TB"], 2 * 10**12, True),
        (Amount("speed"), ">=10Gbit/s", 10**10, True),
        (Amount("speed"), "10000Mbit/s", 10**10, True),
        (Amount("number"), 3, 3, True),
        (Amount("number"), ">=1", 0, False),
        (Amount("number"), ">=0", None, False),
        (Amount("number"), "<5", "3", False),
        (Amount("number"), 1, True, False),
    ],
)
def test_matches(kind: Kind, written: object, value: Value, expected: bool) -> None:
    assert matches(kind, written, value) is expected


@pytest.mark.parametrize(
    ("kind", "written", "message"),
    [
        (Text(), 2838, 'must be text in quotes: "2838", not the number 2838'),
        (Text(), True, "must be text in quotes, or a list of them, not true"),
        (Text(), {}, "not a table"),
        (Text(), [], "is an empty list, which nothing can match"),
        (Text(), ["a", 1], 'in quotes: "1"'),
        (Choice(("nvme", "ssd")), "sdd", '"sdd" is none of: nvme, ssd'),
        (HexId(4), 2838, "in quotes"),
        (HexId(4), "10d", 'did you mean "010d"?'),
        (HexId(4), "10dee", "4 hexadecimal digits"),
        (HexId(4), "10dg", "0-9 and a-f"),
        (HexId(6, prefix=True), "0302000", "at most 6 hexadecimal digits"),
        (Flag(), "true", 'must be true or false, not the text "true"'),
        (Amount("size"), ">=500", "no unit"),
        (Amount("size"), ">=500gb", 'did you mean "GB"?'),
        (Amount("size"), ">=500Gbit/s", "units of size are"),
        (Amount("speed"), ">=10GB", "units of speed are"),
        (Amount("size"), "=>500GB", "not a comparison"),
        (Amount("size"), "", "not a comparison"),
        (Amount("size"), "big", "not a comparison"),
        (Amount("size"), "-5GB", "not a comparison"),
        (Amount("size"), "0.1B", "not a whole number of bytes"),
        (Amount("number"), "3GB", "no unit"),
        (Amount("number"), True, "not true"),
        (Amount("size"), 500, 'in quotes: "500"'),
    ],
)
def test_mistakes_are_told_with_what_is_right(kind: Kind, written: object, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        kind.parse(written)
    assert message in str(raised.value)


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from([*UNITS["size"].items(), *UNITS["speed"].items()]))
def test_amounts_are_exact(whole: int, thousandths: int, unit: tuple[str, int]) -> None:
    name, factor = unit
    exact = (whole + Fraction(thousandths, 1000)) * factor
    text = f"{whole}.{thousandths:03}{name}"
    dimension = "speed" if "bit" in name else "size"
    if exact.denominator == 1:
        assert amount(text, dimension) == exact
    else:
        with pytest.raises(ValueError, match="not a whole number"):
            amount(text, dimension)


@given(st.sampled_from([">=", "<=", ">", "<", ""]), st.integers(0, 100), st.integers(0, 100))
def test_comparisons_mean_what_they_say(sign: str, bound: int, value: int) -> None:
    expected = {">=": value >= bound, "<=": value <= bound, ">": value > bound, "<": value < bound, "": value == bound}
    assert matches(Amount("number"), f"{sign}{bound}", value) is expected[sign]


@pytest.mark.parametrize(("raw", "value"), [("10Gbit/s", 10**10), (" 1 Mbit/s ", 10**6)])
def test_an_amount_without_comparison(raw: str, value: int) -> None:
    assert Amount("speed").amount(raw) == value


@pytest.mark.parametrize("raw", [">=10Gbit/s", 10, -1, True, None, "10"])
def test_an_amount_without_comparison_is_strict(raw: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        Amount("speed").amount(raw)


def test_numbers_without_unit() -> None:
    assert Amount("number").amount(7) == 7
    assert Amount("number").amount("7") == 7
    with pytest.raises(ValueError, match="must be written"):
        Amount("number").amount(-7)


@given(st.text(max_size=20))
def test_any_text_parses_or_is_told_as_a_mistake(text: str) -> None:
    for kind in (Text(), HexId(4), HexId(6, prefix=True), Amount("size"), Amount("speed"), Amount("number")):
        try:
            patterns = kind.parse(text)
        except ValueError:
            continue
        for pattern in patterns:
            pattern.matches(text)
            pattern.matches(None)


def test_missing_never_fits_a_comparison() -> None:
    assert not Bounds(((">=", 0),)).matches(None)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (True, "true"),
        (1, "the number 1"),
        (1.5, "the number 1.5"),
        ("x", 'the text "x"'),
        ([], "a list"),
        ({}, "a table"),
    ],
)
def test_said(raw: object, text: str) -> None:
    assert said(raw) == text
