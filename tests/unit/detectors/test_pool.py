"""How many addresses a range has for pods."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.config import load as load_config
from capacityd.discovery.reader import read_resource
from capacityd.model.address_ranges import AddressRange, AddressRanges
from capacityd.model.reading import Quantity
from tests.support.machines import machine
from tests.support.readings import value_detector

DETECTOR = value_detector("pool")


def pool(cidr: object, *excepted: str) -> int:
    settings = {
        "cidr": AddressRanges(networks=True).parse(cidr),
        "except": AddressRanges().parse([*excepted]) if excepted else None,
    }
    return int(DETECTOR.read(machine(), settings).amount)


@pytest.mark.parametrize(
    ("cidr", "excepted", "size"),
    [
        ("192.0.2.0/24", [], 254),
        ("192.0.2.0/31", [], 2),
        ("192.0.2.7/32", [], 1),
        ("10.0.0.0/8", [], 2**24 - 2),
        ("2001:db8::/120", [], 255),
        ("2001:db8::/127", [], 2),
        ("2001:db8::1/128", [], 1),
        ("2001:db8::/64", [], 2**64 - 1),
        (["192.0.2.0/25", "192.0.2.128/25"], [], 252),
        (["192.0.2.0/24", "192.0.2.0/25"], [], 254),
        (["192.0.2.0/30", "2001:db8::/126"], [], 5),
        (["192.0.2.0/30", "::/126"], [], 5),
        ("192.0.2.0/24", ["192.0.2.1", "192.0.2.1-192.0.2.3"], 251),
        ("192.0.2.0/24", ["192.0.2.0", "192.0.2.255"], 254),
        ("192.0.2.0/24", ["198.51.100.1", "2001:db8::1"], 254),
        ("192.0.2.0/24", ["0.0.0.0/0"], 0),
    ],
)
def test_sizes(cidr: object, excepted: list[str], size: int) -> None:
    assert pool(cidr, *excepted) == size


small = st.integers(0, 40).map(lambda n: AddressRange("", 32, n, n)) | st.tuples(
    st.integers(0, 40), st.integers(0, 9)
).map(lambda t: AddressRange("", 32, t[0], t[0] + t[1]))


@given(st.lists(small, min_size=1, max_size=5), st.lists(small, max_size=5))
def test_size_is_that_of_the_set_of_addresses(networks: list[AddressRange], excepted: list[AddressRange]) -> None:
    contribution = DETECTOR.read(machine(), {"cidr": tuple(networks), "except": tuple(excepted)})
    included = {n for span in map(AddressRange.usable, networks) for n in range(span.first, span.last + 1)}
    excluded = {n for span in excepted for n in range(span.first, span.last + 1)}
    assert contribution.amount == len(included - excluded)


@pytest.mark.parametrize(
    ("written", "value", "contributions"),
    [
        (
            '[{ cidr = "192.0.2.0/24", except = "192.0.2.1" }, { cidr = ["198.51.100.0/28", "10.0.0.0/30"] }]'
            "\nreserve = 7",
            253 + 16 - 7,
            [("192.0.2.0/24", 253, "1 excepted"), ("198.51.100.0/28, 10.0.0.0/30", 16, "")],
        ),
        # The networks of one table do not count twice, those of several tables do.
        ('{ cidr = ["10.0.0.0/24", "10.0.0.0/25"] }', 254, [("10.0.0.0/24, 10.0.0.0/25", 254, "")]),
        (
            '[{ cidr = "10.0.0.0/24" }, { cidr = "10.0.0.0/25" }]',
            254 + 126,
            [("10.0.0.0/24", 254, ""), ("10.0.0.0/25", 126, "")],
        ),
    ],
)
def test_tables_add_up(tmp_path: Path, written: str, value: int, contributions: list[object]) -> None:
    (tmp_path / "x.toml").write_text(f'[resources."example.com/x"]\npool = {written}\n')
    (resource,) = load_config(str(tmp_path / "x.toml")).require().resources
    reading = read_resource(resource, machine(), "node")
    assert isinstance(reading, Quantity)
    assert reading.value == value
    assert [(c.device, c.amount, c.note) for c in reading.contributions] == contributions
