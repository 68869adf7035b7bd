"""`probe --explain` prints which rule has excluded a device, and what can be done."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from capacityd.cli import run
from capacityd.cli.output.explain import _lines_above_devices
from capacityd.config import load
from capacityd.discovery.runner import probe
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.errors import Cause
from capacityd.model.host import Host
from capacityd.model.reading import Explanation, Reading, Unknown
from tests import ROOT
from tests.support.configs import HEADER, NAME, loaded
from tests.support.machines import (
    bare,
    disk,
    errors,
    files,
    machine,
    merge,
    nic,
    pci_nic,
    usb_device,
    usb_hub,
    usb_path,
)
from tests.support.tour import recording

FTDI = 'usb = { vendor = "0403", product = "6001" }'
VARIOUS = machine(
    usb_device("1-1", product="6010"),
    errors({f"{usb_path('1-1')}/manufacturer": "EIO"}),
    usb_device("1-2", vendor="0529", product="0001", serial="B03"),
    usb_hub("1-3"),
    usb_device("1-4", vendor="1d6b", product="0100", serial=None),
    disk("sda", size=480 * 10**9 - 512),
    disk("sdb", size=2**38, number="8:16"),
)


def explained(written: str, host: Host) -> Reading:
    """The reading of a resource with these lines of TOML, as `probe --explain` takes it."""
    return probe(loaded(f"{HEADER}\n{written}\n").require(), host, "n1", explain=True)[NAME]


def explanation(written: str, host: Host) -> Explanation:
    """The explanation of this reading, or an empty one."""
    return explained(written, host).explanation or Explanation()


def output(folder: Path, written: str, recorded: dict[str, Any], capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """The output of `probe --explain` on a recorded machine."""
    (folder / "m.json").write_text(json.dumps(recorded))
    (folder / "c.toml").write_text(f"{HEADER}\n{written}\n")
    run(["probe", "--explain", "--machine", str(folder / "m.json"), "--config", str(folder / "c.toml"), *more])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('usb = { vendor = "0403", product = ["6001", "6011"] }', '1-1: product is "6010", wanted "6001" or "6011"'),
        ('usb = { vendor = "05e3" }', "1-3: hub is true, wanted false by default"),
        ('usb = { vendor = "0529" }', '1-1: vendor is "0403", wanted "0529"'),  # another device counts
        (
            'usb = [{ vendor = "0529" }, { vendor = "046d", hub = true }, { serial = "B" }]',
            '1-3: hub is true, wanted false by default; vendor is "05e3", wanted "046d"',
        ),
        ('usb = { vendor = "0403" }\nexcept = { serial = "A*" }', '1-1: except: serial matches "A*"'),
        ('disk = { size = ">=500GB" }', "sda: size is 480 GB (479999999488 B), wanted >=500GB"),
        ('disk = { size = ">=500GiB" }', "sdb: size is 256 GiB, wanted >=500GiB"),
        ('disk = { properties = { ID_BUS = "ata" } }', 'sda: properties.ID_BUS is missing, wanted "ata"'),
        ('usb = { driver = "usb-storage" }', '1-1: driver is ftdi_sio, wanted "usb-storage"'),
    ],
)
def test_the_rule_that_excluded_a_device_is_named(written: str, text: str) -> None:
    reading = explained(written, VARIOUS)
    assert reading.explanation is None
    assert text in [f"{r.device}: {r.reason}" for r in reading.rejections]


def test_when_shows_every_test_and_the_machines_value() -> None:
    dmi = "/sys/class/dmi/id"
    host = machine(files({f"{dmi}/product_name": "VirtualBox\n"}), errors({f"{dmi}/board_name": "EIO"}))
    written = f'when = {{ dmi = {{ product_name = "Virtual", board_name = "x" }}, arch = "x86_64" }}\n{FTDI}'
    why = explanation(written, host)
    assert [str(compared) for compared in why.when] == [
        'dmi.product_name is "VirtualBox", wanted "Virtual"',
        f"dmi.board_name could not be read: {dmi}/board_name could not be read: Input/output error",
        'arch "x86_64" matches',
    ]
    assert [hint.partition(";")[2] for hint in why.hints] == [' "Virtual*" would match']


@pytest.mark.parametrize(
    ("code", "advice"),
    [("EIO", "dmesg may say more"), ("EACCES", "run it as root"), ("ELOOP", 'another key than "product"')],
)
def test_a_device_in_doubt_has_its_reason_and_advice(code: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    host = machine(usb_device("1-1"), usb_device("1-2"), usb_hub("1-3"), errors({f"{usb_path('1-1')}/idProduct": code}))
    why = explanation(FTDI, host)
    (one,) = why.undetermined
    assert (one.device, one.reason.partition(" ")[0]) == ("1-1", "product:")
    assert advice in one.advice
    assert [(c.device, c.amount) for c in why.counted] == [("1-2", 1)]


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ('nic = {}\nmeasure = "speed"\nunit = "Mbit/s"', "set fallback"),
        ("nic = { system = false }", 'by another key than "system"'),
        ('file = { path = "/run/seats" }', "check what writes the file"),
        ('exec = { command = ["/bin/count"] }', "here it may use 512 MiB of memory"),
        ('when = { dmi = { product_name = "x" } }\nusb = {}', 'another key in "when"'),
        ('when = { path = "/etc/seats" }\nusb = {}', "run it on the recorded machine: a recording contains only the"),
    ],
)
def test_each_unknown_value_has_its_advice(written: str, advice: str) -> None:
    host = machine(pci_nic("eth0", speed="-1"), errors({"/sys/class/dmi/id/product_name": "ELOOP"}), usb_device("1-1"))
    why = explanation(written, host)
    assert advice in " ".join([why.advice, *(u.advice for u in why.undetermined)])


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ('usb = { serial = "b03" }', 'serial: "b03" differs from "B03" in upper and lower case'),
        ('usb = { serial = "b*" }', 'serial: "b*" differs from "B03" in upper and lower case'),
        ('usb = { serial = "c*" }', ""),
        (
            'usb = { serial = "B.*" }',
            'serial: "B.*" is not a regular expression, so "." is a dot; "B*" would match "B03"',
        ),
        ('usb = { serial = "b0" }', 'serial: "b0" is only the beginning of "B03"; "B0*" would match'),
        ('usb = { serial = ["x", "B"] }', 'serial: "B" is only the beginning of "B03"; "B*" would match'),
        ('usb = { vendor = "0529" }\nexcept = { serial = "b03" }', "except excludes none of the devices that match"),
        ('usb = { vendor = "0403" }\nexcept = { product = "6010" }', ""),
        ('usb = [{ vendor = "0529" }, { serial = "b" }]', ""),
    ],
)
def test_a_probable_mistake_has_a_hint(written: str, hint: str) -> None:
    hints = explanation(written, machine(usb_device("1-2", vendor="0529", product="0001", serial="B03"))).hints
    assert hints == ((hint,) if hint else ())


def test_root_is_not_advised_to_become_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service's sandbox can deny access to root, and then the message names the sandbox."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    host = machine(usb_device("1-1"), errors({f"{usb_path('1-1')}/idProduct": "EACCES"}))
    (one,) = explanation(FTDI, host).undetermined
    assert "root" not in one.advice


def test_many_devices_are_grouped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [usb_device(f"1-{n}", vendor=f"{n % 2 + 1:04}", product=f"{n % 7:04}", number=n + 1) for n in range(1, 101)]
    out = output(tmp_path, 'usb = { vendor = "0001", product = "0000" }', merge(bare(), *parts), capsys)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "+ 1-98 1" in lines  # vendor 0001, product 0000
    assert '- 1-1, 1-11, 1-13 and 47 more vendor is "0002", wanted "0001"' in lines


@pytest.mark.parametrize("cause", Cause)
def test_without_explain_only_a_hanging_detector_has_advice(cause: Cause) -> None:
    (resource,) = loaded(f"{HEADER}\n{FTDI}").require().resources
    labels = [label for label, _ in _lines_above_devices(resource, Unknown("why", cause))]
    assert labels == (["advice"] if cause in (Cause.TIMEOUT, Cause.HANGING) else [])


def test_explain_does_not_change_the_readings() -> None:
    host = RecordedHost(merge(recording(), nic("lo", number=9)))
    config = load(str(ROOT / "conf/examples/tour/dongles.toml")).require()
    plain, full = probe(config, host, "n1"), probe(config, host, "n1", explain=True)
    plain_outcomes, full_outcomes = (
        {name: (type(reading), getattr(reading, "value", None)) for name, reading in found.items()}
        for found in (plain, full)
    )
    assert full_outcomes == plain_outcomes
