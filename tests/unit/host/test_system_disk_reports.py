"""Which disks the machine needs, in situations that people reported to other tools (tests/reports.md)."""

from __future__ import annotations

import pytest

from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from capacityd.host.system_disks import system_disks
from tests.support.machines import Recording, disk, files, machine, mount_table, stacked

AT = "/sys/devices/pci0000:00/0000:00:17.0/ata{0}/host{0}/target{0}:0:0/{0}:0:0:0"
A = disk("sda", AT.format(1), number="8:0", partitions=["sda1", "sda2", "sda3"])
B = disk("sdb", AT.format(2), number="8:16", partitions=["sdb1"])
ROOT, VAR = "8:2 / / ext4 /dev/sda2 rw", "8:17 / /var ext4 /dev/sdb1 rw"
OSTREE, STATE = "8:2 / /sysroot xfs /dev/sda2 rw", "8:17 / /var xfs /dev/sdb1 rw"
COVERED = "0:52 / /etc overlay x rw,lowerdir=/etc,upperdir=/var/u,workdir=/var/w"
TWICE = "0:53 / /etc overlay x rw,lowerdir=/etc,upperdir=/run/u"
INITRAMFS = "0:52 / /etc overlay x rw,lowerdir=/sysroot/usr/etc,upperdir=/sysroot/var/u,workdir=/sysroot/var/w"
RELATIVE = "0:52 / /usr overlay x rw,lowerdir=usr,upperdir=/var/u,workdir=/var/w"
COMPOSEFS = "0:30 / / overlay {0} ro,lowerdir{1}"
FOLDERS: Recording = {"folders": ["/etc", "/usr/etc", "/var/u", "/var/w", "/run/u", "/sysroot/ostree/repo/objects"]}
INSTALLED: Recording = {"folders": ["/etc", "/usr/etc", "/var/u", "/var/w"]}
CRYPT = stacked("dm-0", ["sda3"], "253:0", dm=("root", "CRYPT-LUKS2-x"))
SWAP = "0:25 /@swap /swap btrfs /dev/mapper/root rw,subvol=/@swap"
RESUME = files({"/sys/power/resume": "253:0\n"})


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ("sda sdb", [mount_table(ROOT, VAR, COVERED), FOLDERS]),
        ("sda sdb", [mount_table(ROOT, VAR, COVERED, "0:9 / /run tmpfs x rw", TWICE), FOLDERS]),
        ("sda sdb", [mount_table(ROOT, VAR, INITRAMFS), INSTALLED]),
        ("sda sdb", [mount_table(ROOT, VAR, RELATIVE), FOLDERS]),
        *(
            ("sda sdb", [mount_table(OSTREE, STATE, COMPOSEFS.format(source, layers)), FOLDERS])
            for source, layers in (
                ("composefs", "+=/run/private/lower,datadir+=/sysroot/ostree/repo/objects,redirect_dir=on"),
                ("overlay", "=/run/private/lower::/sysroot/ostree/repo/objects,redirect_dir=on,metacopy=on"),
                ("composefs:72446d", "+=/,datadir+=/sysroot/ostree/repo/objects"),
            )
        ),
        ("sda", [CRYPT, RESUME, mount_table("0:25 /@ / btrfs /dev/mapper/root rw", SWAP, swap_file="/swap/swapfile")]),
    ],
    ids=["covered", "twice", "initramfs", "relative", "datadir", "data-only", "detached", "swap-on-btrfs-on-luks"],
)
def test_disks_that_the_machine_needs(names: str, parts: list[Recording]) -> None:
    host = machine(A, B, *parts)
    for each in (host, RecordedHost(Recorder(host).run())):
        disks = system_disks(each)
        assert (sorted(disks.names), disks.incomplete_because) == (names.split(), "")


@pytest.mark.parametrize(
    ("line", "folders"),
    [
        (INITRAMFS, ["/sysroot", "/var/u", "/var/w"]),  # an installed /sysroot is another folder
        (RELATIVE.replace("=usr,", "=lower,"), ["/usr", "/var/u", "/var/w"]),
        ("0:52 / / overlay x rw,lowerdir=/", ["/etc"]),
    ],
)
def test_layers_that_are_not_known(line: str, folders: list[str]) -> None:
    host = machine(A, B, mount_table(ROOT if " / / " not in line else OSTREE, VAR, line), {"folders": folders})
    assert system_disks(host).incomplete_because
