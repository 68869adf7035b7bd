"""Builders of recorded block devices and mounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.trees import Recording, Tree, files


def disk(
    name: str = "sda",
    at: str = "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0",
    size: int = 500_107_862_016,
    bus: str = "scsi",
    number: str = "8:0",
    rotational: bool = False,
    removable: bool = False,
    partitions: Sequence[str] = (),
    holders: Iterable[str] = (),
    of_device: Mapping[str, str] | None = None,
    of_disk: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Recording:
    """A disk. at: its parent device. partitions: names; they get the next minor numbers.

    of_device, of_disk: more attributes of the device (model, vendor, wwid, serial) and of the disk (hidden, wwid).
    """
    path = f"{at}/{name}" if bus == "nvme" else f"{at}/block/{name}"
    tree = Tree()
    tree.attributes(at, {k: f"{v}\n" for k, v in (of_device or {}).items()})
    tree.attributes(path, {k: f"{v}\n" for k, v in (of_disk or {}).items()})
    tree.attributes(path, {"size": f"{size // 512}\n", "removable": f"{int(removable)}\n"})
    tree.attributes(f"{path}/queue", {"rotational": f"{int(rotational)}\n", "logical_block_size": "4096\n"})
    tree.link(f"{path}/device", at)
    tree.link(f"{at}/subsystem", f"/sys/class/{bus}" if bus == "nvme" else f"/sys/bus/{bus}")
    tree.attributes(f"/sys/class/{bus}" if bus == "nvme" else f"/sys/bus/{bus}", {"uevent": ""})
    for holder in holders:
        tree.link(f"{path}/holders/{holder}", f"/sys/class/block/{holder}")
    tree.block(name, path, number, "disk")
    major, minor = number.split(":")
    for index, partition in enumerate(partitions, 1):
        tree.attributes(f"{path}/{partition}", {"partition": f"{index}\n", "size": "2048\n"})
        tree.block(partition, f"{path}/{partition}", f"{major}:{int(minor) + index}", "partition")
    return tree.recording({path: properties} if properties else {})


def nvme(
    name: str = "nvme0n1",
    serial: str = "S64FNE0R",
    model: str = "SAMSUNG MZQL23T8HCLS-00A07",
    wwid: str | None = "eui.0025385b71b00c1d",
    transport: str = "pcie",
    at: str | None = None,
    number: str = "259:0",
    **more: Any,
) -> Recording:
    """An NVMe namespace. at: its controller or, with multipath, its subsystem."""
    controller = name[: name.index("n", 4)]
    at = at or f"/sys/devices/pci0000:5e/0000:5e:00.0/nvme/{controller}"
    of_disk = {"wwid": wwid} if wwid else {}
    return disk(
        name,
        at,
        bus="nvme",
        number=number,
        of_device={"serial": serial, "model": model.ljust(40), "transport": transport},
        of_disk={**of_disk, **more.pop("of_disk", {})},
        **more,
    )


def stacked(
    name: str = "dm-0",
    slaves: Iterable[str] = (),
    number: str = "253:0",
    size: int = 10**9,
    dm: tuple[str, str] | None = None,
    partitions: Sequence[str] = (),
) -> Recording:
    """A virtual block device, with slaves (dm, md) or without (loop, zram). dm: name and uuid."""
    path, tree = f"/sys/devices/virtual/block/{name}", Tree()
    tree.attributes(path, {"size": f"{size // 512}\n", "removable": "0\n"})
    tree.attributes(f"{path}/queue", {"rotational": "0\n"})
    if dm is not None:
        tree.attributes(f"{path}/dm", {"name": f"{dm[0]}\n", "uuid": f"{dm[1]}\n"})
    for slave in slaves:
        tree.link(f"{path}/slaves/{slave}", f"/sys/class/block/{slave}")
    tree.block(name, path, number, "disk")
    major, minor = number.split(":")
    for index, partition in enumerate(partitions, 1):
        tree.attributes(f"{path}/{partition}", {"partition": f"{index}\n"})
        tree.block(partition, f"{path}/{partition}", f"{major}:{int(minor) + index}", "partition")
    return tree.recording()


def mounts(*mounted: tuple[str, str, str, str], swaps: Iterable[tuple[str, str]] = ()) -> Recording:
    """Mounts (mount point, major:minor, type, source) and swap (path, "partition" or "file")."""
    lines = [f"{29 + n} 1 {d} / {p} rw,relatime shared:{n} - {t} {s} rw\n" for n, (p, d, t, s) in enumerate(mounted, 1)]
    swap = [f"{path:<40}{kind:<12}1048572\t\t0\t\t-2\n" for path, kind in swaps]
    head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    return files({"/proc/self/mountinfo": "".join(lines), "/proc/swaps": head + "".join(swap)})
