"""Finds the kubeconfig to use, and what it says of the way to the API server, anew each time it is asked."""

from __future__ import annotations

import os

from capacityd.errors import NodeDenied
from capacityd.node.kubeconfig import Access, access

PLACES = (
    "/etc/kubernetes/kubelet.conf",  # kubeadm, kubespray, minikube, Canonical Kubernetes
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/snap/microk8s/current/credentials/kubelet.config",
    "/run/k0s/nllb/kubeconfig.yaml",  # k0s with its own load balancer on the node; the next one is then out of date
    "/var/lib/k0s/kubelet.conf",
    "/var/lib/kubelet/kubeconfig",  # EKS, GKE, AKS, OpenShift, kOps
    "/var/lib/kubelet/kubeconfig-real",  # Gardener
)
"""Where the kubelet's kubeconfig may be, in the order in which they are looked for. Never the user's own."""

_PLUGIN_SECONDS = 30.0


def load(kubeconfig: str | None, plugin_seconds: float = _PLUGIN_SECONDS) -> Access:
    """Reads this kubeconfig, or the first of PLACES that exists. An exec plugin in it is run.

    Raises NodeDenied for whatever is missing, unreadable or wrong, NodeUnreachable for a plugin that does not end.
    """
    return access(kubeconfig or _first_place(), plugin_seconds)


def _first_place() -> str:
    barred = []
    for place in PLACES:
        try:
            os.stat(place)
            return place
        except PermissionError:
            barred.append(place)
        except OSError:
            continue
    if barred:
        raise NodeDenied(f"may not look for the kubelet's kubeconfig in {', '.join(barred)}; run this as root")
    raise NodeDenied(
        "found no kubeconfig of a kubelet; has this machine joined a cluster? Looked for "
        f"{', '.join(PLACES)}. Another place can be given with --kubeconfig, or as kubeconfig in [kubernetes]"
    )
