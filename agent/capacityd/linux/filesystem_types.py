"""Where a file system stores its content, according to its type in mountinfo, and which mounts belong to pods.

For FUSE, the type may contain the program's name, such as fuse.sshfs.
"""

from __future__ import annotations

import re
from enum import Enum, auto


class Backing(Enum):
    """The place where a file system's content is stored."""

    LOCAL = auto()  # a disk of this machine, although major:minor in mountinfo names no block device
    IMAGE = auto()  # a read-only file or medium
    MEMORY = auto()
    SERVER = auto()  # another machine, or the host of this virtual machine
    CLUSTER = auto()  # a disk that other machines also write to
    PROGRAM = auto()  # FUSE: a program
    LAYERS = auto()  # other file systems
    TRIGGER = auto()  # an automount point: nothing is stored until an access mounts a file system there
    NAMESPACE = auto()  # a mounted namespace of processes, which stores no files
    INTERFACE = auto()  # FUSE: a program's view of files that are elsewhere


_TYPES = {
    Backing.LOCAL: "apfs bcachefs btrfs jffs2 ubifs zfs",
    Backing.IMAGE: "erofs iso9660 squashfs udf fuse.snapfuse fuse.squashfuse fuse.squashfuse_ll",
    Backing.MEMORY: "ramfs rootfs tmpfs",
    Backing.SERVER: "9p afs beegfs ceph cifs glusterfs gpfs lustre nfs nfs4 orangefs smb3 vboxsf virtiofs vmhgfs "
    "wekafs fuse.ceph fuse.curlftpfs fuse.davfs fuse.glusterfs fuse.sshfs",
    Backing.CLUSTER: "gfs2 ocfs2",
    Backing.PROGRAM: "fuse fuseblk",
    Backing.LAYERS: "aufs ecryptfs overlay fuse.fuse-overlayfs fuse.mergerfs fuse.unionfs",
    Backing.TRIGGER: "autofs",
    Backing.NAMESPACE: "nsfs",
    Backing.INTERFACE: "fuse.gvfsd-fuse fuse.lxcfs fuse.portal fuse.sysboxfs",
}
"""Backing -> the types of file systems with this backing, separated by spaces."""

_BACKING_BY_TYPE: dict[str, Backing] = {}
for _backing, _types in _TYPES.items():
    _BACKING_BY_TYPE |= dict.fromkeys(_types.split(), _backing)


def backing(type_: str) -> Backing | None:
    """Where a file system of this type stores its content; None for a type that is not in _TYPES.

    A file system whose type is not in _TYPES is on a disk (ext4, xfs) or, if has_device() is false for its major:minor,
    a kernel interface (proc).
    """
    without_program, _, _ = type_.partition(".")  # fuse.sshfs -> fuse
    return _BACKING_BY_TYPE.get(type_) or _BACKING_BY_TYPE.get(without_program)


def may_hang(type_: str) -> bool:
    """Whether an access to a file system of this type may hang, because a server, a network or a program does not
    respond."""
    return type_.startswith("fuse") or backing(type_) in (Backing.SERVER, Backing.CLUSTER, Backing.TRIGGER)


_SNAPSHOT_FOLDER = re.compile("/([.~]snapshot|[.]zfs/snapshot)/")
"""Folders in which servers show their snapshots: ONTAP, Isilon and ZFS."""


def is_snapshot(type_: str, source: str) -> bool:
    """Whether a mount shows a snapshot of ZFS or of a server. An access to a snapshot mounts it for a few minutes."""
    if backing(type_) is Backing.SERVER:
        return _SNAPSHOT_FOLDER.search(source) is not None
    return type_ == "zfs" and "@" in source


def has_device(major_minor: str) -> bool:
    """Whether a file system with this major:minor is on a block device. All other file systems have major 0."""
    return not major_minor.startswith("0:")


KINDS = ("local", "image", "memory", "network", "overlay", "pseudo")
"""The values of `kind` in the configuration. kind_of() derives a kind from the Backing."""

_KIND_OF_BACKING = {
    Backing.LOCAL: "local",
    Backing.IMAGE: "image",
    Backing.MEMORY: "memory",
    Backing.SERVER: "network",
    Backing.CLUSTER: "network",
    Backing.LAYERS: "overlay",
}


def kind_of(type_: str, *, on_device: bool) -> str:
    """Returns one of KINDS. type_: the file system's type. on_device: whether it is on a block device."""
    if type_ == "ramfs":
        return "pseudo"  # not "memory": a ramfs, such as the one for systemd's credentials, reports no size
    backed_by = backing(type_)
    if backed_by in _KIND_OF_BACKING:
        return _KIND_OF_BACKING[backed_by]
    if on_device:
        return "local"  # includes FUSE on a disk, such as NTFS, with the type fuseblk
    if backed_by is Backing.PROGRAM:
        return "network"  # most FUSE programs connect to a server
    return "pseudo"


# The patterns match a part of a mount point's path, because the path's beginning depends on distribution and settings:
# /var/lib/k0s/kubelet, /var/snap/microk8s/common/…, /run/k3s/containerd, the kubelet's --root-dir. Only mount points
# inside these folders belong to pods: a disk mounted on such a folder itself, or beside it, belongs to the machine.
_VOLUMES = re.compile(
    "|".join(
        (
            "/pods/[^/]+/volumes?(-subpaths)?/",
            "/plugins/[^/]+[.][^/]+/",  # the staging folders of the kubelet and of CSI drivers, named by a domain
            "/docker/volumes/",
        )
    )
)
_CONTAINERS = re.compile(
    "|".join(
        (
            "/[0-9a-f]{64}(-init)?(/|$)",  # the id of a container, of a layer, or of a plugin of Docker
            "/containerd/tmpmounts/",  # images during unpacking
            "/io[.]containerd[.][^/]+/",  # containerd's root file systems and layers
            "/snapshots/[0-9]+/(fs|mnt)$",  # layers of containerd's remote snapshotters: stargz, SOCI, Nydus
            "/containers/storage/",  # CRI-O, Podman
            "/overlay2?/[^/]+/merged$",  # layers that have no id yet
        )
    )
)
_LOCAL_VOLUMES = "/kubernetes.io~local-volume/"
"""A part of the mount points of local volumes: the machine's own file systems, mounted again for a pod."""


def belongs_to_pods(point: str, type_: str = "") -> bool:
    """Whether the kubelet or a container runtime created this mount.

    type_: the file system's type; "" if unknown. A mounted namespace, such as a pod's network, belongs to pods wherever
    it is mounted.
    """
    is_namespace = backing(type_) is Backing.NAMESPACE
    is_of_container = _CONTAINERS.search(point) is not None
    return is_namespace or is_of_container or is_volume(point)


def is_volume(point: str) -> bool:
    """Whether a volume of a pod or container is mounted here. False for the root file system of a container."""
    return _VOLUMES.search(point) is not None


def is_attached_volume(point: str) -> bool:
    """Whether a file system at this mount point is only for a pod. False for a local volume (_LOCAL_VOLUMES)."""
    return is_volume(point) and _LOCAL_VOLUMES not in point
