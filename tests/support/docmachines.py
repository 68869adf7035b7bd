"""The machines of the how-to pages; docs/machines has their recordings."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.support.machines import (
    Recording,
    bare,
    disk,
    files,
    memory,
    merge,
    mounts,
    nic,
    nvme,
    pci_function,
    pci_nic,
    processors,
    routes,
    usb_device,
    usb_hub,
    usb_path,
    usb_root,
    virtio_nic,
)

_NAMES = {  # entries of udev's hardware database
    "pci:v0000102Bd00000536": ("Matrox Electronics Systems Ltd.", "Integrated Matrox G200eW3 Graphics Controller"),
    "pci:v000010DEd000020B5": ("NVIDIA Corporation", "GA100 [A100 PCIe 80GB]"),
    "pci:v000015B3d0000101D": ("Mellanox Technologies", "MT2892 Family [ConnectX-6 Dx]"),
    "pci:v000015B3d0000101E": ("Mellanox Technologies", "ConnectX Family mlx5Gen Virtual Function"),
    "pci:v00008086d00001533": ("Intel Corporation", "I210 Gigabit Network Connection"),
    "pci:v00008086d0000159B": ("Intel Corporation", "Ethernet Controller E810-XXV for SFP"),
}


def _named(*modaliases: str) -> Recording:
    """The entries of these modaliases, of which _NAMES has the beginnings."""
    found = {m: next(name for short, name in _NAMES.items() if m.startswith(short)) for m in modaliases}
    names = {
        m: {"ID_VENDOR_FROM_DATABASE": maker, "ID_MODEL_FROM_DATABASE": model} for m, (maker, model) in found.items()
    }
    return {"hardware_names": names}


def desk() -> Recording:
    """A hub and a mouse."""
    mouse = usb_device(
        "1-2", "046d", "c077", None, "Logitech", "USB Optical Mouse", "000000", [("030102", "usbhid")], 9
    )
    return merge(bare(), usb_root(1), usb_hub("1-1", 2), mouse, {"hostname": "n1"})


def network() -> Recording:
    """A 1G port with the default route, a bond of two 25G ports, and a 100G port with two virtual functions."""
    members = [
        pci_nic(
            f"ens2f{n}",
            f"0000:31:00.{n}",
            "8086",
            "159b",
            "ice",
            [10**10, 25 * 10**9],
            master="bond0",
            speed="25000",
            number=4 + n,
        )
        for n in range(2)
    ]
    functions = [
        pci_nic(
            f"ens5v{n}",
            f"0000:98:00.{n + 2}",
            "15b3",
            "101e",
            "mlx5_core",
            [],
            "0000:98:00.0",
            speed=None,
            number=9 + n,
        )
        for n in range(2)
    ]
    return merge(
        bare(),
        pci_nic("eno1", "0000:02:00.0", "8086", "1533", "igb", [10**7, 10**8, 10**9], speed="1000"),
        *members,
        nic("bond0", bond=("802.3ad", ["ens2f0", "ens2f1"]), speed="50000", number=8),
        pci_nic("ens5", "0000:98:00.0", "15b3", "101d", "mlx5_core", [25 * 10**9, 10**11], speed="25000", number=3),
        *functions,
        routes("eno1"),
        _named("pci:v00008086d00001533", "pci:v00008086d0000159B", "pci:v000015B3d0000101D", "pci:v000015B3d0000101E"),
        {"hostname": "n1"},
    )


def virtual() -> Recording:
    """A virtual machine, whose network interfaces report no speed."""
    return merge(
        bare(),
        virtio_nic("eth0", number=2),
        virtio_nic("eth1", "0000:00:04.0", number=3),
        routes("eth0"),
        {"hostname": "n1"},
    )


def storage() -> Recording:
    """A small SATA system disk, three NVMe disks, two hard disks, and a USB stick."""
    spinning = [
        disk(
            f"sd{letter}",
            f"/sys/devices/pci0000:00/0000:00:17.0/ata{n}/host{n}/target{n}:0:0/{n}:0:0:0",
            8_001_563_222_016,
            number=f"8:{16 * n}",
            rotational=True,
            of_device={"model": "ST8000NM017B", "vendor": "ATA", "wwid": f"naa.5000c500e4a1b2c{n}"},
        )
        for n, letter in ((2, "c"), (3, "d"))
    ]
    return merge(
        bare(),
        disk(size=480_103_981_056, partitions=["sda1", "sda2"], of_device={"model": "MZ7L3480HCHQ", "vendor": "ATA"}),
        *spinning,
        *(
            nvme(
                f"nvme{n}n1",
                f"S64FNE0R80{n}112",
                "SAMSUNG MZQL23T8HCLS-00A07" if n < 2 else "INTEL SSDPEK1A058GA",
                f"eui.0025385b71b00c1{n}",
                at=f"/sys/devices/pci0000:5e/0000:5e:00.{n}/nvme/nvme{n}",
                number=f"259:{n}",
                size=3_840_755_982_336 if n < 2 else 58_977_157_120,
            )
            for n in range(3)
        ),
        usb_root(1),
        usb_device("1-3", "0781", "5583", "4C530", "SanDisk", "Ultra Fit", "000000", [("080650", "usb-storage")], 5),
        disk(
            "sde",
            f"{usb_path('1-3')}/1-3:1.0/host6/target6:0:0/6:0:0:0",
            30_752_636_928,
            number="8:64",
            removable=True,
            of_device={"model": "Ultra Fit", "vendor": "SanDisk"},
        ),
        mounts(("/", "8:2", "ext4", "/dev/sda2"), ("/boot/efi", "8:1", "vfat", "/dev/sda1")),
        memory(size=67_343_941_632, swap=8_589_930_496),
        {"hostname": "n1"},
    )


def cloud() -> Recording:
    """A cloud instance: a system volume, a volume of a pod, two local disks; two interfaces without a reported speed,
    one of them attached by the CNI plugin."""
    kinds = {
        "nvme0n1": ("vol0546d3c3b0af0bf6d", "Amazon Elastic Block Store", 100 * 2**30),
        "nvme1n1": ("AWS24BBF51AF55097008", "Amazon EC2 NVMe Instance Storage", 937_500_000_000),
        "nvme2n1": ("AWS2AC2B6B6D64E1A1C0", "Amazon EC2 NVMe Instance Storage", 937_500_000_000),
        "nvme3n1": ("vol0b1e7c2d9f3a4c5e6", "Amazon Elastic Block Store", 200 * 2**30),
    }
    disks = [
        nvme(
            name,
            serial,
            model,
            f"nvme.1d0f-{serial.encode().hex()}-{model.encode().hex()}-00000001",
            at=f"/sys/devices/pci0000:00/0000:00:{0x1F - n:02x}.0/nvme/nvme{n}",
            number=f"259:{3 * n}",
            size=size,
            partitions=["nvme0n1p1"] if n == 0 else [],
        )
        for n, (name, (serial, model, size)) in enumerate(kinds.items())
    ]
    cards = [
        pci_nic(name, f"0000:00:0{n}.0", "1d0f", "ec20", "ena", [], speed=None, number=n - 3)
        for n, name in ((5, "ens5"), (6, "ens6"))
    ]
    return merge(
        bare(),
        *disks,
        *cards,
        routes("ens5"),
        mounts(("/", "259:1", "ext4", "/dev/nvme0n1p1")),
        processors(cores=16, threads=32),
        memory(size=132_885_241_856),
        files({"/sys/class/dmi/id/product_name": "m6id.8xlarge\n", "/sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}),
        {"hostname": "n1"},
    )


def gpus() -> Recording:
    """A server with four GPUs, and a graphics controller for its console."""
    cards = [
        pci_function(f"0000:{bus}:00.0", "10de", "20b5", "030200", "nvidia", attributes={"numa_node": f"{n // 2}\n"})
        for n, bus in enumerate(("17", "65", "ca", "e3"))
    ]
    return merge(
        bare(),
        pci_function(
            "0000:03:00.0", "102b", "0536", "030000", "mgag200", ("1028", "0a6d"), attributes={"boot_vga": "1\n"}
        ),
        *cards,
        pci_function("0000:31:00.0", "8086", "159b", "020000", "ice", ("8086", "0003")),
        processors(cores=64, threads=128, sockets=2, max_frequency=3_400_000_000),
        memory(size=540_633_415_680),
        files({"/sys/class/dmi/id/product_name": "PowerEdge R750xa\n", "/sys/class/dmi/id/sys_vendor": "Dell Inc.\n"}),
        _named(
            "pci:v0000102Bd00000536sv00001028sd00000A6Dbc03sc00i00",
            "pci:v000010DEd000020B5sv000010DEsd00001533bc03sc02i00",
            "pci:v00008086d0000159Bsv00008086sd00000003bc02sc00i00",
        ),
        {"hostname": "n1"},
    )


def adapters() -> Recording:
    """Serial adapters of two vendors at a hub, one of them without a serial number."""
    return merge(
        bare(),
        usb_root(1),
        usb_hub("1-1", 2),
        *(usb_device(f"1-1.{n}", serial=serial, number=n + 2) for n, serial in ((1, "A17"), (2, "B03"), (3, "B04"))),
        usb_device("1-1.4", "10c4", "ea60", None, "Silicon Labs", "CP2102N", "000000", [("ff0000", "cp210x")], 6),
        {"hostname": "n1"},
    )


def software() -> Recording:
    """Files of a licence daemon, a current and an old one; a program that succeeds and one that fails."""

    def program(*command: str, status: int = 0, out: str = "", err: str = "") -> dict[str, list[object]]:
        return {json.dumps(command): [status, out, err]}

    return merge(
        bare(),
        files({"/run/licences/seats": "12\n", "/run/licences/old": "12\n"}),
        {
            "ages": {"/run/licences/seats": 240, "/run/licences/old": 9000},
            "programs": program(
                "/usr/local/bin/count-licences", "--installed", out="40\n", err="server lic1, 40 installed\n"
            )
            | program("/usr/local/bin/count-modems", status=1, err="mmcli: cannot open display\n"),
            "hostname": "n1",
        },
    )


MACHINES: dict[str, Callable[[], Recording]] = {
    "adapters": adapters,
    "cloud": cloud,
    "desk": desk,
    "gpus": gpus,
    "network": network,
    "software": software,
    "storage": storage,
    "virtual": virtual,
}
