"""Hardware that lies, breaks and goes away: no crash, nothing raw out, never less because something can't be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacityd.detectors import load, names
from capacityd.errors import HostError
from capacityd.host.recorded import RecordedHost
from capacityd.inventory import listing
from capacityd.model import Absent, DeviceDetector, Quantity, Reading, Resource, Unknown
from capacityd.reading import read_resource
from tests.unit.looking import resource
from tests.unit.machines import errors, merge
from tests.unit.test_unreadable import ASKED, MBITS, PLACES, WORLD

ERRORS = ["EACCES", "EIO", "EINVAL", "ENODEV", "ENOENT", "ENXIO", "EOPNOTSUPP", "ETIMEDOUT", "ELOOP", "EAGAIN"]
UNREADABLE = ["EACCES", "EIO", "ETIMEDOUT", "EAGAIN"]
FILES = sorted(WORLD["files"])
DETECTORS = [detector for name in names() if isinstance(detector := load(name), DeviceDetector)]
DEVICES = sorted({path.rpartition("/")[0] for path in FILES if path.endswith("/uevent") and "/devices/" in path})
BY_WHAT_IS_MISSING = [
    resource("usb", {"serial": ""}),
    resource("pci", {"driver": "", "class": "03"}),
    resource("pci", {"class": "03"}, excepts=({"attributes.boot_vga": "*"},)),
    resource("disk", {"serial": ""}),
    resource("nic", {"driver": ""}),
]

texts = st.one_of(
    st.binary(max_size=80).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.text(max_size=80),
    st.sampled_from(
        ["", "\n", "\0", "0", "-1", "1" * 30, "0x", "\x1b]0;owned\x07", "\u202e", "9" * 70_000, "1\n2", " 7 "]
    ),
)


@given(st.sampled_from(ASKED), st.dictionaries(st.sampled_from(PLACES), st.sampled_from(UNREADABLE), max_size=12))
def test_however_much_cannot_be_read_nothing_gets_less(asked: Resource, broken: dict[str, str]) -> None:
    whole = read_resource(asked, RecordedHost(WORLD), "node")
    reading = read_resource(asked, RecordedHost(merge(WORLD, errors(broken))), "node", explain=True)
    assert isinstance(whole, Quantity)
    assert isinstance(reading, Unknown) or (isinstance(reading, Quantity) and reading.value == whole.value)


@given(
    st.sampled_from(ASKED),
    st.dictionaries(st.sampled_from(FILES), texts, max_size=12),
    st.dictionaries(st.sampled_from(PLACES), st.sampled_from(ERRORS), max_size=4),
    st.lists(st.sampled_from(FILES), max_size=4),
)
def test_whatever_the_files_hold_there_is_a_reading_that_is_safe_to_print(
    asked: Resource, lies: dict[str, str], broken: dict[str, str], missing: list[str]
) -> None:
    host = RecordedHost(merge(_world(lies, missing), errors(broken)))
    reading = read_resource(asked, host, "node", explain=True)
    assert all(text.isprintable() for text in _texts(reading))
    if isinstance(reading, Quantity):
        assert reading.value >= 0


@given(st.sampled_from(DETECTORS), st.dictionaries(st.sampled_from(FILES), texts, max_size=12))
def test_whatever_the_files_hold_the_devices_can_be_listed(detector: DeviceDetector, lies: dict[str, str]) -> None:
    try:
        said = [
            text
            for d in listing(RecordedHost(_world(lies, [])), detector)
            for text in (d.name, d.title, d.own.line, d.kind.line, d.own.why)
        ]
    except HostError as e:
        said = [str(e)]
    assert all(text.isprintable() for text in said)


@settings(max_examples=min(4 * settings().max_examples, 20_000))
@given(st.sampled_from([*ASKED, *BY_WHAT_IS_MISSING]), st.integers(0, 600), st.sampled_from(DEVICES))
def test_a_device_that_vanishes_while_it_is_read_counts_or_not_or_is_unknown(
    asked: Resource, after: int, gone: str
) -> None:
    """Between two looks at its files the device is gone, with all that led to it: what comes out was true once."""
    before, later = RecordedHost(WORLD), RecordedHost(_without(gone))
    truths = [_outcome(read_resource(asked, host, "node")) for host in (before, later)]
    reading = read_resource(asked, _Vanishing(before, later, after), "node")
    assert isinstance(reading, Unknown) or _outcome(reading) in truths


@pytest.mark.parametrize(
    ("asked", "gone"),
    [
        (resource("usb", {}), "/1-1"),
        (resource("pci", {}), "/0000:3b:00.1"),
        (resource("nic", {}), "/eth1"),
        (resource("nic", {"kind": "virtual"}), "/eth1"),
        (resource("nic", {"kind": "bond"}, measure="max_speed", unit=MBITS), "/bond0"),
        (resource("nic", {"link": "down"}), "/eth1"),
        (resource("disk", {"system": False}), "/sdb"),
    ],
    ids=range(7),
)
def test_at_whatever_moment_it_vanishes(asked: Resource, gone: str) -> None:
    """A hub is not taken for a device, a virtual function not for a card: what was read too late says nothing."""
    (device,) = (path for path in DEVICES if path.endswith(gone))
    before, later = RecordedHost(WORLD), RecordedHost(_without(device))
    truths = [_outcome(read_resource(asked, host, "node")) for host in (before, later)]
    counting = _Vanishing(before, before, 0)
    read_resource(asked, counting, "node")
    for after in range(-counting.left):
        reading = read_resource(asked, _Vanishing(before, later, after), "node")
        assert isinstance(reading, Unknown) or _outcome(reading) in truths, after


def test_a_link_to_nothing_that_stays_is_unknown() -> None:
    world = {**WORLD, "links": {**WORLD["links"], "/sys/bus/usb/devices/9-9": "../../../devices/gone"}}
    for asked in (resource("usb", {"vendor": "0403"}), resource("usb", {"serial": ""})):
        reading = read_resource(asked, RecordedHost(world), "node")
        assert reading == Unknown("9-9 went away while it was looked at, 3 times in a row")


class _Vanishing:
    """A host of which something is gone after so many answers. A double: real hardware does not vanish on cue."""

    def __init__(self, before: RecordedHost, later: RecordedHost, after: int) -> None:
        self._before, self._later, self.left = before, later, after

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.left -= 1
        found: Callable[..., Any] = getattr(self._before if self.left >= 0 else self._later, name)
        return found


def _world(lies: Mapping[str, str], missing: Sequence[str]) -> dict[str, Any]:
    return {**WORLD, "files": {path: text for path, text in {**WORLD["files"], **lies}.items() if path not in missing}}


def _without(device: str) -> dict[str, Any]:
    """The machine without a device, what is below it, and the links to either."""

    def stays(path: str) -> bool:
        return path != device and not path.startswith(f"{device}/")

    def leads(path: str, target: str) -> str:
        return os.path.normpath(f"{path.rpartition('/')[0]}/{target}")

    links = {path: target for path, target in WORLD["links"].items() if stays(path) and stays(leads(path, target))}
    return {
        **WORLD,
        "files": {path: text for path, text in WORLD["files"].items() if stays(path)},
        "links": links,
        "properties": {path: found for path, found in WORLD.get("properties", {}).items() if stays(path)},
    }


def _outcome(reading: Reading) -> object:
    return reading.value if isinstance(reading, Quantity) else type(reading)


def _texts(reading: Reading) -> list[str]:
    found = [f"{r.device} {r.reason}" for r in reading.rejections]
    if isinstance(reading, Quantity):
        return [*found, reading.warning, *(f"{e.device} {e.note}" for e in reading.evidence)]
    assert isinstance(reading, Absent | Unknown)
    return [*found, reading.reason]
