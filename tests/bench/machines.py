"""The made-up machines to measure, each with its configuration, as folders to be bound over /sys."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.machines import merge, pci_function, usb_device, usb_root, write_tree
from tests.support.tour import recording

SIX = """\
[resources."example.com/dongle"]
usb = { vendor = "0529", product = "0001" }
[resources."example.com/nic-mbps"]
nic = { name = "ens1f0" }
measure = "speed"
unit = "Mbit/s"
[resources."example.com/scratch-gib"]
disk = { type = "nvme" }
measure = "size"
unit = "GiB"
reserve = "10%"
[resources."example.com/gpu"]
pci = { class = "03", vendor = "10de" }
[resources."example.com/load"]
file = { path = "/proc/sys/kernel/pid_max" }
[resources."example.com/seats"]
static = { quantity = 25 }
"""
USB = """\
[resources."example.com/dongle"]
usb = { vendor = "0529", product = "0001" }
"""


def tour(folder: Path) -> Path:
    """The documentation's machine, with a GPU."""
    write_tree(merge(recording(), pci_function()), str(folder))
    return folder / "sys"


def many(folder: Path, number: int) -> Path:
    """A machine with this number of USB devices, in udev's database as well. Every second one is a dongle."""
    write_tree(usb_root(1), str(folder))
    for n in range(1, number + 1):
        product, property_ = ("0001", "yes") if n % 2 else ("0002", "no")
        device = usb_device(f"1-{n}", "0529", product, f"S{n:05}", number=n, properties={"ID_TEST": property_})
        write_tree(device, str(folder))  # merging first would copy all files for each device
    return folder / "sys"


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory, like /sys: on disk, made-up machines would be slower than real ones."""
    with tempfile.TemporaryDirectory(prefix="capacityd-bench-") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


@contextmanager
def bound(sys: Path) -> Iterator[None]:
    """Binds this folder over /sys, and the udev database beside it. The process needs its own mount namespace."""
    udev = sys.parent / "run/udev"
    places = [(sys, "/sys"), *([(udev, "/run/udev")] if udev.exists() else [])]
    for folder, place in places:
        os.makedirs(place, exist_ok=True)
        subprocess.run(["mount", "--bind", folder, place], check=True)
    try:
        yield
    finally:
        for _, place in reversed(places):
            subprocess.run(["umount", place], check=True)


@contextmanager
def udev_running() -> Iterator[None]:
    """Makes the machine look as if udev ran: without udev, the service looks at the hardware each minute. The process
    needs its own mount namespace."""
    os.makedirs("/run/udev", exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/udev"], check=True)
    try:
        Path("/run/udev/control").touch()
        yield
    finally:
        subprocess.run(["umount", "/run/udev"], check=True)
