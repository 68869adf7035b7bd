"""The machine's memory and swap: what is measured, and what is unknown."""

from __future__ import annotations

import pytest

from capacityd.host.live import LiveHost
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.host import Host
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.model.value_types import Unit
from tests.support.machines import bare, machine, memory
from tests.support.readings import counted, quantity, read, values

GIB = Unit("GiB", 2**30)
HOST = machine(memory(size=33_567_850_496, swap=8_589_930_496))


def test_one_device_has_both_sizes() -> None:
    assert values(HOST, "memory", "size") == {"memory": 33_567_850_496}
    assert quantity(HOST, "memory", measure="size", unit=GIB) == 31  # rounded down
    assert quantity(HOST, "memory", measure="swap", unit=GIB) == 7


@pytest.mark.parametrize(
    ("keys", "matches"),
    [
        ({"size": ">=31GiB"}, True),
        ({"size": ">=32GiB"}, False),
        ({"swap": ">0B"}, True),
        ({"swap": "0B"}, False),
    ],
)
def test_matches(keys: dict[str, object], matches: bool) -> None:
    assert counted(HOST, "memory", keys) == ["memory"] * matches


def test_without_swap_it_is_0_or_absent_if_the_table_wants_some() -> None:
    host = machine(memory(swap=0))
    reading = read(host, "memory", measure="swap", unit=GIB)
    assert isinstance(reading, Quantity)
    assert (reading.value, reading.warning) == (0, "")
    assert isinstance(read(host, "memory", {"swap": ">0B"}, measure="swap", unit=GIB), Absent)


def test_a_recording_without_memory_is_unknown() -> None:
    reading = read(RecordedHost({"files": bare()["files"]}), "memory")
    assert isinstance(reading, Unknown)
    assert reading.reason == 'the recording has no part "memory": record the machine again'
    refused = machine({"unknown": {"memory": ["EIO", "the memory could not be read: EIO"]}})
    assert isinstance(read(refused, "memory"), Unknown)


@pytest.mark.parametrize("host", [HOST, LiveHost()], ids=["recorded", "live"])
@pytest.mark.parametrize("key", ["properties.ID_PATH", "attributes.uevent"])
def test_it_is_not_a_device_of_udev(host: Host, key: str) -> None:
    assert counted(host, "memory", {key: "*"}) == []
