"""What facts of USB the detector must know: each test is a bug that somebody had."""

from __future__ import annotations

import pytest

from capacityd.model import Absent, Unknown
from tests.unit.looking import counted, look, values
from tests.unit.machines import errors, files, machine, merge, usb_device, usb_hub, usb_path, usb_root


def test_counts_devices_and_never_interfaces() -> None:
    phone = usb_device(
        "1-3", "18d1", "4ee7", interfaces=[("ff4201", None), ("080650", "usb-storage"), ("060101", None)]
    )
    host = machine(usb_root(1), usb_device("1-1"), phone)
    assert counted(host, "usb") == ["1-1", "1-3"]


def test_leaves_out_root_hubs_always_and_hubs_unless_asked_for() -> None:
    host = machine(usb_root(1), usb_root(2), usb_hub("1-1"), usb_device("1-1.2"), usb_device("1-1.10", number=4))
    assert counted(host, "usb") == ["1-1.10", "1-1.2"]
    assert counted(host, "usb", {"hub": True}) == ["1-1"]


def test_class_00_means_that_it_stands_in_the_interfaces_and_counts_once() -> None:
    camera = usb_device("1-1", device_class="ef0201", interfaces=[("0e0100", "uvcvideo"), ("0e0200", "uvcvideo")])
    stick = usb_device("1-2", device_class="000000", interfaces=[("080650", "usb-storage")])
    host = machine(camera, stick)
    assert values(host, "usb", "class") == {"1-1": ("0e0100", "0e0200", "ef0201"), "1-2": ("080650",)}
    assert counted(host, "usb", {"class": "0e"}) == ["1-1"]
    assert counted(host, "usb", {"class": "0806"}) == ["1-2"]
    assert counted(host, "usb", {"class": "00"}) == []


@pytest.mark.parametrize("written", ["0403", "0x0403", "04*", ["dead", "0403"]])
def test_ids_are_four_digits_however_they_are_written(written: object) -> None:
    host = machine(usb_device("1-1", vendor="0403"), usb_device("1-2", vendor="0529"))
    assert counted(host, "usb", {"vendor": written}) == ["1-1"]


def test_ids_match_without_regard_to_case() -> None:
    assert counted(machine(usb_device(vendor="abcd")), "usb", {"vendor": "ABCD"}) == ["1-1"]


def test_serial_numbers_may_be_missing_or_identical() -> None:
    host = machine(usb_device("1-1", serial=None), usb_device("1-2", serial="0001"), usb_device("1-3", serial="0001"))
    assert counted(host, "usb", {"serial": "0001"}) == ["1-2", "1-3"]
    assert counted(host, "usb", {"serial": ""}) == ["1-1"]


def test_the_port_stays_when_numbers_change_on_replug() -> None:
    before, after = usb_device("1-1.2", number=5), usb_device("1-1.2", number=17)
    for host in (machine(before), machine(after)):
        assert counted(host, "usb", {"port": "1-1.2"}) == ["1-1.2"]


def test_a_device_counts_whether_it_has_nodes_and_drivers_or_none() -> None:
    host = machine(usb_device("1-1", interfaces=[]), usb_device("1-2", interfaces=[("030101", "usbhid")] * 3))
    assert counted(host, "usb") == ["1-1", "1-2"]
    assert values(host, "usb", "driver") == {"1-1": (), "1-2": ("usbhid",)}
    assert counted(host, "usb", {"driver": ""}) == ["1-1"]


def test_a_driver_can_have_a_device_as_a_whole() -> None:
    """As that has which hands a device on to another machine (USB/IP)."""
    one = merge(
        usb_device(interfaces=[]),
        {"links": {f"{usb_path('1-1')}/driver": "/sys/bus/usb/drivers/usbip-host"}},
        {"files": {"/sys/bus/usb/drivers/usbip-host/uevent": ""}},
    )
    assert values(machine(one), "usb", "driver") == {"1-1": ("usbip-host",)}


def test_a_device_that_is_not_let_in_is_told_by_an_attribute() -> None:
    """Its configuration is not chosen, so it has no interfaces (Documentation/usb/authorization.rst)."""
    shut_out = merge(usb_device("1-2", interfaces=()), files({f"{usb_path('1-2')}/authorized": "0\n"}))
    host = machine(usb_device("1-1"), files({f"{usb_path('1-1')}/authorized": "1\n"}), shut_out)
    assert counted(host, "usb", {"vendor": "0403"}) == ["1-1", "1-2"]
    assert counted(host, "usb", {"vendor": "0403", "attributes.authorized": "1"}) == ["1-1"]
    assert counted(host, "usb", {"class": "ff"}) == ["1-1"]


