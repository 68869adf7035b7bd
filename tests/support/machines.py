"""Made-up machines: builders of recordings (capacityd.host.recording.replay) with a /sys that looks like the kernel's.

Each builder returns a recording. merge() combines recordings into one machine. write_tree() writes one as real files
and links, which can be mounted over /sys. The builders leave out parts of /sys that no detector reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from capacityd.host.recording.replay import RecordedHost
from tests.support.trees import Recording, Tree, errors, files, merge, write_tree

__all__ = ["Recording", "errors", "files", "merge", "write_tree"]  # for the modules that use these machines


def machine(*parts: Recording) -> RecordedHost:
    """A machine with a /sys that contains only these parts."""
    return RecordedHost(merge(bare(), *parts))


def bare() -> Recording:
    """A machine with a /sys, processors, memory and a root file system, but no device that a detector counts."""
    return merge(
        {"files": {"/sys/devices/system/cpu/online": "0-3\n", "/sys/bus/cpu/uevent": ""}},
        processors(),
        memory(),
        mounts(("/", "0:2", "rootfs", "rootfs")),  # mount point, major:minor, type, source
    )


def processors(
    cores: int | None = 2, threads: int | None = 4, sockets: int | None = 1, max_frequency: int | None = None
) -> Recording:
    """The processors. max_frequency: in Hz. None: the machine does not report the measure."""
    fields = {"cores": cores, "threads": threads, "sockets": sockets, "max_frequency": max_frequency}
    return {"processors": fields}


def memory(size: int = 8_323_006_464, swap: int = 0) -> Recording:
    """The memory and the swap in bytes. The default is the memory that the kernel reports on a machine with 8 GiB."""
    return {"memory": {"size": size, "swap": swap}}


def usb_path(port: str) -> str:
    """The path of the device at a port. For example, 1-1.2 is below 1-1, which is below the root hub usb1."""
    bus, _, ports = port.partition("-")
    path = f"/sys/devices/pci0000:00/0000:00:14.{int(bus) % 8}/usb{bus}"
    numbers = ports.split(".")
    for depth in range(len(numbers)):
        path += f"/{bus}-{'.'.join(numbers[: depth + 1])}"
    return path


def usb_device(
    port: str = "1-1",
    vendor: str = "0403",
    product: str = "6001",
    serial: str | None = "A17",
    manufacturer: str | None = "FTDI",
    model: str | None = "FT232R USB UART",
    device_class: str = "000000",
    interfaces: Sequence[tuple[str, str | None]] = (("ffffff", "ftdi_sio"),),
    number: int = 2,
    properties: Mapping[str, str] | None = None,
) -> Recording:
    """A USB device with its interfaces, each with a class and a driver (or None). number: its address on the bus."""
    path, bus = usb_path(port), int(port.partition("-")[0])
    tree = Tree()
    texts = {"idVendor": vendor, "idProduct": product, "serial": serial, "manufacturer": manufacturer, "product": model}
    tree.attributes(path, {name: f"{text}\n" for name, text in texts.items() if text is not None})
    tree.attributes(path, _class("bDevice", device_class) | {"busnum": f"{bus}\n", "devnum": f"{number}\n"})
    minor = (bus - 1) * 128 + number - 1  # as the kernel numbers USB devices
    tree.device(
        path, "usb", "usb", [f"MAJOR=189\nMINOR={minor}\nDEVNAME=bus/usb/{bus:03}/{number:03}\nDEVTYPE=usb_device"]
    )
    for index, (interface_class, driver) in enumerate(interfaces):
        interface = f"{path}/{port}:1.{index}"
        tree.attributes(interface, _class("bInterface", interface_class))
        tree.device(interface, "usb", driver, ["DEVTYPE=usb_interface"])
    return tree.recording({path: properties} if properties else {})


def usb_hub(port: str = "1-1", number: int = 2) -> Recording:
    """A hub that other devices can be connected to."""
    ids: dict[str, Any] = {"vendor": "05e3", "product": "0610", "serial": None, "manufacturer": None}
    interfaces = [("090000", "hub")]
    return usb_device(port, model="USB2.0 Hub", device_class="090001", interfaces=interfaces, number=number, **ids)


def usb_root(bus: int = 1) -> Recording:
    """The root hub of a controller, which is part of the machine."""
    tree, path = Tree(), usb_path(f"{bus}-1").rpartition("/")[0]
    tree.attributes(path, {"idVendor": "1d6b\n", "idProduct": "0002\n", **_class("bDevice", "090001")})
    tree.device(path, "usb", "usb", [f"MAJOR=189\nMINOR={(bus - 1) * 128}\nDEVTYPE=usb_device"])
    tree.attributes(f"{path}/{bus}-0:1.0", _class("bInterface", "090000"))
    tree.device(f"{path}/{bus}-0:1.0", "usb", "hub", ["DEVTYPE=usb_interface"])
    return tree.recording()


def pci_path(address: str) -> str:
    """The path of the function at this address."""
    return f"/sys/devices/pci{address[:7]}/{address}"


def pci_function(
    address: str = "0000:3b:00.0",
    vendor: str = "10de",
    device: str = "20b5",
    device_class: str = "030200",
    driver: str | None = "nvidia",
    subsystem: tuple[str, str] = ("10de", "1533"),
    vfs: tuple[int, int] | None = None,
    physfn: str | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Recording:
    """A PCI function. vfs: the maximum and current number of virtual functions. physfn: its physical function."""
    tree, path = Tree(), pci_path(address)
    ids = {"vendor": vendor, "device": device, "class": device_class}
    ids |= {"subsystem_vendor": subsystem[0], "subsystem_device": subsystem[1]}
    tree.attributes(path, {name: f"0x{text}\n" for name, text in ids.items()})
    if vfs is not None:
        tree.attributes(path, {"sriov_totalvfs": f"{vfs[0]}\n", "sriov_numvfs": f"{vfs[1]}\n"})
    if physfn is not None:
        tree.link(f"{path}/physfn", pci_path(physfn))
    tree.attributes(path, attributes or {})
    tree.device(path, "pci", driver, [f"PCI_CLASS={device_class}\nPCI_SLOT_NAME={address}"])
    return tree.recording()


def nic(
    name: str = "eth0",
    hardware: str | None = None,
    speed: str | None = "1000",
    operstate: str = "up",
    carrier: str | None = "1",
    devtype: str = "",
    lower: Iterable[str] = (),
    master: str | None = None,
    bond: tuple[str, Sequence[str]] | None = None,
    link_speeds: Sequence[int] | None = None,
    link_kind: str | None = None,
    number: int = 2,
    attributes: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Recording:
    """A network interface.

    hardware: the path of its device (None: a software interface). speed, carrier: None if a read fails with EINVAL.
    lower: the interfaces below it. bond: its mode and members. link_speeds: in bit/s (None: unknown). link_kind: the
    kind that "ip -details link" shows (None: unknown). number: its index.
    """
    path = f"{hardware}/net/{name}" if hardware else f"/sys/devices/virtual/net/{name}"
    tree = Tree()
    tree.attributes(path, {"operstate": f"{operstate}\n", "type": "1\n"})
    tree.attributes(path, {"ifindex": f"{number}\n", "iflink": f"{number}\n"})
    tree.attributes(path, attributes or {})
    for attribute, text in (("speed", speed), ("carrier", carrier)):
        if text is None:
            tree.errors[f"{path}/{attribute}"] = "EINVAL"
        else:
            tree.attributes(path, {attribute: f"{text}\n"})
    if bond is not None:
        mode, members = bond
        tree.attributes(f"{path}/bonding", {"mode": f"{mode} 1\n", "slaves": " ".join(members) + "\n"})
        devtype, lower = "bond", members
    for below in lower:
        tree.link(f"{path}/lower_{below}", f"/sys/class/net/{below}")
    if master is not None:
        tree.link(f"{path}/master", f"/sys/class/net/{master}")
    if hardware:
        tree.link(f"{path}/device", hardware)
    lines = [f"DEVTYPE={devtype}"] if devtype else []
    tree.attributes(path, {"uevent": "\n".join([*lines, f"INTERFACE={name}", f"IFINDEX={number}"]) + "\n"})
    tree.link(f"{path}/subsystem", "/sys/class/net")
    tree.link(f"/sys/class/net/{name}", path)
    recording = tree.recording({path: properties} if properties else {})
    if link_speeds is not None:
        recording["link_modes"] = {name: [f"{speed // 10**6}baseT/Full" for speed in link_speeds]}
    if link_kind is not None:
        recording["link_kinds"] = {name: link_kind}
    return recording


def pci_nic(
    name: str = "eth0",
    address: str = "0000:01:00.0",
    vendor: str = "8086",
    device: str = "1572",
    driver: str = "i40e",
    link_speeds: Sequence[int] | None = (10**9, 10**10),
    physfn: str | None = None,
    **more: Any,
) -> Recording:
    """A network card with its interface. more: arguments of nic()."""
    return merge(
        pci_function(address, vendor, device, device_class="020000", driver=driver, physfn=physfn),
        nic(name, pci_path(address), link_speeds=link_speeds, **more),
    )


def usb_nic(name: str = "eth1", port: str = "1-2", **more: Any) -> Recording:
    """A USB network adapter."""
    ids: dict[str, Any] = {"vendor": "0bda", "product": "8153", "serial": "001000001", "manufacturer": "Realtek"}
    adapter = usb_device(port, model="USB LAN", interfaces=[("ffff00", "r8152")], **ids)
    return merge(adapter, nic(name, f"{usb_path(port)}/{port}:1.0", **more))


def virtio_nic(name: str = "eth0", address: str = "0000:00:03.0", **more: Any) -> Recording:
    """The network card of a virtual machine, which reports neither link modes nor speed."""
    path, tree = f"{pci_path(address)}/virtio0", Tree()
    tree.attributes(path, {"vendor": "0x1af4\n", "device": "0x0001\n"})
    tree.device(path, "virtio", "virtio_net", [])
    card = pci_function(address, vendor="1af4", device="1041", device_class="020000", driver="virtio-pci")
    return merge(card, tree.recording(), nic(name, path, **{"speed": "-1", "link_speeds": [], **more}))


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
    """A disk. at: the path of its parent device. size: in bytes. number: its major and minor number.

    partitions: their names; they get the next minor numbers. of_device: further attributes of the parent device (model,
    vendor, wwid, serial). of_disk: further attributes of the disk itself (hidden, wwid).
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
    """An NVMe namespace. at: the path of its controller or, with multipath, of its subsystem."""
    controller = name[: name.index("n", 4)]  # "nvme0" in "nvme0n1"
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
    """A virtual block device, on other devices (dm, md) or on none (loop, zram). dm: name and uuid of a dm device."""
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
    """A table of mounts (mount point, major:minor, type, source) and swap areas (path, "partition" or "file")."""
    mountinfo = ""
    for number, (point, device, kind, source) in enumerate(mounted, 1):
        mountinfo += f"{29 + number} 1 {device} / {point} rw,relatime shared:{number} - {kind} {source} rw\n"
    swap_table = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    for path, kind in swaps:
        swap_table += f"{path:<40}{kind:<12}1048572\t\t0\t\t-2\n"
    return files({"/proc/self/mountinfo": mountinfo, "/proc/swaps": swap_table})


def mount_table(*lines: str, swap_file: str = "") -> Recording:
    """A table of mounts in this order. A line is "major:minor root mount-point type source options"."""
    table = ""
    for number, line in enumerate(lines, 30):
        device, root, point, kind, source, options = line.split(" ")
        table += f"{number} 1 {device} {root} {point} rw - {kind} {source} {options}\n"
    swaps = f"Filename\n{swap_file} file 1048572 0 -2\n" if swap_file else "Filename\n"
    return files({"/proc/self/mountinfo": table, "/proc/swaps": swaps})


def routes(*defaults: str) -> Recording:
    """The interfaces of the default routes."""
    return {"default_interfaces": list(defaults)}


def _class(prefix: str, digits: str) -> dict[str, str]:
    """The attributes of a USB class: "090001" is the class 09, the subclass 00 and the protocol 01."""
    names = (f"{prefix}Class", f"{prefix}SubClass", f"{prefix}Protocol")
    return {name: f"{digits[2 * n : 2 * n + 2]}\n" for n, name in enumerate(names)}
