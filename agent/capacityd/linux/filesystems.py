"""What stores the content of a file system, by its type in mountinfo, and which mounts belong to pods.

FUSE adds the name of the program to the type: fuse.sshfs.
"""

from __future__ import annotations

from enum import Enum, auto


class Backing(Enum):
    """What stores a file system's content."""

    LOCAL = auto()  # disks of this machine, although its number is not that of a device
    IMAGE = auto()  # a read-only file or medium
    MEMORY = auto()
    SERVER = auto()  # another machine, or the host of this virtual machine
    CLUSTER = auto()  # a disk that other machines also write to
    PROGRAM = auto()  # FUSE: a program
    LAYERS = auto()  # other file systems
    TRIGGER = auto()  # nothing yet: automount
    NAMESPACE = auto()  # not a file system


_TYPES: dict[str, Backing] = {
    **dict.fromkeys(("bcachefs", "btrfs", "jffs2", "ubifs", "zfs"), Backing.LOCAL),
    **dict.fromkeys(("cramfs", "erofs", "iso9660", "romfs", "squashfs", "udf"), Backing.IMAGE),
    **dict.fromkeys(("ramfs", "rootfs", "tmpfs"), Backing.MEMORY),
    **dict.fromkeys(("9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre"), Backing.SERVER),
    **dict.fromkeys(("ncpfs", "nfs", "nfs4", "orangefs", "pvfs2", "smb3", "smbfs"), Backing.SERVER),
    **dict.fromkeys(("vboxsf", "virtiofs", "vmhgfs", "wekafs"), Backing.SERVER),
    **dict.fromkeys(("fuse.ceph", "fuse.curlftpfs", "fuse.davfs", "fuse.glusterfs", "fuse.sshfs"), Backing.SERVER),
    **dict.fromkeys(("gfs2", "ocfs2"), Backing.CLUSTER),
    **dict.fromkeys(("fuse", "fuseblk"), Backing.PROGRAM),
    **dict.fromkeys(("aufs", "ecryptfs", "overlay", "unionfs"), Backing.LAYERS),
    "autofs": Backing.TRIGGER,
    "nsfs": Backing.NAMESPACE,
}


def backing(type_: str) -> Backing | None:
    """What stores the content of a file system of this type; None for a type that is not in the table.

    Such a type is on a disk if its number is that of one (ext4, xfs); else it is an interface of the kernel (proc).
    """
    return _TYPES.get(type_) or _TYPES.get(type_.partition(".")[0])


def may_hang(type_: str) -> bool:
    """Whether access to a file may hang because another machine, a network or a program is gone. type_: as mounted."""
    return backing(type_) in (Backing.SERVER, Backing.CLUSTER, Backing.PROGRAM, Backing.TRIGGER)


def has_device(number: str) -> bool:
    """Whether a file system's number, major:minor, is that of a block device."""
    return not number.startswith("0:")


# Parts of paths, because the beginning depends on the distribution: /var/lib/k0s/kubelet, /var/snap/microk8s/common/…,
# /run/k3s/containerd. A disk that is mounted on one of the folders itself, or beside them, belongs to the machine.
_POD_FOLDERS = (
    *("/kubelet/pods/", "/kubelet/plugins/"),  # volumes, and what CSI drivers stage for them
    *("/containerd/io.containerd.", "/containerd/tmpmounts/"),  # root file systems; images that are being unpacked
    "/containers/storage/",  # CRI-O, Podman
    *("/docker/containers/", "/docker/fuse-overlayfs/", "/docker/overlay2/", "/docker/volumes/", "/docker/zfs/graph/"),
    "/kata-containers/shared/",
)


def is_of_pods(point: str, type_: str = "") -> bool:
    """Whether the kubelet or a container runtime made this mount point.

    type_: of the file system. A mounted namespace, such as a pod's network, is no storage.
    """
    return backing(type_) is Backing.NAMESPACE or any(folder in point for folder in _POD_FOLDERS)
