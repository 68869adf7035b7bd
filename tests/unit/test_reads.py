"""What a probe reads of a machine: what the configuration asks for, and never what blocks, wakes hardware or writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from capacityd.detectors import load, names
from capacityd.errors import HostError
from capacityd.host.recorded import RecordedHost
from capacityd.host.source import may_be_read, may_be_walked
from capacityd.inventory import listing
from capacityd.model import DeviceDetector, Quantity, Resource
from capacityd.reading import read_resource
from tests.unit.looking import resource
from tests.unit.machines import bare, merge, usb_device
from tests.unit.test_unreadable import WORLD

MANY = [f"1-{n}" for n in range(1, 40)]
DETECTORS = [detector for name in names() if isinstance(detector := load(name), DeviceDetector)]

# vpd and rom of PCI: slow, and some cards hang; config: may be masked; resource*: the hardware itself; remove, reset,
# rescan, authorized and the like are for writing; descriptors, power and temperatures wake what sleeps.
HARMFUL = ("vpd", "rom", "config", "resource", "remove", "reset", "rescan", "new_id", "bind", "unbind", "descriptors")


class Watched:
    """A host that notes what is asked of it."""

    def __init__(self, host: RecordedHost) -> None:
        self._host = host
        self.asked: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        answer = getattr(self._host, name)

        def ask(*arguments: Any) -> Any:
            self.asked.append((name, str(arguments[0]) if arguments else ""))
            return answer(*arguments)

        return ask


def _files(asked: Resource) -> tuple[set[str], set[str]]:
    """The names of the attributes that are read of devices, and of what else is asked."""
    host = Watched(RecordedHost(merge(bare(), *(usb_device(port, number=n) for n, port in enumerate(MANY, 2)))))
    assert isinstance(read_resource(asked, host, "node"), Quantity)
    return {path.rpartition("/")[2] for what, path in host.asked if what == "text"}, {what for what, _ in host.asked}


@pytest.mark.parametrize(
    ("asked", "files"),
    [
        (resource("usb", {}), {"bDeviceClass"}),
        (resource("usb", {"vendor": "0403"}), {"bDeviceClass", "idVendor"}),
        (resource("usb", {"vendor": "0403"}, excepts=({"serial": "X"},)), {"bDeviceClass", "idVendor", "serial"}),
        (resource("usb", {"attributes.speed": "*"}, {"vendor": "0403"}), {"bDeviceClass", "idVendor", "speed"}),
    ],
)
def test_only_what_is_asked_for_is_read(asked: Resource, files: set[str]) -> None:
    read, what = _files(asked)
    assert read <= files
    assert what <= {"names", "text", "resolve"}, "udev's database is for what only it knows"


def _is_safe(path: str) -> bool:
    """As the recorder judges a file and the folders on the way to it: it may do no harm on any machine."""
    parts = path.split("/")
    return may_be_read(path) and all(may_be_walked("/".join(parts[:n])) for n in range(2, len(parts)))


def test_each_attribute_is_read_once_for_a_device() -> None:
    host = Watched(RecordedHost(merge(bare(), usb_device("1-1"))))
    read_resource(resource("usb", {"vendor": "0529"}, {"vendor": "0403", "product": "6001"}), host, "node")
    texts = [path for what, path in host.asked if what == "text"]
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.name)
def test_nothing_is_read_that_could_do_harm(detector: DeviceDetector) -> None:
    """All keys of all devices, as "devices" reads them."""
    host = Watched(RecordedHost(WORLD))
    try:
        listing(host, detector)
    except HostError:
        assert detector.name not in ("usb", "pci", "nic", "disk")
    read = {path for what, path in host.asked if what in ("text", "lines", "content")}
    assert not [path for path in read if path.rpartition("/")[2].startswith(HARMFUL)]
    assert not [path for path in read if path.startswith("/sys/") and not _is_safe(path)]
    assert not [what for what, _ in host.asked if what == "run"]
