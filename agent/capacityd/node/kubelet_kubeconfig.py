"""Finds the kubelet's kubeconfig on this machine."""

from __future__ import annotations

import os

from capacityd.model.errors import CredentialsMissing, NodeUnauthorized
from capacityd.node.credential_files import permission_advice

KUBECONFIG_PATHS = (
    "/etc/kubernetes/kubelet.conf",  # kubeadm, kubespray, minikube, Canonical Kubernetes
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/snap/microk8s/current/credentials/kubelet.config",
    "/run/k0s/nllb/kubeconfig.yaml",  # k0s with node-local load balancing; the file at the next path is outdated
    "/var/lib/k0s/kubelet.conf",
    "/var/lib/kubelet/kubeconfig",  # EKS, GKE, AKS, OpenShift, kOps
    "/var/lib/kubelet/kubeconfig-real",  # Gardener
)
"""The distributions' paths of the kubelet's kubeconfig, in search order. $KUBECONFIG and ~/.kube/config are ignored."""

_RENEWED_CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
"""The file in which a kubelet keeps its renewed certificate and key."""


def credentials_advice() -> str:
    """Advice for credentials that the API server rejects.

    The kubeconfig that kubeadm writes may contain a certificate that expires after a year. The kubelet writes its
    renewed certificate to another file (github.com/kubernetes/kubeadm/issues/1317).
    """
    advice = "are they expired, revoked, or of another cluster? Does kubectl work with the same kubeconfig?"
    if os.path.exists(_RENEWED_CERTIFICATE):
        advice += (
            f" The kubelet's newest certificate is in {_RENEWED_CERTIFICATE}: its kubeconfig should name this file as "
            "client-certificate and client-key"
        )
    return advice


def find_kubelet_kubeconfig() -> str:
    """Returns the first of KUBECONFIG_PATHS that exists.

    Raises CredentialsMissing if no such file exists, and NodeUnauthorized if a kubeconfig may exist in a folder that
    this process cannot read.
    """
    denied = ""
    for path in KUBECONFIG_PATHS:
        try:
            os.stat(path)
            return path
        except PermissionError:
            denied = path
        except OSError:  # the file does not exist
            continue
    if denied:
        raise NodeUnauthorized(f"cannot look for {denied}: permission denied. {permission_advice(denied)}")
    raise CredentialsMissing(
        f"no kubelet's kubeconfig found in {', '.join(KUBECONFIG_PATHS)}. Has this machine joined a cluster? If the "
        "kubeconfig is elsewhere, give its path with --kubeconfig, or as kubeconfig in [kubernetes]"
    )
