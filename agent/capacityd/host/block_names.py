"""Which block devices are not whole disks, according to their names and their paths in /sys."""

from __future__ import annotations

import re

_VIRTUAL = re.compile("/sys/devices/(virtual/(?!nvme-)|pseudo_|tcm_loop_|vdpa)")
"""The beginning of the paths in /sys of block devices that software makes: those whose driver sets no parent device,
and virtio disks of programs (VDUSE), are in virtual/; SCSI disks in memory are in pseudo_ (scsi_debug), those of this
machine's own disks and files in tcm_loop_ (drivers/target/loopback); simulated virtio disks are in vdpa (vdpa_sim).
NVMe disks are in virtual/nvme-subsystem if they may have several paths, and in virtual/nvme-fabrics over a network."""
_SOFTWARE = ("dm-", "loop", "md", "ram", "zram")
"""Prefixes of names of block devices that software makes. No disk has a name with these prefixes."""
_NOT_DISKS = ("fd", "mtdblock", "rbd", "sr", "ubiblock")
"""Prefixes of names of block devices whose paths in /sys look like those of disks: floppy and optical drives (fd, sr),
flash chips (mtdblock, ubiblock) and network disks of Ceph (rbd)."""
_HARDWARE_IN_VIRTUAL = re.compile("fio[a-z]+")
"""Hardware in _VIRTUAL: the driver iomemory-vsl of Fusion-io's PCIe cards (fioa) sets no parent. The kernel's own
drivers of hardware all set one (device_add_disk in drivers/block, drivers/s390/block, drivers/nvdimm)."""
_NVME_PATH = re.compile("nvme[0-9]+c[0-9]+n[0-9]+")
"""One of several paths to an NVMe namespace: nvme6c6n1 beside nvme6n1 (nvme_alloc_ns in drivers/nvme/host/core.c)."""


def is_excluded(name: str) -> bool:
    """Whether the name shows that this is not a whole disk. mmcblk0boot0 is a part of the memory card mmcblk0."""
    is_part_of_card = name.startswith("mmcblk") and not name.removeprefix("mmcblk").isdigit()
    is_nvme_path = _NVME_PATH.fullmatch(name) is not None
    return name.startswith((*_SOFTWARE, *_NOT_DISKS)) or is_part_of_card or is_nvme_path


def is_virtual(name: str, real: str) -> bool:
    """Whether a block device is made by software. real: its path in /sys without links."""
    return _VIRTUAL.match(real) is not None and _HARDWARE_IN_VIRTUAL.fullmatch(name) is None
