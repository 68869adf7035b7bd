"""Hardware that reports nonsense, fails or disappears causes no crash, no unsafe output and no smaller quantity.

No text from a file or a property of a device appears in a reading of a pass.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.discovery.reader import read_resource
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.codec import encode_variant
from capacityd.model.errors import Cause
from capacityd.model.reading import Absent, Quantity, Reading, Unknown, without_details
from capacityd.schema.config import Resource
from tests.support.machines import errors, merge
from tests.support.readings import outcome, resource, table
from tests.unit.discovery.test_unreadable import MBITS, RESOURCES, WORLD

ERRORS = ["EACCES", "EIO", "EINVAL", "ENODEV", "ENOENT", "ENXIO", "EOPNOTSUPP", "ETIMEDOUT", "ELOOP", "EAGAIN"]
UNREADABLE = ["EACCES", "EIO", "ETIMEDOUT", "EAGAIN"]
FILES = sorted(WORLD["files"])
PATHS = [*FILES, *WORLD["links"]]
FOLDERS = [path.rpartition("/")[0] for path in PATHS]
PLACES = sorted({*PATHS, *FOLDERS} - {"/dev"})
"""All files and links of the machine, and the folders that contain them."""
DEVICES = sorted({path.rpartition("/")[0] for path in FILES if path.endswith("/uevent") and "/devices/" in path})
CONTENTS = st.one_of(
    st.binary(max_size=80).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.text(max_size=80),
    st.sampled_from(
        ["", "\n", "\0", "0", "-1", "1" * 30, "0x", "\x1b]0;owned\x07", "\u202e", "9" * 70_000, "1\n2", " 7 "]
    ),
)


@given(st.sampled_from(RESOURCES), st.dictionaries(st.sampled_from(PLACES), st.sampled_from(UNREADABLE), max_size=12))
def test_any_unreadable_paths_never_make_a_quantity_smaller(wanted: Resource, broken: dict[str, str]) -> None:
    whole = read_resource(wanted, RecordedHost(WORLD), "node")
    reading = read_resource(wanted, RecordedHost(merge(WORLD, errors(broken))), "node", explain=True)
    assert isinstance(whole, Quantity)
    assert isinstance(reading, Unknown) or (isinstance(reading, Quantity) and reading.value == whole.value)


@given(
    wanted=st.sampled_from(RESOURCES),
    contents=st.dictionaries(st.sampled_from(FILES), CONTENTS, max_size=12),
    broken=st.dictionaries(st.sampled_from(PLACES), st.sampled_from(ERRORS), max_size=4),
    missing=st.lists(st.sampled_from(FILES), max_size=4),
)
def test_any_file_content_gives_a_reading_that_is_safe_to_print(
    wanted: Resource, contents: dict[str, str], broken: dict[str, str], missing: list[str]
) -> None:
    host = RecordedHost(merge(_with_files(contents, missing), errors(broken)))
    reading = read_resource(wanted, host, "node", explain=True)
    assert all(text.isprintable() for text in _texts(reading))
    if isinstance(reading, Quantity):
        assert reading.value >= 0


@pytest.mark.parametrize(
    ("wanted", "gone"),  # gone: the end of the path of the device that disappears
    [
        (resource("usb", {}), "/1-1"),
        (resource("pci", {"class": "03"}, excepts=({"attributes.boot_vga": "*"},)), "/0000:3b:00.1"),
        (resource("disk", {"serial": ""}), "/sda"),
        (resource("usb", {"vendor": "0403", "serial": "*"}), "/1-1.2"),
        (resource("usb", {"driver": ""}), "/1-1.2"),
        (resource("pci", {}), "/0000:3b:00.1"),
        (resource("pci", {"class": "03"}, measure="sriov_numvfs"), "/0000:3b:00.0"),
        (resource("nic", {}), "/eth1"),
        (resource("nic", {"kind": "virtual"}), "/eth1"),
        (resource("nic", {"kind": "bond"}, measure="max_speed", unit=MBITS), "/bond0"),
        (resource("nic", {"link": "down"}), "/eth1"),
        (resource("nic", {}, measure="speed", unit=MBITS), "/eth1"),
        (resource("nic", {}, measure="speed", unit=MBITS, fallback=9 * 10**6), "/eth1"),
        (resource("disk", {"system": False}), "/sdb"),
        (resource("disk", {}, measure="size", fallback=9), "/sdc"),
    ],
)
def test_a_device_that_disappears_counts_completely_or_not_at_all(wanted: Resource, gone: str) -> None:
    """While a device disappears, a hub must not count as another device, nor a virtual function as a card."""
    (device,) = (path for path in DEVICES if path.endswith(gone))
    before, later = RecordedHost(WORLD), RecordedHost(_without(device))
    expected = [outcome(read_resource(wanted, host, "node")) for host in (before, later)]
    host = _Disappearing(before, before, calls_before=0)  # loses nothing, and only counts the calls
    read_resource(wanted, host, "node")
    for calls_before in range(host.calls):
        reading = read_resource(wanted, _Disappearing(before, later, calls_before), "node")
        assert outcome(reading) in expected, (calls_before, reading)


def test_a_device_link_to_nowhere_is_unknown() -> None:
    world = {**WORLD, "links": {**WORLD["links"], "/sys/bus/usb/devices/9-9": "../../../devices/gone"}}
    without_serial = ({"serial": ""},)
    for wanted in (
        resource("usb", {"vendor": "0403"}),
        resource("usb", {"serial": ""}),
        resource("usb", {"serial": "*"}, excepts=without_serial),
    ):
        reading = read_resource(wanted, RecordedHost(world), "node")
        assert isinstance(reading, Unknown)
        assert reading.reason.startswith("9-9: ")
        assert reading.reason.endswith("/sys/bus/usb/devices/9-9 is a dangling link")
    assert outcome(read_resource(resource("usb", {"port": "1-1.2"}), RecordedHost(world), "node")) == 1


@pytest.mark.parametrize("fallback", [None, 1])
def test_no_fallback_is_suggested_for_a_device_that_has_disappeared(fallback: int | None) -> None:
    world = {"links": {"/sys/bus/usb/devices/9-9": "../../../devices/gone"}}
    by_port = table("usb", {"port": "9-9"}, with_defaults=False)
    wanted = Resource("example.com/thing", "usb", (by_port,), measure="attributes.size", fallback=fallback)
    reading = read_resource(wanted, RecordedHost(world), "node")
    assert reading == Unknown("9-9: /sys/bus/usb/devices/9-9 is a dangling link", Cause.UNREADABLE)


MARKER = "sEcReT7MaRkEr"


def public(wanted: Resource, host: RecordedHost) -> str:
    """The parts of a reading that leave the detector's process, and appear on the Node or in `status`."""
    reading = read_resource(wanted, host, "node")
    return json.dumps([encode_variant(reading), encode_variant(without_details(reading))])


