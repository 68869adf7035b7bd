"""probe --explain: by which rule a device did not count, which came nearest, and what to do about the unknown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capacityd.cli import run
from capacityd.config import load
from capacityd.host import Host
from capacityd.host.recorded import RecordedHost
from capacityd.model import Reading, Unknown
from capacityd.probe import probe
from tests import ROOT
from tests.unit.machines import bare, disk, errors, files, machine, merge, nic, pci_nic, usb_device, usb_hub, usb_path
from tests.unit.tour import MACHINE, recording

FTDI = 'usb = { vendor = "0403", product = "6001" }'


def explained(folder: Path, written: str, host: Host) -> Reading:
    path = folder / "c.toml"
    path.write_text(f'[resources."example.com/x"]\n{written}\n')
    return probe(load(str(path)).require(), host, "n1", explain=True)["example.com/x"]


def nearest(folder: Path, written: str, host: Host) -> str:
    """As the command says it."""
    from capacityd.cli.why import _nearest

    why = explained(folder, written, host).explanation
    return _nearest(why.nearest) if why and why.nearest else ""


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (FTDI, '1-1: vendor "0403" yes; product is "6010", you ask for "6001"'),
        ('usb = { vendor = "0403", product = ["6001", "6011"] }', 'you ask for "6001" or "6011"'),
        (
            'usb = [{ vendor = "1111" }, { product = "6010", serial = "B*" }]',
            '1-1 (table 2): product "6010" yes; serial is',
        ),
        ('usb = [{ vendor = "0403", product = "6001" }, { vendor = "0529", product = "0002" }]', "1-2 (table 2): "),
        ('usb = { vendor = "05e3" }', '1-3: vendor "05e3" yes; hub is true, by default only false counts'),
        ('usb = { vendor = "0403" }\nexcept = { serial = "A*" }', '1-1: vendor "0403" yes; except: serial is "A*"'),
        ('usb = { vendor = "0528" }', '1-2: vendor is "0529", you ask for "0528"'),
        ('usb = { vendor = "9999" }', ""),
        ('usb = { vendor = "9999", product = "8888" }', ""),
        ('disk = { size = ">=500GB" }', "sda: size is 480 GB, you ask for >=500GB"),
        ('disk = { size = ">=480GB" }', "sda: size is 479999999488 B, you ask for >=480GB"),
        ('disk = { size = ">=500PB" }', "sda: size is 479999999488 B, you ask for >=500PB"),
        ('disk = { size = "=480GB", type = "ssd" }', 'sda: type "ssd" yes; size is 479999999488 B, you ask for =480GB'),
        ('disk = { properties = { ID_BUS = "ata" } }', 'sda: properties.ID_BUS is missing, you ask for "ata"'),
    ],
)
def test_the_nearest_device_and_what_differs(tmp_path: Path, written: str, said: str) -> None:
    host = machine(
        usb_device("1-1", product="6010"),
        usb_device("1-2", "0529", "0001", "B03"),
        usb_hub("1-3"),
        usb_device("1-4", "1d6b", "0100", None),
        disk("sda", size=480 * 10**9 - 512),
    )
    found = nearest(tmp_path, written, host)
    assert said in found
    assert bool(said) == bool(found)


def test_a_key_that_can_t_be_read_is_no_difference(tmp_path: Path) -> None:
    host = machine(
        usb_device("1-1", product="6010", serial="A"), errors({f"{usb_path('1-1')}/serial": "EIO"}), usb_hub("1-2")
    )
    written = 'usb = { vendor = "0403", product = "6001", serial = "A" }'
    assert 'product is "6010", you ask for "6001"; serial can\'t be read: ' in nearest(tmp_path, written, host)


def test_tables_that_ask_for_the_same_key_are_told_once(tmp_path: Path) -> None:
    written = 'usb = [{ vendor = "0529" }, { vendor = "046d", hub = true }, { serial = "B" }]'
    (one,) = explained(tmp_path, written, machine(usb_device("1-1"))).rejections
    assert one.reason == 'vendor is "0403", wanted "0529" or "046d"; serial is "A17", wanted "B"'


def test_what_counts_needs_no_nearest(tmp_path: Path) -> None:
    host = machine(usb_device("1-1"), usb_device("1-2", product="6010"))
    reading = explained(tmp_path, FTDI, host)
    assert reading.explanation is None
    (other,) = reading.rejections
    (differs,) = other.differs
    assert (differs.key, differs.value, differs.asked, differs.holds) == ("product", '"6010"', '"6001"', False)


def test_when_says_what_the_configuration_and_what_the_machine_says(tmp_path: Path) -> None:
    host = machine(files({"/sys/class/dmi/id/product_name": "VirtualBox\n"}))
    written = f'when = {{ dmi = {{ product_name = "PowerEdge R75*" }}, arch = "x86_64" }}\n{FTDI}'
    why = explained(tmp_path, written, host).explanation
    assert why is not None
    assert [str(compared) for compared in why.when] == [
        'dmi.product_name is "VirtualBox", you ask for "PowerEdge R75*"',
        'arch "x86_64" yes',
    ]


@pytest.mark.parametrize(
    ("code", "advice"), [("EIO", "dmesg may say more"), ("EACCES", "run it as root"), ("ELOOP", "further key")]
)
def test_the_unknown_says_what_could_not_be_read_and_what_to_do(tmp_path: Path, code: str, advice: str) -> None:
    host = machine(usb_device("1-1"), usb_device("1-2"), usb_hub("1-3"), errors({f"{usb_path('1-1')}/idProduct": code}))
    why = explained(tmp_path, FTDI, host).explanation
    assert why is not None
    (doubt,) = why.doubts
    assert (doubt.device, doubt.reason.partition(" ")[0]) == ("1-1", "product:")
    assert advice in doubt.advice
    assert [(e.device, e.contributes) for e in why.counted] == [("1-2", 1)]


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ('nic = {}\nmeasure = "speed"\nunit = "Mbit/s"', "give it a fallback"),
        ("nic = { system = false }", 'by another key than "system"'),
        ('file = { path = "/run/seats" }', "what writes the file"),
        ('exec = { command = ["/bin/count"] }', "run the program by hand"),
        ('when = { dmi = { product_name = "x" } }\nusb = {}', "whether the resource concerns this machine"),
    ],
)
def test_each_unknown_has_its_advice(tmp_path: Path, written: str, advice: str) -> None:
    host = machine(pci_nic("eth0", speed="-1"), errors({"/sys/class/dmi/id/product_name": "ELOOP"}), usb_device("1-1"))
    why = explained(tmp_path, written, host).explanation
    assert why is not None
    assert advice in " ".join([why.advice, *(doubt.advice for doubt in why.doubts)])


def said(folder: Path, written: str, recorded: dict[str, Any], capsys: pytest.CaptureFixture[str], *more: str) -> str:
    (folder / "m.json").write_text(json.dumps(recorded))
    (folder / "c.toml").write_text(written)
    run(["probe", "--explain", "--machine", str(folder / "m.json"), "--config", str(folder / "c.toml"), *more])
    return capsys.readouterr().out


def test_many_devices_are_told_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [usb_device(f"1-{n}", f"{n % 2 + 1:04}", f"{n % 7:04}", number=n + 1) for n in range(1, 101)]
    out = said(
        tmp_path,
        '[resources."example.com/x"]\nusb = { vendor = "0001", product = "0000" }\n',
        merge(bare(), *parts),
        capsys,
    )
    assert [" ".join(line.split()) for line in out.splitlines()[7:]] == [
        "+ 1-98 1",
        '- 1-1, 1-11, 1-13 and 47 more vendor is "0002", wanted "0001"',
        '- 1-100, 1-16, 1-2 and 5 more product is "0002", wanted "0000"',
        '- 1-10, 1-24, 1-38 and 4 more product is "0003", wanted "0000"',
        '- 1-12, 1-26, 1-40 and 4 more product is "0005", wanted "0000"',
        '- 1-18, 1-32, 1-4 and 18 more by the same rule, such as: product is "0004", wanted "0000"',
    ]


def test_json_has_it_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(tmp_path, f'[resources."example.com/x"]\n{FTDI}\n', recording(), capsys, "--json")
    (found,) = json.loads(out)["resources"]
    assert len(found["rejected"]) == 6
    assert found["rejected"][0]["differs"] == [
        {"key": "vendor", "is": '"05e3"', "asked": '"0403"', "holds": False, "default": False}
    ]
    out = said(
        tmp_path,
        '[resources."example.com/x"]\nusb = { vendor = "0529", product = "6001" }\n',
        recording(),
        capsys,
        "--json",
    )
    (found,) = json.loads(out)["resources"]
    near = found["explanation"]["nearest"]
    assert (near["device"], [(c["key"], c["holds"]) for c in near["compared"]]) == (
        "1-1.1",
        [("vendor", True), ("product", False), ("hub", True)],
    )


def test_a_detector_that_hangs_has_its_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.toml").write_text(
        '[resources."example.com/x"]\nexec = { command = ["/bin/sleep", "60"], timeout = "0.2s" }\n'.replace(
            "0.2s", "200ms"
        )
    )
    assert run(["probe", "--explain", "--config", str(tmp_path / "c.toml")]) == 4
    out = capsys.readouterr().out
    assert "to do  run the program by hand" in out


@pytest.mark.parametrize(
    ("reason", "advised"),
    [
        ("the detector usb did not end within 30 s", True),
        ("the detector usb has not ended yet", True),
        ("the detector usb of an earlier look hangs in the kernel (process 7)", True),
        ("the detector usb needed more than 512 MiB of memory", False),
        ("the detector usb was killed by signal 9 (SIGKILL)", False),
    ],
)
def test_only_of_what_hangs_it_is_said_that_it_may(tmp_path: Path, reason: str, advised: bool) -> None:
    from capacityd.cli.why import _told

    (tmp_path / "c.toml").write_text(f'[resources."example.com/x"]\n{FTDI}\n')
    (resource,) = load(str(tmp_path / "c.toml")).require().resources
    assert [what for what, _ in _told(resource, Unknown(reason))] == ["to do"] * advised


def test_what_is_too_many_hangs_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(tmp_path, '[resources."example.com/x"]\npool = { cidr = "2001:db8::/32" }\n', recording(), capsys)
    value = 2**96 - 1  # but for the routers' address
    assert out == f"example.com/x: unknown ({value} is more than Kubernetes can count)\n"
    out = said(
        tmp_path,
        '[resources."example.com/x"]\ndisk = {}\nmeasure = "size"\nunit = "B"\nslots = 1000000000\n',
        recording(),
        capsys,
    )
    assert "can count; take a larger unit)\n" in out
    assert "to do" not in out


def test_a_plain_probe_loads_none_of_it() -> None:
    script = f"""
import sys
sys.path.insert(0, {str(ROOT / "agent")!r})
from capacityd.cli import run
assert run(["probe", "--machine", {str(MACHINE)!r}, "--config", {str(ROOT / "docs/tour/dongles.toml")!r}]) == 0
print(sorted({{"capacityd.explain", "capacityd.cli.why", "capacityd.inventory", "rich"}} & {{*sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_explaining_changes_no_reading(tmp_path: Path) -> None:
    host = RecordedHost(merge(recording(), nic("lo", number=9)))
    config = load(str(ROOT / "docs/tour/dongles.toml")).require()
    plain, full = probe(config, host, "n1"), probe(config, host, "n1", explain=True)
    for name, reading in plain.items():
        assert getattr(full[name], "value", None) == getattr(reading, "value", None)
        assert type(full[name]) is type(reading)
