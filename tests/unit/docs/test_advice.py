"""The pages contain advice on problems for which people with other tools had to find the solution themselves."""

from __future__ import annotations

import pytest

from tests import ROOT

ADVICE = {  # the page, and texts that it must contain
    "a lock of apt in a build": ("docs/install.md", "cloud-init status --wait", "After=apt-daily.service"),
    "a check of a playbook": ("docs/install.md", "when: not ansible_check_mode"),
    "the rules of kube-prometheus-stack": (
        "docs/monitoring.md",
        "kubectl label prometheusrule capacityd release=",
    ),
    "node_exporter in a container": ("docs/monitoring.md", "--collector.textfile.directory=/host/root/"),
    "several clusters": ("docs/monitoring.md", "`--context` becomes a label"),
    "tags of managed node groups": ("docs/pods.md", "eks:DescribeNodegroup"),
    "a program that uses libusb": ("docs/hardware.md", "libusb can detach a device from its driver"),
    "an SSD behind a RAID controller": ("docs/reference.md", "USB sticks and RAID often report hdd"),
    "an F2FS on several disks": ("docs/hardware.md", "disk of an F2FS"),
    "a file system that has grown": ("docs/hardware.md", "If a file system has grown, the next pass notices"),
    "the size of a ZFS dataset": ("docs/hardware.md", "`refquota` and `refreservation` are equal, the size is fixed"),
    "the speed of an SFP module": ("docs/recipes.md", "SFP module. In that case, match the `device`"),
    "a pool of mergerfs": ("docs/hardware.md", "mergerfs is `overlay`"),
    "a device that USB/IP shares": ("docs/hardware.md", 'except = { driver = "usbip-host" }'),
    "the sockets of a virtual machine": ("docs/hardware.md", "often one socket for each vCPU"),
    "the default routes of other cards": ("docs/hardware.md", "A default route counts, whatever its metric"),
    "a card without an interface": ("docs/hardware.md", "give a card no interface"),
    "several cards of a cloud share its bandwidth": ("docs/install.md", "static = { quantity = 12500 }"),
    "the speed of a USB 3 device": ("docs/hardware.md", "`attributes = { speed ="),
    "two functions of one IOMMU group": ("docs/hardware.md", '`udev = { subsystem = "vfio" }` counts the groups'),
    "a camera in software": ("docs/hardware.md", 'DEVPATH = "/devices/virtual/*"'),
    "an address of a PCI function": ("docs/reference.md", "such as 0000:3b:00.0; may change"),
    "a tape drive has several nodes": ("docs/hardware.md", '"/dev/st*[0-9]"'),
    "a USB 3 device on USB 2": ("docs/recipes.md", "has a different `port` if it falls back to USB 2"),
    "a partition of an AMD GPU": ("docs/recipes.md", "`pci` does not count the partitions of a GPU"),
    "the link of an idle GPU": ("docs/recipes.md", "Do not match `current_link_speed`"),
    "a GPU that sleeps": ("docs/recipes.md", "A GPU in D3cold reports the width 63"),
    "a GPU for virtual machines": ("docs/recipes.md", '`driver = "*vfio*"`'),
    "a name in the hardware database": ("docs/hardware.md", "properties that end in `_FROM_DATABASE`"),
    "the serial number of a serial port": ("docs/recipes.md", 'ID_SERIAL_SHORT = "A17"'),
    "a 32-bit program in the sandbox": ("docs/files-and-programs.md", "`SystemCallArchitectures=native x86`"),
    "a device that appears after the start": ("docs/files-and-programs.md", "that exist when it starts"),
    "a folder that is missing": (
        "docs/files-and-programs.md",
        "`BindReadOnlyPaths=-/root/data`",
        "`ReadWritePaths=-/srv/metrics`",
    ),
    "a file of a numbered device": ("docs/files-and-programs.md", '`measure = "attributes.NAME"`'),
    "a quota of btrfs": ("docs/hardware.md", "and its quota groups"),
    "a container of a firmware RAID": (
        "docs/hardware.md",
        'name = "md*", devtype = "disk" }` with `except = { attributes = { size = "0" } }`',
    ),
    "a width that means unknown": ("docs/hardware.md", "`max_link_width` 255"),
    "a NUMA node without processors": ("docs/hardware.md", 'except = { attributes = { cpulist = "" } }'),
    "a memory module": ("docs/hardware.md", "controllers in /sys/devices/system/edac/mc"),
    "a device that USBGuard blocks": (
        "docs/hardware.md",
        "but without `driver` and often without `class`",
    ),
    "a file that is no plain number": (
        "docs/files-and-programs.md",
        "`block_size_bytes` is hexadecimal",
        "are lists, even",
        "surplus",
    ),
    "the date of a file in /sys": ("docs/files-and-programs.md", "so set no `max_age` there"),
    "programs that exclude each other": ("docs/files-and-programs.md", "programs that exclude each other"),
    "two interfaces of a Wi-Fi card": ("docs/hardware.md", "interfaces: count them with `pci` or `usb`"),
    "the reserve of ext4": ("docs/reference.md", "reserved for root"),
    "a certificate in kubelet.conf": ("docs/troubleshooting.md", "kubelet-client-current.pem"),
}


@pytest.mark.parametrize("name", ADVICE)
def test_each_page_has_its_advice(name: str) -> None:
    page, *texts = ADVICE[name]
    content = (ROOT / page).read_text()
    assert [text for text in texts if text not in content] == []
