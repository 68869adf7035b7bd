"""What is mounted for pods, wherever the distribution puts it: no detector counts it, and it wakes nobody."""

from __future__ import annotations

import json

import pytest

from capacityd.linux.filesystems import is_of_pods
from tests.support.forked import can_be_alone, run_alone
from tests.support.machines import files, machine
from tests.support.readings import counted

OF_PODS = (
    "/var/lib/kubelet/pods/8e4c/volumes/kubernetes.io~csi/data/mount",
    "/var/lib/kubelet/plugins/kubernetes.io/csi/driver.example.com/9a1f/globalmount",
    "/var/lib/k0s/kubelet/pods/8e4c/volumes/kubernetes.io~csi/data/mount",
    "/var/snap/microk8s/common/var/lib/kubelet/pods/8e4c/volume-subpaths/data/app/0",
    "/srv/kubelet/plugins/kubernetes.io/local-volume/mounts/data",
    "/run/containerd/io.containerd.runtime.v2.task/k8s.io/51d0/rootfs",
    "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/51d0/rootfs",
    "/run/k0s/containerd/io.containerd.grpc.v1.cri/sandboxes/51d0/shm",
    "/var/lib/containerd/io.containerd.snapshotter.v1.zfs/snapshots/12",
    "/var/lib/rancher/k3s/agent/containerd/tmpmounts/containerd-mount2204",
    "/var/lib/containers/storage/overlay/51d0/merged",
    "/run/containers/storage/overlay-containers/51d0/userdata/shm",
    "/var/lib/docker/overlay2/51d0/merged",
    "/var/lib/docker/containers/51d0/mounts/shm",
    "/var/lib/docker/volumes/data/_data",
    "/run/kata-containers/shared/sandboxes/51d0/shared",
)
OF_THE_MACHINE = (
    "/var/lib/docker",
    "/var/lib/docker/overlay2",
    "/var/lib/docker/volumes",
    "/var/lib/kubelet",
    "/var/lib/kubelet/pods",
    "/var/lib/k0s",
    "/var/snap/microk8s/common/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/rancher/k3s/agent/containerd",
    "/var/lib/containers",
    "/var/lib/containers/data",
    "/var/lib/containers/storage",
    "/srv/pods/x",
)

WAKES = """
import json, subprocess, sys
from capacityd.service.table_events import mount_events
events, woken = mount_events(), []
for point in sys.argv[1:]:
    for command in (["mkdir", "-p", point], ["mount", "--bind", "/", point], ["umount", point]):
        subprocess.run(command, check=True)
        if events.drain():
            woken.append([command[0], point])
print(json.dumps(woken))
"""


def test_a_namespace_is_nobodys_storage() -> None:
    assert is_of_pods("/run/netns/cni-8e4c", "nsfs")
    assert not is_of_pods("/run/netns", "tmpfs")


@pytest.mark.parametrize("point", [*OF_PODS, *OF_THE_MACHINE])
def test_a_mount_point(point: str) -> None:
    assert is_of_pods(point) == (point in OF_PODS)


def test_what_counts() -> None:
    """Each a file system of its own."""
    points = enumerate((*OF_PODS, *OF_THE_MACHINE), 1)
    mounts = "".join(f"{n} 0 8:{n} / {point} rw - ext4 /dev/sda{n} rw\n" for n, point in points)
    assert sorted(counted(machine(files({"/proc/self/mountinfo": mounts})), "filesystem")) == sorted(OF_THE_MACHINE)


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_what_wakes() -> None:
    """The machine's own root stands for what is mounted."""
    setup = "for folder in /run /srv /var; do mount -t tmpfs x $folder; done"
    points = [*OF_PODS, *OF_THE_MACHINE]
    woken = json.loads(run_alone(setup, WAKES, *points))
    assert woken == [[command, point] for point in OF_THE_MACHINE for command in ("mount", "umount")]
