"""The machine's memory and swap: which measures have a value, and which are unknown."""

from __future__ import annotations

from capacityd.host.live import LiveHost
from capacityd.model.reading import Absent, Quantity
from tests.support.machines import machine, memory
from tests.support.readings import counted, quantity, read, values

GIB = "GiB"
HOST = machine(memory(size=33_567_850_496, swap=8_589_930_496))


def test_one_device_has_both_sizes() -> None:
    assert values(HOST, "memory", "size") == {"memory": 33_567_850_496}
    assert quantity(HOST, "memory", measure="size", unit=GIB) == 31  # rounded down
    assert quantity(HOST, "memory", measure="swap", unit=GIB) == 7
    assert counted(HOST, "memory", {"size": ">=31GiB", "swap": ">0B"}) == ["memory"]


def test_without_swap_it_is_0_or_absent_if_the_table_wants_some() -> None:
    host = machine(memory(swap=0))
    reading = read(host, "memory", measure="swap", unit=GIB)
    assert isinstance(reading, Quantity)
    assert (reading.value, reading.warning) == (0, "")
    assert isinstance(read(host, "memory", {"swap": ">0B"}, measure="swap", unit=GIB), Absent)


def test_memory_has_no_udev_properties_or_attributes() -> None:
    for host in (HOST, LiveHost()):
        for key in ("properties.ID_PATH", "attributes.uevent"):
            assert counted(host, "memory", {key: "*"}) == []
