"""The detector pool: how many addresses of a range pods can use."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.config import load as load_config
from capacityd.discovery.reader import read_resource
from capacityd.model.reading import Contribution, Quantity
from capacityd.schema.address_ranges import ADDRESS_RANGES, NETWORKS
from tests.support.machines import machine
from tests.support.readings import value_detector

DETECTOR = value_detector("pool")


def pool_size(cidr: object, *excepted: str) -> int:
    exceptions = ADDRESS_RANGES.parse([*excepted]) if excepted else None
    contribution = DETECTOR.read(machine(), {"cidr": NETWORKS.parse(cidr), "except": exceptions})
    assert isinstance(contribution, Contribution)
    return int(contribution.amount)


@pytest.mark.parametrize(
    ("cidr", "excepted", "size"),
    [
        ("192.0.2.0/24", [], 254),
        ("192.0.2.0/29", [], 6),
        (["192.0.2.0/29", "192.0.2.0/32", "192.0.2.7/32"], [], 8),
        ("192.0.2.0/23", [], 510),
        ("192.0.2.192/26", [], 62),
        ("192.0.2.0/31", [], 2),
        ("::ffff:192.0.2.0/120", [], 254),
        ("192.0.2.7/32", [], 1),
        ("2001:db8::/120", [], 255),
        ("2001:db8::/127", [], 2),
        ("2001:db8::/64", [], 2**64 - 1),
        (["192.0.2.0/24", "192.0.2.0/25"], [], 254),
        (["192.0.2.0/30", "::/126"], [], 5),
        ("192.0.2.0/24", ["192.0.2.1", "192.0.2.1-192.0.2.3"], 251),
        ("192.0.2.0/24", ["192.0.2.0", "192.0.2.255"], 254),
        ("192.0.2.0/24", ["0.0.0.0/0", "2001:db8::1"], 0),
    ],
)
def test_the_size_of_a_pool_is_that_of_its_ranges_without_the_exceptions(
    cidr: object, excepted: list[str], size: int
) -> None:
    assert pool_size(cidr, *excepted) == size


# Small networks and small ranges around 0.0.0.0, so that they often overlap.
PREFIXES = st.tuples(st.integers(0, 40), st.integers(25, 32)).map(lambda t: str(ip_network(t, strict=False)))
RANGES = st.tuples(st.integers(0, 40), st.integers(0, 9)).map(lambda t: (t[0], t[0] + t[1]))


@given(st.lists(PREFIXES, min_size=1, max_size=5), st.lists(RANGES, max_size=5))
def test_size_is_that_of_the_set_of_addresses(cidr: list[str], excepted: list[tuple[int, int]]) -> None:
    included: set[int] = set()
    for network in map(ip_network, cidr):
        numbers = [int(address) for address in network]
        included.update(numbers[1:-1] if len(numbers) > 2 else numbers)  # without network and broadcast address
    excluded = {n for first, last in excepted for n in range(first, last + 1)}
    ranges = [f"0.0.0.{first}-0.0.0.{last}" for first, last in excepted]
    assert pool_size(cidr, *ranges) == len(included - excluded)


def pool_reading(folder: Path, written: str) -> Quantity:
    """The reading of a resource with these lines in its table."""
    (folder / "x.toml").write_text(f'[resources."example.com/x"]\n{written}\n')
    (resource,) = load_config(str(folder / "x.toml")).require().resources
    reading = read_resource(resource, machine(), "node")
    assert isinstance(reading, Quantity)
    return reading


def test_overlapping_networks_count_for_each_table(tmp_path: Path) -> None:
    reading = pool_reading(
        tmp_path, 'pool = [{ cidr = ["10.0.0.0/24", "10.0.0.0/25"] }, { cidr = "10.0.0.0/25", except = "10.0.0.1" }]'
    )
    assert [(c.device, c.amount, c.note) for c in reading.contributions] == [
        ("10.0.0.0/24, 10.0.0.0/25", 254, ""),
        ("10.0.0.0/25", 125, "1 excepted"),
    ]


@pytest.mark.parametrize(
    "written",
    [
        'pool = { cidr = "2001:db8::/66" }',
        'pool = { cidr = "2001:db8::/64", except = "2001:db8::1:0-2001:db8::ffff:ffff:ffff:ffff" }',
        'pool = [{ cidr = "2001:db8::/64" }, { cidr = "2001:db8:1::/110" }]\nreduce = "min"',
        'pool = { cidr = "2001:db8::/75" }\nreserve = "50%"',
    ],
)
def test_a_range_may_be_large_if_the_quantity_is_not(tmp_path: Path, written: str) -> None:
    assert pool_reading(tmp_path, written).value > 0
