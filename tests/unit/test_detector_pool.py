"""How many addresses a range has."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.config import load as load_config
from capacityd.detectors import load
from capacityd.model import Quantity, Unknown, ValueDetector
from capacityd.reading import read_resource
from capacityd.settings import Span, Spans
from tests.unit.machines import machine


def pool(cidr: object, *excepted: str) -> int:
    detector = load("pool")
    assert isinstance(detector, ValueDetector)
    settings = {"cidr": Spans(networks=True).parse(cidr), "except": Spans().parse([*excepted]) if excepted else None}
    return int(detector.read(machine(), settings).contributes)


@pytest.mark.parametrize(
    ("cidr", "excepted", "size"),
    [
        ("192.0.2.0/24", [], 254),
        ("192.0.2.0/30", [], 2),
        ("192.0.2.0/31", [], 2),
        ("192.0.2.7/32", [], 1),
        ("10.0.0.0/8", [], 2**24 - 2),
        ("0.0.0.0/0", [], 2**32 - 2),
        ("2001:db8::/120", [], 255),
        ("2001:db8::/127", [], 2),
        ("2001:db8::1/128", [], 1),
        ("2001:db8::/64", [], 2**64 - 1),
        (["192.0.2.0/25", "192.0.2.128/25"], [], 252),
        (["192.0.2.0/24", "192.0.2.0/24"], [], 254),
        (["192.0.2.0/24", "192.0.2.0/25"], [], 254),
        (["192.0.2.0/30", "2001:db8::/126"], [], 5),
        (["192.0.2.0/30", "::/126"], [], 5),
        ("192.0.2.0/24", ["192.0.2.1"], 253),
        ("192.0.2.0/24", ["192.0.2.1", "192.0.2.1-192.0.2.3"], 251),
        ("192.0.2.0/24", ["192.0.2.0", "192.0.2.255"], 254),
        ("192.0.2.0/24", ["192.0.2.128/25"], 127),
        ("192.0.2.0/24", ["198.51.100.1", "2001:db8::1"], 254),
        ("192.0.2.0/24", ["0.0.0.0/0"], 0),
    ],
)
def test_sizes(cidr: object, excepted: list[str], size: int) -> None:
    assert pool(cidr, *excepted) == size


small = st.integers(0, 40).map(lambda n: Span("", 32, n, n)) | st.tuples(st.integers(0, 40), st.integers(0, 9)).map(
    lambda t: Span("", 32, t[0], t[0] + t[1])
)


@given(st.lists(small, min_size=1, max_size=5), st.lists(small, max_size=5))
def test_it_counts_as_one_would_by_hand(networks: list[Span], excepted: list[Span]) -> None:
    detector = load("pool")
    assert isinstance(detector, ValueDetector)
    found = detector.read(machine(), {"cidr": tuple(networks), "except": tuple(excepted)})
    there = {n for span in map(Span.usable, networks) for n in range(span.first, span.last + 1)}
    not_there = {n for span in excepted for n in range(span.first, span.last + 1)}
    assert found.contributes == len(there - not_there)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('{ cidr = "192.0.2.1/24" }', 'did you mean "192.0.2.0/24"?'),
        ('{ cidr = "192.0.2.1" }', "is no network"),
        ('{ cidr = "192.0.2.0/33" }', "is no IP address or network"),
        ('{ cidr = "x/24" }', "is no IP address or network"),
        ("{ cidr = 4 }", "must be text such as"),
        ("{ cidr = [] }", "is an empty list"),
        ('{ cidr = "10.0.0.0/24", except = "10.0.0.9-10.0.0.1" }', "is no range"),
        ('{ cidr = "10.0.0.0/24", except = "10.0.0.1-2001:db8::1" }', "is no range"),
        ('{ cidr = "10.0.0.0/24", except = "10.0.0.1-9" }', "is no IP address"),
        ("{}", "cidr: is missing"),
    ],
)
def test_mistakes(tmp_path: Path, written: str, expected: str) -> None:
    (tmp_path / "x.toml").write_text(f'[resources."example.com/x"]\npool = {written}\n')
    (problem,) = load_config(str(tmp_path / "x.toml")).problems
    assert expected in str(problem)


def test_reserve_and_several_tables(tmp_path: Path) -> None:
    text = 'pool = [{ cidr = "192.0.2.0/24", except = "192.0.2.1" }, { cidr = ["198.51.100.0/28", "10.0.0.0/30"] }]\n'
    text += "reserve = 7\n"
    (tmp_path / "x.toml").write_text(f'[resources."example.com/x"]\n{text}')
    (resource,) = load_config(str(tmp_path / "x.toml")).require().resources
    reading = read_resource(resource, machine(), "node")
    assert isinstance(reading, Quantity)
    assert reading.value == 253 + 16 - 7
    assert [(e.device, e.contributes, e.note) for e in reading.evidence] == [
        ("192.0.2.0/24", 253, "1 excepted"),
        ("198.51.100.0/28, 10.0.0.0/30", 16, ""),
    ]


def test_tables_add_up_and_networks_of_one_table_do_not_count_twice(tmp_path: Path) -> None:
    one, two = '{ cidr = ["10.0.0.0/24", "10.0.0.0/25"] }', '[{ cidr = "10.0.0.0/24" }, { cidr = "10.0.0.0/25" }]'
    for written, size in ((one, 254), (two, 254 + 126)):
        (tmp_path / "x.toml").write_text(f'[resources."example.com/x"]\npool = {written}\n')
        (resource,) = load_config(str(tmp_path / "x.toml")).require().resources
        reading = read_resource(resource, machine(), "node")
        assert isinstance(reading, Quantity)
        assert reading.value == size


def test_more_than_kubernetes_can_count_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text('[resources."example.com/x"]\npool = { cidr = "2001:db8::/64" }\n')
    (resource,) = load_config(str(tmp_path / "x.toml")).require().resources
    assert isinstance(read_resource(resource, machine(), "node"), Unknown)
