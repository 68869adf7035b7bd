"""A Kubernetes node as a virtual machine: cloud-init, a real kubelet with a fake container runtime, and capacityd.

kubeadm is simulated: like the real kubeadm it enables the kubelet and leaves credentials, which were made beforehand.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests import ROOT
from tests.cluster.controlplane import IMAGE, Cluster
from tests.cluster.credentials import node_user

EXAMPLE = ROOT / "conf/cloud-init/kubeadm.yaml"
# The guest's address for the host's loopback. The API server's certificate does not contain it.
_HOST = "10.0.2.2"
_PEM = "/var/lib/kubelet/pki/kubelet-client-current.pem"
_KUBEADM = f"""\
#!/bin/sh
# Replaces kubeadm join --config FILE.
set -eu
[ "$1 $2" = "join --config" ]
install -D -m 600 /etc/kubernetes/prepared.pem {_PEM}
install -m 600 "$3" /etc/kubernetes/kubelet.conf
systemctl enable --now --no-block kubelet.service
"""
# The kubelet logs too much for the journal.
_LOG = "StandardOutput=append:/var/log/%N.log\nStandardError=append:/var/log/%N.log"
_RUNTIME = f"""\
[Service]
{_LOG}
ExecStart=/usr/bin/fakeruntime -socket=/run/runtime.sock -images={IMAGE}
"""
_KUBELET = f"""\
[Unit]
Requires=fakeruntime.service
After=fakeruntime.service network-online.target
[Service]
{_LOG}
# Emulation is slow. So collect garbage and read cgroups less often, which takes more memory.
Environment=GOGC=400
# The fake runtime knows no log paths, so the kubelet removes every file of its working folder when a pod goes.
RuntimeDirectory=kubelet-empty
WorkingDirectory=/run/kubelet-empty
ExecStart=/usr/bin/kubelet --config=/etc/kubernetes/kubelet.json --kubeconfig=/etc/kubernetes/kubelet.conf \\
    --housekeeping-interval=5m
# The kubelet exits if the runtime does not listen yet.
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
"""
_KUBELET_CONFIGURATION = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "containerRuntimeEndpoint": "unix:///run/runtime.sock",
    "address": "127.0.0.1",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "systemd",
    "enforceNodeAllocatable": [],
    "makeIPTablesUtilChains": False,
    # The fake runtime has no figures for these settings.
    "localStorageCapacityIsolation": False,
    "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
    "imageGCHighThresholdPercent": 100,
}
# cloud-init's data source, and only the modules whose programs the image contains.
_CLOUD_CONFIGURATION = """\
datasource_list: [NoCloud]
network: {config: disabled}
cloud_init_modules: [write-files, set_hostname]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
"""


def node_files(cluster: Cluster, name: str, hardware: str) -> dict[str, str | Path]:
    """The files in an image, besides Debian and the package, with which it becomes this Node at its first boot.

    hardware: TOML of the resources. It replaces the resources in the example, as a user would do. The kernel's command
    line must contain CLOUD_INIT, which switches cloud-init on.
    """
    seed = "/var/lib/cloud/seed/nocloud"
    return {
        "/usr/bin/kubelet": cluster.binaries["kubelet"],
        "/usr/bin/fakeruntime": cluster.binaries["fakeruntime"],
        "/usr/bin/kubeadm": _KUBEADM,
        "/etc/systemd/system/fakeruntime.service": _RUNTIME,
        "/etc/systemd/system/kubelet.service": _KUBELET,
        "/etc/kubernetes/kubelet.json": json.dumps(_KUBELET_CONFIGURATION),
        "/etc/kubernetes/prepared.pem": _certificate(cluster, name),
        "/etc/cloud/cloud.cfg.d/90-image.cfg": _CLOUD_CONFIGURATION,
        f"{seed}/meta-data": json.dumps({"instance-id": name, "local-hostname": name}),
        f"{seed}/user-data": user_data(cluster, hardware),
    }


HARDWARE_FILE = "/etc/capacityd/conf.d/60-hardware.toml"
"""The configuration file that cloud-init writes from the shipped example."""
CLOUD_INIT = "cloud-init=enabled ds=nocloud"


def user_data(cluster: Cluster, hardware: str) -> str:
    """The shipped example, with these resources and with the configuration for kubeadm join."""
    example: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    files = {file["path"]: file for file in example["write_files"]}
    files[HARDWARE_FILE]["content"] = hardware
    files["/etc/kubernetes/join.yaml"]["content"] = json.dumps(_kubeconfig(cluster))
    return f"#cloud-config\n{yaml.safe_dump(example)}"


def _kubeconfig(cluster: Cluster) -> Mapping[str, Any]:
    """A kubeconfig like that of kubeadm, for a server whose certificate does not contain the address of the server."""
    port = cluster.url.rpartition(":")[2]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "tests",
                "cluster": {
                    "server": f"https://{_HOST}:{port}",
                    "tls-server-name": "localhost",
                    "certificate-authority-data": base64.b64encode(cluster.ca_file.read_bytes()).decode(),
                },
            }
        ],
        "users": [{"name": "node", "user": {"client-certificate": _PEM, "client-key": _PEM}}],
        "contexts": [{"name": "node", "context": {"cluster": "tests", "user": "node"}}],
        "current-context": "node",
    }


def _certificate(cluster: Cluster, name: str) -> str:
    path = cluster.folder / f"{name}-machine.pem"
    return cluster.authority.client(node_user(name), ("system:nodes",), path).read_text()
