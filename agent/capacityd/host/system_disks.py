"""The disks that the machine needs: below its own file systems, the storage of the kubelet and of containers, and swap.

If a disk can't be determined, the result says that it may be incomplete (SystemDevices.incomplete_because). A guess
could give pods a disk that the machine needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from capacityd.host.automounts import gpt_automount_unit
from capacityd.host.lower_disks import LowerDisks, layers_of
from capacityd.host.mounts import mounts, swaps
from capacityd.linux.filesystem_types import Backing, backing, belongs_to_pods, has_device, is_volume
from capacityd.linux.mountinfo import MOUNT_TABLE, Mount, MountTree
from capacityd.linux.paths import is_inside
from capacityd.model.errors import HostError
from capacityd.model.host import Host, SystemDevices

OS_FOLDERS = ("/", "/var")
"""Mount points of the machine's own file systems. A file system below them, such as on /var/local, may be for pods."""
OS_TREES = ("/boot", "/efi", "/etc", "/gnu", "/nix", "/usr")
"""Folders in which every file system is the machine's: /boot/efi, /boot/firmware (Raspberry Pi), /usr/share/oem, …

/nix and /gnu contain all programs of NixOS and Guix, where / may be in memory."""
NODE_TREES = (
    "/var/lib/kubelet",
    "/var/log/pods",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/containers",  # CRI-O
    "/var/lib/rancher",
    "/var/lib/k0s",
    "/var/snap/microk8s",
    "/var/lib/etcd",
)
"""Default folders for data of the kubelet, container runtimes and etcd. Formatting a disk with such data stops the
node."""
NODE_FOLDERS = (
    *NODE_TREES,
    "/var/lib/kubelet/pods",
    "/var/lib/docker/overlay2",
    "/var/lib/containers/storage",
    "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs",
    "/var/lib/rancher/k3s",
    "/var/lib/rancher/rke2",
)
"""NODE_TREES, and folders in them that people replace by a link to a larger disk."""

RESUME_FILE = "/sys/power/resume"
"""The file with the major:minor of the swap area for hibernation; 0:0 if there is none."""


def is_of_system(point: str) -> bool:
    """Whether a file system at this mount point is the machine's own, or stores the node's data."""
    if any(is_inside(point, folder) for folder in NODE_TREES):
        return not is_volume(point)  # volumes belong to pods; the root file systems of containers are the node's data
    return point in OS_FOLDERS or any(is_inside(point, folder) for folder in OS_TREES)


def system_disks(host: Host) -> SystemDevices:
    """The whole disks below the machine's own file systems, the node's data and swap."""
    try:
        table = mounts(host)
        tree = MountTree(table)
        searches = _searches(host, table, tree)
    except HostError as e:
        return SystemDevices(frozenset(), incomplete_because=f"cannot determine the system's disks: {e}")
    names: set[str] = set()
    reason = ""  # the first reason why disks may be missing
    if tree.at("/") is None:
        reason = f"cannot determine the system's disks: {MOUNT_TABLE} has no /"
    for subject, disks in searches:
        try:
            for disk in disks:
                names.add(disk)  # disks found before an error also count
        except HostError as e:
            reason = reason or f"cannot determine the disk of {subject}: {e}"
    return SystemDevices(frozenset(names), incomplete_because=reason)


def _searches(host: Host, table: Sequence[Mount], tree: MountTree) -> list[tuple[str, Iterator[str]]]:
    """The searches for disks: each a subject for messages, and an iterator over disks that may raise HostError."""
    lower = LowerDisks(host, tree)
    searches = []
    for mount in _needed_mounts(host, table, tree):
        subject = f"{mount.point} ({mount.type} from {mount.source})"
        searches.append((subject, lower.disks_of_mount(mount)))
    for path, type_ in swaps(host):
        disks = lower.disks_of_file(path) if type_ == "file" else lower.disks_of_node(path)
        searches.append((f"the swap area {path}", disks))
    if major_minor := _hibernation_area(host):
        searches.append((f"the hibernation area {major_minor}", lower.disks_of_major_minor(major_minor)))
    return searches


def system_filesystems(host: Host) -> SystemDevices:
    """The major:minor of each file system that the machine needs, including those with the layers of overlays."""
    try:
        table = mounts(host)
        tree = MountTree(table)
        names = set()
        for mount in _needed_mounts(host, table, tree):
            names.add(mount.major_minor)
            layers = layers_of(mount) if mount.type == "overlay" else []
            for folder in layers:
                if mount_of_layer := tree.at(folder):
                    names.add(mount_of_layer.major_minor)
        return SystemDevices(frozenset(names))
    except HostError as e:
        return SystemDevices(frozenset(), incomplete_because=f"cannot determine the system's file systems: {e}")


def _needed_mounts(host: Host, table: Sequence[Mount], tree: MountTree) -> Iterator[Mount]:
    """Yields the mounts that the machine needs. Hidden mounts are needed as well: their files may be open."""
    mounted = {mount.point for mount in table if mount.type != "autofs"}
    for mount in table:
        if mount.type == "autofs":
            if mount.point in mounted:
                continue  # the file system is mounted, so the table has another line for it
            if host.resolve(gpt_automount_unit(mount.point)):
                continue  # systemd-gpt-auto-generator(8) mounts only file systems on the disk of /
        # On a folder in OS_FOLDERS or OS_TREES, every mount is needed. Below such a folder, only mounts on disks are
        # needed, not mounts of kernel interfaces and programs (FUSE).
        is_system_folder = mount.point in (*OS_FOLDERS, *OS_TREES)
        if is_system_folder or (is_of_system(mount.point) and _may_have_disk(mount)):
            yield mount
    yield from _storage_of_pods(table, tree)
    for folder in NODE_FOLDERS:
        paths = [folder]
        target = host.resolve(folder)
        if target is not None and target != folder:  # the folder is a link, for example to a larger disk
            paths.append(target)
        for path in paths:
            if mount_of_folder := tree.at(path):
                yield mount_of_folder


def _storage_of_pods(table: Sequence[Mount], tree: MountTree) -> list[Mount]:
    """The mounts that contain the folders of the kubelet and of container runtimes, wherever these folders are.

    These folders contain the mount points of pods, and the upper layers of the overlays that are mounted there.
    """
    storage: set[Mount | None] = set()  # None: the mount table lacks the mount
    for mount in table:
        if belongs_to_pods(mount.point):
            storage.add(tree.below(mount))
            upper_layers = mount.values(["upperdir"]) if mount.type == "overlay" else []
            for upper_layer in upper_layers:
                layers_folder = os.path.dirname(os.path.dirname(upper_layer))  # snapshots/1/fs -> snapshots
                storage.add(tree.at(layers_folder))
    found = [mount for mount in storage if mount is not None and not belongs_to_pods(mount.point)]
    return sorted(found, key=lambda mount: mount.id)


def _may_have_disk(mount: Mount) -> bool:
    """Whether the mount is on a block device, or on disks that its major:minor does not name."""
    return has_device(mount.major_minor) or backing(mount.type) in (Backing.LOCAL, Backing.TRIGGER)


def _hibernation_area(host: Host) -> str:
    """The major:minor of the swap area for hibernation, even if the area is not in use now; "" if there is none."""
    major_minor = host.text(RESUME_FILE)
    if major_minor and has_device(major_minor):
        return major_minor
    return ""
