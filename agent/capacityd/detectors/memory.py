"""memory: the machine's memory and swap as one device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from capacityd.model.host import Host
from capacityd.model.reasons import KernelEvents
from capacityd.schema.device import Device, DeviceDetector, cached_key
from capacityd.schema.value_types import Amount


def find(host: Host) -> Iterator[Device]:
    """Yields one device for the memory and the swap."""
    # Memory has no folder in /sys. "/" stands in for one: udev has no properties of a device "/".
    yield Device(path="/", name="memory", cached_values=asdict(host.memory()))


DETECTOR = DeviceDetector(
    name="memory",
    about="the machine's memory and swap, all together as one device",
    find=find,
    keys={
        "size": cached_key(
            "size",
            Amount("size"),
            "the kernel's memory, used and free, as the kubelet publishes it; a little less than the installed memory",
        ),
        "swap": cached_key(
            "swap",
            Amount("size"),
            'all swap areas together, used and free; 0 on a machine without swap, where swap = ">0B" does not match',
        ),
    },
    identifying_keys=(),
    model_keys=(),
    udev_subsystems=("memory",),
    kernel_events=frozenset({KernelEvents.SWAPS}),
    shown_by_default=False,
)
