"""The domains in which device plugins name their resources by custom: data, each entry with its source.

A plugin may use any domain, so the table is for warnings only. What a plugin on this machine has registered is in the
kubelet's checkpoint (host/kubelet.py).
"""

from __future__ import annotations

from collections.abc import Mapping

PLUGIN_DOMAINS: Mapping[str, str] = {
    "akri.sh": "https://docs.akri.sh/user-guide/requesting-akri-resources",
    "aliyun.com": "https://github.com/AliyunContainerService/gpushare-device-plugin",
    "amd.com": "https://github.com/ROCm/k8s-device-plugin",
    "aws.amazon.com": "https://docs.aws.amazon.com/eks/latest/userguide/device-management-neuron.html",
    "devices.kubevirt.io": "https://github.com/kubevirt/kubevirt/tree/main/pkg/virt-handler/device-manager",
    "google.com": "https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus",
    "habana.ai": "https://github.com/HabanaAI/habanalabs-k8s-device-plugin",
    "huawei.com": "https://github.com/Ascend/ascend-device-plugin",
    "iluvatar.com": "https://github.com/Deep-Spark/ix-device-plugin",
    # Also gpu.intel.com, qat.intel.com and the others of that project, and the SR-IOV network device plugin.
    "intel.com": "https://github.com/intel/intel-device-plugins-for-kubernetes",
    "mellanox.com": "https://github.com/k8snetworkplumbingwg/sriov-network-device-plugin",
    "nvidia.com": "https://github.com/NVIDIA/k8s-device-plugin",
    "openshift.io": "https://github.com/k8snetworkplumbingwg/sriov-network-operator",
    "rdma": "https://github.com/Mellanox/k8s-rdma-shared-dev-plugin",
    "rebellions.ai": "https://github.com/RBLN-SW/rbln-k8s-device-plugin",
    "smarter-devices": "https://github.com/smarter-project/smarter-device-manager",
    "squat.ai": "https://github.com/squat/generic-device-plugin",
    "vpc.amazonaws.com": "https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html",
}
"""Domain -> the project or documentation that uses it. The domains below it count as well."""


def plugin_domain(name: str) -> str | None:
    """The domain of PLUGIN_DOMAINS that an extended resource's name is in, or in a domain below; None if in none."""
    labels = name.partition("/")[0].split(".")
    parents = (".".join(labels[start:]) for start in range(len(labels)))
    return next((domain for domain in parents if domain in PLUGIN_DOMAINS), None)
