"""No code depends on the text of a message: with all messages replaced, everything else stays the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from capacityd.cli import run
from capacityd.config import Loaded, load
from tests import ROOT
from tests.support.config_errors import cases
from tests.support.configs import HEADER as X
from tests.support.machines import bare, disk, errors, merge, nic, pci_nic, usb_device, usb_hub, usb_path
from tests.support.rewording import install, reword, reword_files
from tests.support.terminals import CASES, GOLDEN, Case, in_files
from tests.unit.reconcile.test_histories import Histories

INSTALL = f"sys.path.append({str(ROOT)!r}); from tests.support.rewording import install; install()\n"
UNREADABLE = errors({f"{usb_path('1-1')}/idProduct": "EIO", f"{usb_path('1-2')}/idProduct": "EACCES"})
SIZE = re.compile("[0-9]+ bytes")  # of a recording, which contains messages
EXPLAINED: list[tuple[str, dict[str, Any]]] = [
    ('usb = { vendor = "0403", product = "6001" }', merge(usb_device("1-1", product="6010"), usb_hub("1-3"))),
    ('usb = { vendor = "0403", product = "6001" }', merge(usb_device("1-1"), usb_device("1-2"), UNREADABLE)),
    ('usb = { vendor = "0403" }\nexcept = { serial = "A*" }', usb_device("1-1")),
    ('when = { arch = "riscv*" }\nusb = {}', usb_device("1-1")),
    ('when = { dmi = { product_name = "x" } }\nusb = {}', errors({"/sys/class/dmi/id/product_name": "ELOOP"})),
    ('nic = {}\nmeasure = "speed"\nunit = "Mbit/s"', pci_nic(speed="-1")),
    ('nic = {}\nmeasure = "speed"\nunit = "Mbit/s"\nfallback = "1Gbit/s"', pci_nic(speed="-1")),
    ("nic = { system = false }", nic("eth0")),
    ('disk = { size = ">=500GB" }', disk("sda", size=480 * 10**9)),
    ('disk = {}\nmeasure = "size"\nunit = "B"\nslots = 1000000000', disk("sda", size=480 * 10**9)),
    ('file = { path = "/run/seats" }', {}),
    ('exec = { command = ["/bin/count"] }', {}),
    ('exec = { cmd = ["/bin/count"] }', {}),
]

Replace = Callable[[], None]


@pytest.fixture
def replace_messages() -> Iterator[Replace]:
    """Yields a function that replaces all messages until the test ends."""
    with pytest.MonkeyPatch.context() as patch:
        yield lambda: install(patch.setattr)


def test_commands() -> None:
    def reworded(case: Case) -> Case:
        def prepare(folder: Path) -> None:
            case.prepare(folder)
            reword_files(folder / "run")

        return replace(case, prepare=prepare)

    outputs, replaced = in_files([reworded(case) for case in CASES.values()], first=INSTALL), set[str]()
    for (name, case), output in zip(CASES.items(), outputs, strict=True):
        expected = (GOLDEN / f"{name}.txt").read_text()
        found = SIZE.sub("", f"$ capacityd {case.line}\n{output}")
        assert reword(found) == reword(SIZE.sub("", expected)), name
        if found != SIZE.sub("", expected):
            replaced.add(name)
    assert {"config-check", "error-fleet", "plan-mixed", "status-degraded"} <= replaced


@pytest.mark.parametrize(("toml", "recorded"), EXPLAINED)
@pytest.mark.parametrize("options", [(), ("--explain",), ("--explain", "--json")], ids=" ".join)
def test_readings(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    replace_messages: Replace,
    toml: str,
    recorded: dict[str, Any],
    options: tuple[str, ...],
) -> None:
    (tmp_path / "m.json").write_text(json.dumps(merge(bare(), recorded)))
    (tmp_path / "c.toml").write_text(f"{X}\n{toml}\n")
    command = ["probe", *options, "--machine", str(tmp_path / "m.json"), "--config", str(tmp_path / "c.toml")]
    usual = run(command), *capsys.readouterr()
    replace_messages()
    other = run(command), *capsys.readouterr()
    assert other[0] == usual[0]
    assert list(map(reword, other[1:])) == list(map(reword, usual[1:]))


def test_configuration_errors(tmp_path: Path, replace_messages: Replace) -> None:
    usual = [_loaded(tmp_path, case.text) for case in cases()]
    replace_messages()
    other = [_loaded(tmp_path, case.text) for case in cases()]
    assert [found.config.broken.keys() for found in other] == [found.config.broken.keys() for found in usual]
    for one, same in zip(other, usual, strict=True):
        assert replace(one.config, broken={}) == replace(same.config, broken={})
        assert [replace(p, message="") for p in one.problems] == [replace(p, message="") for p in same.problems]
        assert [p.message for p in one.problems] == [reword(p.message) for p in same.problems]
    assert sum(len(found.problems) for found in usual) > 100


def test_the_service(monkeypatch: pytest.MonkeyPatch, replace_messages: Replace) -> None:
    """The properties of test_histories hold."""
    still = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda seconds: None, time=lambda: 0.0)
    monkeypatch.setattr("capacityd.reconcile.apply.time", still)
    replace_messages()
    profile = settings(stateful_step_count=16, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Histories, settings=profile)


def _loaded(folder: Path, text: str) -> Loaded:
    (folder / "c.toml").write_text(text)
    return load(str(folder / "c.toml"))
