"""Mounts for pods, in the folders of each distribution. No detector counts them, and they start no pass."""

from __future__ import annotations

import pytest

from capacityd.linux.filesystem_types import belongs_to_pods

ID = "51d0" * 16  # as long as the ids of containers, layers and staged volumes
OF_PODS = (
    "/var/lib/kubelet/pods/8e4c/volumes/kubernetes.io~csi/data/mount",
    "/var/snap/microk8s/common/var/lib/kubelet/plugins/kubernetes.io/csi/driver.example.com/9a1f/globalmount",
    "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/51d0/rootfs",
    "/var/lib/rancher/k3s/agent/containerd/tmpmounts/containerd-mount2204",
    "/var/lib/containers/storage/overlay/51d0/merged",
    "/run/containers/storage/overlay-containers/51d0/userdata/shm",
    "/var/lib/docker/overlay2/51d0/merged",
    f"/var/lib/docker/containers/{ID}/mounts/shm",
    *(f"/var/lib/docker/{driver}/{ID}" for driver in ("devicemapper/mnt", "btrfs/subvolumes", "aufs/mnt", "zfs/graph")),
    f"/var/lib/docker/btrfs/subvolumes/{ID}-init",
    f"/var/lib/docker/plugins/{ID}/rootfs",
    f"/data/engine/vfs/dir/{ID}",
    "/var/lib/docker/volumes/data/_data",
    f"/run/kata-containers/shared/sandboxes/{ID}/shared",
    f"/var/lib/docker/rootfs/overlayfs/{ID}",
    "/srv/docker/overlay2/51d0/merged",
    "/data/overlay/51d0/merged",
    "/var/lib/containerd-stargz-grpc/snapshotter/snapshots/7/fs",
    "/var/lib/soci-snapshotter-grpc/snapshotter/snapshots/7/fs",
    "/var/lib/containerd-nydus/snapshots/7/mnt",
    "/data/ctrd/io.containerd.runtime.v2.task/k8s.io/51d0/rootfs",
    "/data/pods/8e4c/volumes/kubernetes.io~projected/token",
    "/data/pods/8e4c/volume-subpaths/config/main/0",
    "/data/plugins/kubernetes.io/csi/driver.example.com/9a1f/globalmount",
    "/data/kube/plugins/driver.example.com/staging/pvc-1",
)
OF_THE_MACHINE = (
    "/var/lib/docker",
    "/var/lib/docker/overlay2",
    "/var/lib/kubelet",
    "/var/lib/kubelet/pods",
    "/var/lib/k0s",
    "/var/lib/rancher/k3s/agent/containerd",
    "/var/lib/containers/data",
    "/var/lib/containers/storage",
    "/srv/pods/x",
    "/srv/pods/x/data",
    "/.snapshots/7/snapshot",
    "/data/overlay",
    "/srv/merged",
    f"/srv/{ID[:40]}",  # shorter than the id of a container
)


@pytest.mark.parametrize("point", [*OF_PODS, *OF_THE_MACHINE])
def test_mount_points_of_pods_are_told_apart_from_the_machines(point: str) -> None:
    assert belongs_to_pods(point) == (point in OF_PODS)


def test_a_namespace_stores_nothing() -> None:
    assert belongs_to_pods("/run/netns/cni-8e4c", "nsfs")
    assert not belongs_to_pods("/run/netns", "tmpfs")
