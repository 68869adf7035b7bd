"""The hardware database as libudev reads it, beside systemd's own tool."""

from __future__ import annotations

import ctypes
import subprocess

import pytest

from capacityd.host import hwdb
from capacityd.host.live import LiveHost


@pytest.mark.parametrize(
    "modalias", ["usb:v0529p0001", "usb:v046DpC077", "pci:v00008086d00001572", "usb:vFFFFp0000", "no such\x1bthing"]
)
def test_says_what_systemd_s_tool_says(modalias: str) -> None:
    tool = subprocess.run(
        ["systemd-hwdb", "query", modalias], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert dict(LiveHost().hardware_names(modalias)) == dict(line.split("=", 1) for line in tool.splitlines())


def test_has_names() -> None:
    assert LiveHost().hardware_names("usb:v0529p0001")["ID_VENDOR_FROM_DATABASE"] == "Aladdin Knowledge Systems"


def test_a_machine_without_libudev_has_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, **_: object) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    for cached in (hwdb._opened, hwdb.look_up):
        cached.cache_clear()
    assert hwdb.look_up("usb:v0529p0001") == {}
    for cached in (hwdb._opened, hwdb.look_up):
        cached.cache_clear()
