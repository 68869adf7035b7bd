"""The hardware database, read with systemd-hwdb."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from capacityd.host import hwdb
from capacityd.host.live import LiveHost
from tests.support.forked import forked


def names_of(modalias: str) -> dict[str, str]:
    """Returns the names. Runs in a forked process, because the query may end all children."""
    return forked(lambda: dict(LiveHost().hardware_names(modalias)))


@pytest.mark.parametrize("modalias", ["usb:v0529p0001", "pci:v00008086d00001572", "no such\x1bthing", "-h"])
def test_the_properties_are_those_that_the_program_prints(modalias: str) -> None:
    command = ["systemd-hwdb", "query", "--", modalias]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert names_of(modalias) == dict(line.split("=", 1) for line in printed.splitlines())


def test_each_modalias_is_queried_once() -> None:
    def calls() -> int:
        hwdb.look_up.cache_clear()  # this process may have queried it before
        names = [LiveHost().hardware_names("usb:v0529p0001") for _ in range(2)]
        assert names[1]["ID_VENDOR_FROM_DATABASE"] == "Aladdin Knowledge Systems"
        return hwdb.look_up.cache_info().misses

    assert forked(calls) == 1
    assert names_of("") == names_of("usb:\0") == {}


@pytest.mark.parametrize(
    ("script", "names"),
    [
        (None, {}),
        (
            "printf 'ID_MODEL=a=b\\\\c\\n'; printf 'ID_VENDOR=\\033[31m\\377\\n'; echo nothing",
            {"ID_MODEL": "a=b\\c", "ID_VENDOR": r"\x1b[31m\xff"},
        ),
        ("echo ID_MODEL=a; exit 1", {}),
    ],
    ids=["missing", "prints", "fails"],
)
def test_a_program_that_fails_gives_no_names(
    script: str | None, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is a double: the real program prints only printable text."""
    program = tmp_path / "systemd-hwdb"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setattr(hwdb, "_PROGRAM", str(program))
    assert names_of("usb:v0529p0001") == names
