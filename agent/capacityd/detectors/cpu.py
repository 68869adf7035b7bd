"""cpu: the machine's processors as one device, with their numbers as measures. Offline processors do not count."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capacityd.model.errors import HostError
from capacityd.model.host import Host
from capacityd.schema.device import Device, DeviceDetector, DeviceKey
from capacityd.schema.matchers import Value
from capacityd.schema.value_types import Amount


def find(_: Host) -> Iterator[Device]:
    """Yields one device for all processors."""
    # No path in /sys stands for all processors. udev knows no device "/".
    yield Device(path="/", name="cpu")


def _measure_reader(key: str) -> Callable[[Host, Device], Value]:
    """Returns the function that reads a measure.

    That function raises HostError if the machine does not report the measure. Every processor has the measure, so the
    measure is unknown, not missing.
    """

    def read(host: Host, _: Device) -> Value:
        value = host.processors(key)
        if value is None:
            raise HostError(f"this machine does not report its {key}")
        return value

    return read


DETECTOR = DeviceDetector(
    name="cpu",
    about="the machine's processors, all together as one device; offline processors do not count",
    find=find,
    keys={
        "cores": DeviceKey(Amount("number"), _measure_reader("cores"), "physical cores, as licences count them"),
        "threads": DeviceKey(
            Amount("number"),
            _measure_reader("threads"),
            "logical processors, several for each core with Hyper-Threading",
        ),
        "sockets": DeviceKey(
            Amount("number"),
            _measure_reader("sockets"),
            "sockets with a processor; unknown on some ARM and RISC-V machines",
        ),
        "max_frequency": DeviceKey(
            Amount("frequency"),
            _measure_reader("max_frequency"),
            "the highest frequency of the fastest core, as its driver reports it; most virtual machines report none",
        ),
    },
    identifying_keys=(),
    model_keys=(),
    udev_subsystems=("cpu",),
    shown_by_default=False,
)
