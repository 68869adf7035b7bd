"""The machine's processors and memory: which measures have a value, and which are unknown."""

from __future__ import annotations

import pytest

from capacityd.host.live import LiveHost
from capacityd.model.reading import Absent, Quantity, Unknown
from tests.support.machines import machine, memory, processors
from tests.support.readings import counted, quantity, read, values

MEASURES = {"cores": 64, "threads": 128, "sockets": 2, "max_frequency": 3_400_000_000}
HOST = machine(processors(**MEASURES), memory(size=33_567_850_496, swap=8_589_930_496))


def test_one_device_has_all_measures_of_the_processors() -> None:
    for measure, number in MEASURES.items():
        assert values(HOST, "cpu", measure) == {"cpu": number}
        assert quantity(HOST, "cpu", measure=measure) == number
    assert quantity(HOST, "cpu", measure="max_frequency", unit="MHz") == 3400
    assert counted(HOST, "cpu", {"cores": ">=64", "sockets": "2", "max_frequency": ">=3.4GHz"}) == ["cpu"]


@pytest.mark.parametrize("missing", MEASURES)
def test_a_measure_that_the_machine_does_not_report_is_unknown(missing: str) -> None:
    """The measure is not absent, because the machine has processors."""
    host = machine(processors(**{**MEASURES, missing: None}))
    unknown = {measure for measure in MEASURES if isinstance(read(host, "cpu", measure=measure), Unknown)}
    assert unknown == {missing}
    reading = read(host, "cpu", measure=missing)
    assert isinstance(reading, Unknown)
    assert f"cpu: this machine does not report its {missing}; fallback" in reading.reason
    any_value = ">=1Hz" if missing == "max_frequency" else ">=1"
    assert isinstance(read(host, "cpu", {missing: any_value}), Unknown)
    assert quantity(host, "cpu", measure=missing, fallback=7) == 7
    assert counted(host, "cpu") == ["cpu"]


def test_one_device_has_the_sizes_of_the_memory_and_of_the_swap() -> None:
    assert values(HOST, "memory", "size") == {"memory": 33_567_850_496}
    assert quantity(HOST, "memory", measure="size", unit="GiB") == 31  # rounded down
    assert quantity(HOST, "memory", measure="swap", unit="GiB") == 7
    assert counted(HOST, "memory", {"size": ">=31GiB", "swap": ">0B"}) == ["memory"]


def test_without_swap_the_quantity_is_0_or_absent_if_the_table_requires_swap() -> None:
    host = machine(memory(swap=0))
    reading = read(host, "memory", measure="swap", unit="GiB")
    assert isinstance(reading, Quantity)
    assert (reading.value, reading.warning) == (0, "")
    assert isinstance(read(host, "memory", {"swap": ">0B"}, measure="swap", unit="GiB"), Absent)


def test_memory_has_no_udev_properties_or_attributes() -> None:
    for host in (HOST, LiveHost()):
        for key in ("properties.ID_PATH", "attributes.uevent"):
            assert counted(host, "memory", {key: "*"}) == []
