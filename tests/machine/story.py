"""The hardware of the node in the story, and what its administrator makes of it."""

from __future__ import annotations

from pathlib import Path

from tests.machine.qemu import drive, nic, peer

DONGLE, NIC, PORT = "example.com/dongle", "example.com/nic-mbps", "example.com/port-mbps"
SCRATCH, NVME = "example.com/scratch-gib", "example.com/nvme"
GIB = 1 << 30

# In the place of the example's resources: QEMU has no SafeNet dongle, but an FTDI one.
HARDWARE = f"""\
[resources."{DONGLE}"]
usb = {{ vendor = "0403", product = "6001" }}

[resources."{NIC}"]
nic = {{ system = false, driver = "virtio_net", link = "up" }}
measure = "speed"
unit = "Mbit/s"
fallback = "1Gbit/s"

[resources."{PORT}"]
nic = {{ driver = "e1000e" }}
measure = "max_speed"
unit = "Mbit/s"

[resources."{SCRATCH}"]
disk = {{ system = false }}
measure = "size"
unit = "GiB"

[resources."{NVME}"]
disk = {{ type = "nvme" }}
"""
AT_FIRST = {DONGLE: "2", NIC: "26k", PORT: None, SCRATCH: "3", NVME: "1"}


def hardware(folder: Path) -> list[str]:
    """Three USB devices of which two match, a NIC with a speed and one without, an NVMe disk and one of virtio."""
    return [
        *("-chardev", "null,id=dongle1-end", "-device", "usb-serial,id=dongle1,chardev=dongle1-end,always-plugged=on"),
        *("-chardev", "null,id=dongle2-end", "-device", "usb-serial,id=dongle2,chardev=dongle2-end,always-plugged=on"),
        *("-device", "usb-mouse,id=mouse"),
        *nic("nic1", speed=25000, duplex="full"),
        *nic("nic2"),
        *peer("nic3"),
        *(*drive("nvme", 2 * GIB, folder), "-device", "nvme,id=nvme,drive=nvme,serial=nvme"),
        *(*drive("scratch", 1 * GIB, folder), "-device", "virtio-blk-pci,drive=scratch,serial=scratch"),
    ]
