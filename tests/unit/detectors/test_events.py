"""The events that start a pass while a resource of a detector is configured."""

from __future__ import annotations

import pytest

from tests.support.readings import event_sources


@pytest.mark.parametrize(
    ("detector", "keys", "subsystems", "kernel_events"),
    [
        ("address", {}, "", "addresses links"),
        ("address", {"system": False}, "", "addresses links routes"),
        ("cpu", {}, "cpu", ""),
        ("disk", {}, "block", ""),
        ("disk", {"system": False}, "block", "mounts swaps"),  # they decide which disks are the system's
        ("filesystem", {}, "", "mounts"),
        ("memory", {}, "memory", "swaps"),
        ("nic", {}, "net", "links"),
        ("nic", {"system": False}, "net", "links routes"),
        ("pci", {}, "pci", ""),
        ("udev", {"subsystem": "tty"}, "tty", ""),
        ("usb", {}, "usb", ""),
    ],
)
def test_the_events_of_what_is_configured_start_a_pass(
    detector: str, keys: dict[str, object], subsystems: str, kernel_events: str
) -> None:
    assert event_sources(detector, keys) == (set(subsystems.split()), set(kernel_events.split()))