def test_interfaces_are_those_of_whichever_configuration_was_chosen() -> None:
    path = f"{usb_path('1-1')}/1-1:2.0"
    second = {f"{path}/bInterface{part}": f"{n}\n" for part, n in (("Class", "02"), ("SubClass", "0d"))}
    host = machine(usb_device("1-1", interfaces=()), files({**second, f"{path}/bInterfaceProtocol": "00\n"}))
    assert counted(host, "usb", {"class": "020d"}) == ["1-1"]


@pytest.mark.parametrize("gone", ["/bDeviceProtocol", "/bDeviceClass", "/1-1:1.0/bInterfaceSubClass"])
def test_half_a_class_is_none(gone: str) -> None:
    one = usb_device(device_class="ef0201")
    del one["files"][usb_path("1-1") + gone]
    assert values(machine(one), "usb", "class") == {"1-1": ("ef0201",) if "Interface" in gone else ("ffffff",)}


def test_a_device_counts_once_however_many_tables_match_it() -> None:
    assert counted(machine(usb_device()), "usb", {"vendor": "0403"}, {"product": "6001"}, {}) == ["1-1"]


def test_what_is_excepted_does_not_count() -> None:
    host = machine(usb_device("1-1", serial="A17"), usb_device("1-2", serial="B03"), usb_device("1-3", serial="C1"))
    assert counted(host, "usb", excepts=({"serial": ["A17", "B03"]},)) == ["1-3"]


def test_no_device_is_absent_and_no_sysfs_is_unknown() -> None:
    assert isinstance(look(machine(), "usb"), Absent)
    assert isinstance(look(machine(usb_root(1)), "usb"), Absent)
    from capacityd.host.recorded import RecordedHost

    assert isinstance(look(RecordedHost({}), "usb"), Unknown)


@pytest.mark.parametrize("error", ["EACCES", "EIO"])
@pytest.mark.parametrize(
    ("place", "asked"),
    [
        ("/idVendor", {"vendor": "0403"}),
        ("/serial", {"serial": "A17"}),
        ("/bDeviceClass", {}),
        ("/1-1:1.0/bInterfaceClass", {"class": "ff"}),
        ("/1-1:1.0/driver", {"driver": "ftdi_sio"}),
        ("", {"vendor": "0403"}),
    ],
)
def test_what_cannot_be_read_is_unknown_and_not_missing(place: str, asked: dict[str, str], error: str) -> None:
    host = machine(usb_device(), errors({usb_path("1-1") + place: error}))
    assert isinstance(look(host, "usb", asked), Unknown)


def test_what_cannot_be_read_does_not_matter_where_something_else_says_no() -> None:
    host = machine(usb_device("1-1"), usb_device("1-2", "0529"), errors({usb_path("1-2") + "/serial": "EIO"}))
    assert counted(host, "usb", {"serial": "*", "vendor": "0403"}) == ["1-1"]


HOSTILE = [
    ("caf\udce9", r"caf\xe9"),  # Latin-1, no UTF-8
    ("\x1b]0;owned\x07\x1b[2J", r"\x1b]0;owned\x07\x1b[2J"),
    ("a\0b", r"a\x00b"),
    ("one\ntwo\r", r"one\ntwo\r"),
    ("user\u202etxt.exe\u2066", r"user\u202etxt.exe\u2066"),
    ("\u200bzero\ufeff", r"\u200bzero\ufeff"),
    ("\ud800", r"\ud800"),
    ("naïve 日本", "naïve 日本"),
]


@pytest.mark.parametrize(("said", "shown"), HOSTILE)
def test_strings_come_from_whoever_plugs_something_in(said: str, shown: str) -> None:
    host = machine(usb_device(serial=said, model=said, manufacturer=said))
    assert values(host, "usb", "model") == values(host, "usb", "manufacturer") == {"1-1": shown}
    assert counted(host, "usb", {"serial": shown}) == ["1-1"]
    assert shown.isprintable()


def test_a_string_that_is_too_long_is_unknown() -> None:
    assert counted(machine(usb_device(serial="x" * 65535)), "usb", {"serial": "x*"}) == ["1-1"]
    assert isinstance(look(machine(usb_device(serial="x" * 65536)), "usb", {"serial": "x*"}), Unknown)


def test_matches_attributes_and_properties_of_udev() -> None:
    one = usb_device("1-1", properties={"ID_VENDOR_ENC": "FTDI", "ID_MODEL": "caf\udce9"})
    host = machine(merge(one, usb_device("1-2", number=3)))
    assert counted(host, "usb", {"attributes.devnum": "3"}) == ["1-2"]
    assert counted(host, "usb", {"properties.ID_VENDOR_ENC": "FTDI"}) == ["1-1"]
    assert counted(host, "usb", {"properties.ID_MODEL": r"caf\xe9"}) == ["1-1"]
    assert counted(host, "usb", {"attributes.nothing": ""}) == ["1-1", "1-2"]