@pytest.mark.slow
@pytest.mark.parametrize("wanted", RESOURCES, ids=range(len(RESOURCES)))
@pytest.mark.parametrize("content", [MARKER, f"4 {MARKER}", f"{MARKER}\n{MARKER}", f"\x1b{MARKER}"])
def test_no_file_is_quoted(wanted: Resource, content: str) -> None:
    for path in (file for file in FILES if not file.endswith("/bonding/slaves")):  # contains names of interfaces
        assert MARKER not in public(wanted, RecordedHost(_with_files({path: content}))), path


@pytest.mark.parametrize("wanted", RESOURCES, ids=range(len(RESOURCES)))
def test_no_property_is_quoted(wanted: Resource) -> None:
    names = ("ID_SERIAL_SHORT", "ID_WWN", "DEVLINKS", "TAGS", "ID_MODEL")
    properties = {device: dict.fromkeys(names, MARKER) for device in DEVICES}
    assert MARKER not in public(wanted, RecordedHost(merge(WORLD, {"properties": properties})))


class _Disappearing:
    """A test double of a host that loses a device after some calls."""

    def __init__(self, before: RecordedHost, later: RecordedHost, calls_before: int) -> None:
        self._before, self._later, self._calls_before = before, later, calls_before
        self.calls = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.calls += 1
        host = self._before if self.calls <= self._calls_before else self._later
        answer: Callable[..., Any] = getattr(host, name)
        return answer


def _with_files(contents: Mapping[str, str], missing: Collection[str] = ()) -> dict[str, Any]:
    """The machine with other contents of some files, and without some files."""
    files = {**WORLD["files"], **contents}
    return {**WORLD, "files": {path: text for path, text in files.items() if path not in missing}}


def _without(device: str) -> dict[str, Any]:
    """The machine without a device, the paths below the device, and all links to them."""

    def stays(path: str) -> bool:
        return path != device and not path.startswith(f"{device}/")

    def resolved(path: str, target: str) -> str:
        return os.path.normpath(f"{path.rpartition('/')[0]}/{target}")

    links = {path: target for path, target in WORLD["links"].items() if stays(path) and stays(resolved(path, target))}
    return {
        **WORLD,
        "files": {path: text for path, text in WORLD["files"].items() if stays(path)},
        "links": links,
        "properties": {path: properties for path, properties in WORLD.get("properties", {}).items() if stays(path)},
    }


def _texts(reading: Reading) -> list[str]:
    """All texts of a reading that may be printed."""
    texts = [f"{r.device} {r.reason}" for r in reading.rejections]
    if isinstance(reading, Quantity):
        return [*texts, reading.warning, *(f"{c.device} {c.note}" for c in reading.contributions)]
    assert isinstance(reading, Absent | Unknown)
    return [*texts, reading.reason]
