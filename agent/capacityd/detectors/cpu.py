"""cpu: the machine's processors as one device, with their numbers as measures. Offline processors do not count."""

from __future__ import annotations

from collections.abc import Iterator

from capacityd.model.errors import HostError
from capacityd.model.host import Host
from capacityd.schema.device import Device, DeviceDetector, DeviceKey
from capacityd.schema.matchers import Value
from capacityd.schema.value_types import Amount


def find(_: Host) -> Iterator[Device]:
    """Yields one device for all processors."""
    # /sys has no folder for all processors together. "/" replaces it, because udev has no properties of a device "/".
    yield Device(path="/", name="cpu")


def _measure(key: str, kind: Amount, about: str) -> DeviceKey:
    """A measure of the processors.

    If the machine does not report the measure, the value is unknown. It is not missing: every processor has it.
    """

    def read(host: Host, _: Device) -> Value:
        value = host.processors(key)
        if value is None:
            raise HostError(f"this machine does not report its {key}")
        return value

    return DeviceKey(kind, read, about)


DETECTOR = DeviceDetector(
    name="cpu",
    about="the machine's processors, all together as one device; offline processors do not count",
    find=find,
    keys={
        "cores": _measure("cores", Amount("number"), "physical cores, as licences count them"),
        "threads": _measure(
            "threads", Amount("number"), "logical processors, several for each core with Hyper-Threading"
        ),
        "sockets": _measure(
            "sockets", Amount("number"), "sockets with a processor; unknown on some ARM and RISC-V machines"
        ),
        "max_frequency": _measure(
            "max_frequency",
            Amount("frequency"),
            "the highest frequency of the fastest core, as its driver reports it; most virtual machines report none",
        ),
    },
    identifying_keys=(),
    model_keys=(),
    udev_subsystems=("cpu",),
    shown_by_default=False,
)
