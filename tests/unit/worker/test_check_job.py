"""Which events start a pass, by what the configuration counts."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from capacityd.detectors import load, names
from capacityd.discovery.child import DEADLINE, MAX_RUNNING
from capacityd.model.config import Config
from capacityd.model.device import DeviceDetector
from capacityd.worker.check_job import check, watch_of
from tests.support.readings import resource

EVENTS: dict[str, tuple[set[str], set[str]]] = {  # detector -> udev's subsystems, the kernel's own events
    "address": (set(), {"links", "addresses"}),
    "cpu": ({"cpu"}, set()),
    "disk": ({"block"}, {"mounts", "swaps"}),  # some mounts, and swap, make a disk the system's
    "filesystem": (set(), {"mounts"}),
    "memory": ({"memory"}, {"swaps"}),
    "nic": ({"net"}, {"links"}),
    "pci": ({"pci"}, set()),
    "udev": ({"tty"}, set()),
    "usb": ({"usb"}, set()),
}


def test_every_device_detector_has_event_sources() -> None:
    assert {name for name in names() if isinstance(load(name), DeviceDetector)} == {*EVENTS}


@pytest.mark.parametrize("detector", EVENTS)
def test_events(detector: str) -> None:
    counted = resource(detector, {"subsystem": "tty"} if detector == "udev" else {})
    found = watch_of(Config((counted,)), None)
    assert (found.subsystems, found.kernel) == tuple(tuple(sorted(events)) for events in EVENTS[detector])


def test_the_timeout_of_a_worker_includes_those_of_its_detectors() -> None:
    found = watch_of(Config((resource("usb"), resource("pci"))), None)
    assert found.allowed == MAX_RUNNING + 2 * DEADLINE


def test_a_file_that_is_not_read_is_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/50-a.toml").write_text('[resources."example.com/x"]\ndisk = { size = "500GB" }\n')
    (tmp_path / "conf.d/60.conf").touch()
    config = str(tmp_path / "conf.d")
    assert check(Namespace(config=config, folder=str(tmp_path), reasons="start", kubeconfig=None)) == 0
    assert capfd.readouterr().err.splitlines() == [
        f'capacityd: {config}/60.conf: is not read, because its name does not end with ".toml"',
        f'capacityd: {config}/50-a.toml:2: [resources."example.com/x".disk] size: '
        '"500GB" matches only this exact size; for this size or more write ">=500GB"',
    ]
