"""Which USB devices count, and the values of their keys."""

from __future__ import annotations

import pytest

from tests.support.machines import Recording, files, machine, merge, usb_device, usb_hub, usb_path, usb_root
from tests.support.readings import counted, values

AT_1_1 = usb_path("1-1")
PHONE = usb_device("1-3", "18d1", "4ee7", interfaces=[("ff4201", None), ("080650", "usb-storage"), ("060101", None)])
CAMERA = usb_device("1-1", device_class="ef0201", interfaces=[("0e0100", "uvcvideo"), ("0e0200", "uvcvideo")])
CODES = {"Class": "02", "SubClass": "0d", "Protocol": "00"}
STICK = usb_device("1-2", device_class="000000", interfaces=[("080650", "usb-storage")])
CONFIGURATION_2 = merge(  # an interface of its second configuration
    usb_device(interfaces=()),
    files({f"{AT_1_1}/1-1:2.0/bInterface{part}": code for part, code in CODES.items()}),
)
EXPORTED = merge(  # to another machine, with USB/IP
    usb_device(interfaces=[]),
    {"links": {f"{AT_1_1}/driver": "/sys/bus/usb/drivers/usbip-host"}},
    files({"/sys/bus/usb/drivers/usbip-host/uevent": ""}),
)
HUBS = [usb_root(1), usb_root(2), usb_hub("1-1"), usb_device("1-1.2"), usb_device("1-1.10", number=4)]
SERIALS = [usb_device("1-1", serial=None), usb_device("1-2", serial="A1"), usb_device("1-3", serial="A1")]
REFUSED = merge(usb_device("1-2", interfaces=()), files({f"{usb_path('1-2')}/authorized": "0\n"}))
ADMITTED = merge(usb_device("1-1"), files({f"{AT_1_1}/authorized": "1\n"}))
WITH_PROPERTIES = usb_device("1-1", properties={"ID_VENDOR_ENC": "FTDI", "ID_MODEL": "caf\udce9"})


@pytest.mark.parametrize(
    ("parts", "keys", "devices"),  # the machine, the keys of a table, and the devices that count
    [
        ([], {}, []),
        ([usb_root(1), usb_device("1-1", interfaces=[]), PHONE], {}, ["1-1", "1-3"]),
        (HUBS, {}, ["1-1.10", "1-1.2"]),
        (HUBS, {"hub": True}, ["1-1"]),
        ([CAMERA, STICK], {"class": "0e"}, ["1-1"]),
        ([CAMERA, STICK], {"class": "0806"}, ["1-2"]),
        ([CAMERA, STICK], {"class": "00"}, []),
        ([usb_device("1-1", vendor="04aB"), usb_device("1-2", "0529")], {"vendor": ["dead", "04ab"]}, ["1-1"]),
        (SERIALS, {"serial": "A1"}, ["1-2", "1-3"]),
        (SERIALS, {"serial": ""}, ["1-1"]),
        (HUBS, {"port": "1-1.2"}, ["1-1.2"]),
        # An unauthorized device has no interfaces (Documentation/usb/authorization.rst).
        ([ADMITTED, REFUSED], {"vendor": "0403"}, ["1-1", "1-2"]),
        ([ADMITTED, REFUSED], {"attributes.authorized": "1"}, ["1-1"]),
        ([ADMITTED, REFUSED], {"class": "ff"}, ["1-1"]),
        ([WITH_PROPERTIES, usb_device("1-2", number=3)], {"attributes.nothing": ""}, ["1-1", "1-2"]),
        ([WITH_PROPERTIES], {"properties.ID_VENDOR_ENC": "FTDI", "properties.ID_MODEL": r"caf\xe9"}, ["1-1"]),
    ],
)
def test_each_key_matches_its_devices(parts: list[Recording], keys: dict[str, object], devices: list[str]) -> None:
    assert counted(machine(*parts), "usb", keys) == devices


def test_a_device_counts_once_for_several_tables_and_not_at_all_if_excepted() -> None:
    host = machine(usb_device("1-1", serial="A17"), usb_device("1-2", serial="B03"), usb_device("1-3", serial="C1"))
    tables: list[dict[str, object]] = [{"vendor": "0403"}, {"product": "6001"}, {}]
    assert counted(host, "usb", *tables, excepts=({"serial": ["A17", "B03"]},)) == ["1-3"]


def without(file: str) -> Recording:
    """A USB device that lacks a file."""
    device = usb_device(device_class="ef0201")
    del device["files"][AT_1_1 + file]
    return device


@pytest.mark.parametrize(
    ("one", "key", "value"),
    [
        (CAMERA, "class", ("0e0100", "0e0200", "ef0201")),
        (STICK, "class", ("080650",)),
        *((without(file), "class", ("ffffff",)) for file in ("/bDeviceProtocol", "/bDeviceClass")),
        (without("/1-1:1.0/bInterfaceSubClass"), "class", ("ef0201",)),
        (CONFIGURATION_2, "class", ("020d00",)),
        (usb_device(interfaces=[]), "driver", ()),
        (usb_device(interfaces=[("030101", "usbhid")] * 3), "driver", ("usbhid",)),
        (EXPORTED, "driver", ("usbip-host",)),
        (usb_device(manufacturer="FTDI", model="FT232R"), "model", "FT232R"),
    ],
)
def test_each_key_has_its_value(one: Recording, key: str, value: object) -> None:
    assert list(values(machine(one), "usb", key).values()) == [value]
