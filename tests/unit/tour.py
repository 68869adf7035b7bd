"""The machine of the README's tour, and what its examples print: python -m tests.unit.tour writes both anew."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from capacityd.cli import run
from tests.unit.machines import (
    Recording,
    bare,
    disk,
    merge,
    mounts,
    nvme,
    pci_nic,
    routes,
    usb_device,
    usb_hub,
    usb_root,
)

ROOT = Path(__file__).parents[2]
MACHINE = ROOT / "docs/tour/machine.json"
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def recording() -> Recording:
    """Four dongles behind a hub, a mouse; a 1G NIC with the default route, a 10G one; an NVMe disk, a SATA one."""
    dongles = [
        usb_device(f"1-1.{n}", "0529", "0001", None, "SafeNet", "Sentinel HL", "ff0000", [("ffffff", "usbfs")], n + 2)
        for n in range(1, 5)
    ]
    return merge(
        bare(),
        usb_root(1),
        usb_hub("1-1", 2),
        *dongles,
        usb_device("1-2", "046d", "c077", None, "Logitech", "USB Optical Mouse", "000000", [("030102", "usbhid")], 9),
        pci_nic("eno1", "0000:02:00.0", "8086", "1533", "igb", [10**7, 10**8, 10**9], speed="1000"),
        pci_nic("ens1f0", "0000:5f:00.0", "8086", "1572", "i40e", [10**9, 10**10], speed="10000", number=3),
        routes("eno1"),
        nvme("nvme0n1", size=1_920_383_410_176),
        disk("sda", size=480_103_981_056, partitions=["sda1", "sda2"]),
        mounts(("/", "8:2", "ext4", "/dev/sda2"), ("/boot/efi", "8:1", "vfat", "/dev/sda1")),
        {"hostname": "n1", "arch": "x86_64"},
    )


def printed(text: str, folder: Path) -> str:
    """The text with what its console blocks really print, run in this folder."""
    with _inside(folder):
        return _CONSOLE.sub(lambda block: f"```console\n{_session(block[1])}```", text)


def _session(block: str) -> str:
    said = ""
    for line in block.splitlines():
        if line.startswith("$ capacityd "):
            said += f"{line}\n{_output(line.removeprefix('$ capacityd ').split())}"
    return said


def _output(arguments: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        run(arguments)
    return out.getvalue()


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """A folder that has what the examples name."""
    before = Path.cwd()
    shutil.copytree(ROOT / "docs", folder / "docs", dirs_exist_ok=True)
    (folder / "build").mkdir(exist_ok=True)
    shutil.copy(ROOT / "docs/tour/node.json", folder / "build/node.json")
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> None:
    """Writes the machine and the README's outputs anew."""
    import tempfile

    MACHINE.write_text(json.dumps(recording(), indent=1, sort_keys=True) + "\n")
    readme = ROOT / "README.md"
    with tempfile.TemporaryDirectory() as folder:
        readme.write_text(printed(readme.read_text(), Path(folder)))


if __name__ == "__main__":
    main()
