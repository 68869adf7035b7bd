"""What is mounted for pods and their containers: on a node it comes and goes all day, and is nobody's hardware."""

from __future__ import annotations

# By parts, for what is before them depends on the distribution: /var/lib/k0s/kubelet, /var/snap/microk8s/common/…,
# /run/k3s/containerd. A disk that is mounted on one of the folders itself, or beside them, is the machine's own.
_FOLDERS = (
    *("/kubelet/pods/", "/kubelet/plugins/"),  # volumes, and what CSI drivers stage for them
    *("/containerd/io.containerd.", "/containerd/tmpmounts/"),  # root file systems; those that are being unpacked
    "/containers/storage/",  # CRI-O's
)


def is_of_pods(point: str) -> bool:
    """Whether a mount point is one that the kubelet or a container runtime has made."""
    return any(folder in point for folder in _FOLDERS)
