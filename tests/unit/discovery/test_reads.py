"""A probe reads only the files that the configuration needs, and none that hangs, changes or wakes hardware."""

from __future__ import annotations

from os.path import basename
from unittest.mock import MagicMock

import pytest

from capacityd.discovery.reader import read_resource
from capacityd.host.recording.contents import keeps_file
from capacityd.host.recording.replay import RecordedHost
from capacityd.host.system_disks import RESUME_FILE
from capacityd.model.reading import Quantity
from capacityd.schema.config import Resource
from capacityd.schema.device import DeviceDetector
from tests.support.listings import list_devices
from tests.support.machines import Recording, bare, merge, usb_device
from tests.support.readings import device_detectors, resource
from tests.unit.discovery.test_unreadable import WORLD

# On PCI, vpd and rom are slow and hang some cards, config may be masked, and resource* is the hardware itself. remove,
# reset and rescan are for writing. A read of descriptors wakes a device.
HARMFUL = ("vpd", "rom", "config", "resource", "remove", "reset", "rescan", "new_id", "bind", "unbind", "descriptors")
ADDRESSES: Recording = {"addresses": [["eth2", "ipv4", f"192.0.2.{n}", 24, "global", False] for n in (7, 8)]}


def recorder(*parts: Recording) -> MagicMock:
    """A host that notes the calls of its methods."""
    return MagicMock(wraps=RecordedHost(merge(*parts)))


def calls(host: MagicMock) -> list[tuple[str, str]]:
    """The method and the first argument of each call."""
    return [(name, str(arguments[0]) if arguments else "") for name, arguments, _ in host.mock_calls]


@pytest.mark.parametrize(
    ("wanted", "files"),  # what is configured, and all files of the device that may be read
    [
        (resource("usb", {}), {"bDeviceClass"}),
        (resource("usb", {"vendor": "0403"}), {"bDeviceClass", "idVendor"}),
        (resource("usb", {"vendor": "0403"}, excepts=({"serial": "X"},)), {"bDeviceClass", "idVendor", "serial"}),
        (resource("usb", {"attributes.speed": "*"}, {"vendor": "0403"}), {"bDeviceClass", "idVendor", "speed"}),
    ],
)
def test_only_the_configured_keys_are_read(wanted: Resource, files: set[str]) -> None:
    host = recorder(bare(), usb_device())
    assert isinstance(read_resource(wanted, host, "node"), Quantity)
    assert {path.rpartition("/")[2] for method, path in calls(host) if method == "text"} <= files
    assert {method for method, _ in calls(host)} <= {"listdir", "text", "resolve"}, "udev's database is not needed"


@pytest.mark.parametrize("detector", device_detectors(), ids=lambda detector: detector.name)
def test_no_harmful_file_is_read(detector: DeviceDetector) -> None:
    """The command `devices` reads all keys of all devices."""
    host = recorder(WORLD, ADDRESSES)
    assert list_devices(host, detector)
    read = {path for method, path in calls(host) if method in ("text", "lines", "read_file")}
    assert not [path for path in read if path.rpartition("/")[2].startswith(HARMFUL)]
    of_devices = {path for path in read if path.startswith("/sys/") and path != RESUME_FILE}
    assert not [path for path in of_devices if not keeps_file(path) and basename(path) not in detector.attributes]
    assert not [method for method, _ in calls(host) if method == "run"]
