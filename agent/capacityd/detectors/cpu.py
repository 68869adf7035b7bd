"""cpu: the machine's processors as one device with several measures. Offline processors do not count."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capacityd.model.errors import HostError
from capacityd.model.host import Host
from capacityd.schema.device import Device, DeviceDetector, DeviceKey
from capacityd.schema.matchers import Value
from capacityd.schema.value_types import Amount


def find(_: Host) -> Iterator[Device]:
    """Yields one device for all processors."""
    # /sys has no folder for all processors together. "/" stands in for one: udev has no properties of a device "/".
    yield Device(path="/", name="cpu")


def _reader_of(measure: str) -> Callable[[Host, Device], Value]:
    """Returns the function that reads a measure of the processors.

    That function raises HostError if the machine does not report the measure. The value is then unknown, not missing,
    because every processor has it.
    """

    def read(host: Host, _: Device) -> Value:
        value = host.processors(measure)
        if value is None:
            raise HostError(f"this machine does not report its {measure}")
        return value

    return read


DETECTOR = DeviceDetector(
    name="cpu",
    about="the machine's processors, all together as one device; offline processors do not count",
    find=find,
    keys={
        "cores": DeviceKey(Amount("number"), _reader_of("cores"), "physical cores, as licences count them"),
        "threads": DeviceKey(
            Amount("number"), _reader_of("threads"), "logical processors, several for each core with Hyper-Threading"
        ),
        "sockets": DeviceKey(
            Amount("number"),
            _reader_of("sockets"),
            "sockets with a processor; some ARM, RISC-V and POWER machines do not report them",
        ),
        "max_frequency": DeviceKey(
            Amount("frequency"),
            _reader_of("max_frequency"),
            "the highest frequency of the fastest core, as its driver reports it; most virtual machines report none",
        ),
    },
    identifying_keys=(),
    model_keys=(),
    udev_subsystems=("cpu",),
    shown_by_default=False,
)
