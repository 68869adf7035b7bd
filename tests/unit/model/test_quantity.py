"""Quantities are compared by value, as the Kubernetes client parses them. Names are checked by Kubernetes' rules."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.quantity import LARGEST_QUANTITY, name_problem, parse_quantity, parse_whole_number, whole_quantity

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
signs, fractions = st.sampled_from(["", "+", "-"]), st.sampled_from(["", ".", ".5", ".125", ".0"])
numbers = st.builds("{}{}{}".format, signs, st.integers(0, 10**12), fractions)  # such as "-12.5"


def parsed_by_client(text: str) -> Decimal:
    """The value that the Kubernetes client parses."""
    from kubernetes.utils import quantity as client  # takes a second to import, and no other test needs it

    return Decimal(client.parse_quantity(text))


@given(numbers, st.sampled_from(SUFFIXES))
def test_a_quantity_is_parsed_as_the_client_does(number: str, suffix: str) -> None:
    text = f"{number}{suffix}"
    with localcontext() as exact:
        exact.prec = 100  # the client rounds to 28 digits
        assert Fraction(*parse_quantity(text)) == Fraction(parsed_by_client(text))


@given(numbers, st.integers(-30, 30), st.sampled_from("eE"))
def test_an_exponent_is_a_power_of_ten(number: str, exponent: int, e: str) -> None:
    value = Fraction(*parse_quantity(f"{number}{e}{exponent}"))
    assert value == Fraction(Decimal(number)) * Fraction(10) ** exponent


@given(st.integers(0, LARGEST_QUANTITY))
def test_a_whole_number_is_the_same_in_any_notation(number: int) -> None:
    notations = [str(number), f"{number}.0", f"+{number}", f"{number}000m", f"{number}e0", f"0{number}"]
    if number % 1000 == 0:
        notations += [f"{number // 1000}k", f"{number // 1000}e3"]
    if number % 1024 == 0:
        notations.append(f"{number // 1024}Ki")
    for text in notations:
        assert whole_quantity(text) == number
    for text in (str(number), f"00{number}"):
        assert parse_whole_number(text) == number
    assert whole_quantity(f"{number}.5") is None
    assert whole_quantity(f"-{number}") == -number


@pytest.mark.parametrize(
    "text",
    ["", ".", "+", "-", "k", "1 k", " 1", "1K", "1ki", "1kk", "1e", "1e3k", "0x10", "1_000", "٣", "1\n", "NaN", "e3"],
)
def test_a_text_that_is_no_quantity_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)
    assert whole_quantity(text) is None


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        numerator, denominator = parse_quantity(text)
    except ValueError:
        assert whole_quantity(text) is None
        return
    assert denominator >= 1
    assert parsed_by_client(text.replace("e+", "e")) == Decimal(numerator) / Decimal(denominator)


@pytest.mark.parametrize("text", ["", "-1", "1.0", "1e3", "1k", "٣", "²", " 1", str(LARGEST_QUANTITY + 1), "9" * 5000])
def test_a_text_that_is_no_whole_number_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        parse_whole_number(text)
    assert len(str(raised.value)) < 150


@pytest.mark.parametrize("name", ["a/b", "1.2/3", "x-1.example.com/NIC_m.v1-" + "y" * 53, f"{'d' * 63}.com/a"])
def test_a_valid_name_of_a_resource_has_no_problem(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("dongle", "needs a domain"),
        ("example.com/a/b", "only one slash"),
        ("node.kubernetes.io/x", "reserved for Kubernetes"),
        ("requests.example.com/x", 'may not begin with "requests."'),
        ("Example.com/x", "in lower case"),
        ("exam_ple.com/x", "DNS name"),
        ("example.com\n/x", "DNS name"),
        ("example.com/" + "x" * 64, "64 characters after the slash"),
        ("example.com/x.", "after the slash"),
        ("example.com/a\n", "after the slash"),
        ("d" * 250 + "/x", "the limit is 244"),
    ],
)
def test_an_invalid_name_of_a_resource_has_its_problem(name: str, problem: str) -> None:
    assert problem in name_problem(name)
