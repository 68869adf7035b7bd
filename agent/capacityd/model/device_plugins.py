"""The domains that device plugins conventionally use for their resources: data, each entry with its source.

A plugin may use any domain, so this table is only for warnings. The kubelet's checkpoint (host/kubelet.py) lists the
resources that plugins have registered on this machine.
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
    # This includes the project's other domains (gpu.intel.com, qat.intel.com) and the SR-IOV network device plugin.
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
"""Domain -> the project or documentation that uses it. Its subdomains count as well."""


def plugin_domain(name: str) -> str | None:
    """The domain in PLUGIN_DOMAINS that contains an extended resource's name, directly or in a subdomain; None if
    none."""
    host = f".{name.partition('/')[0]}"
    return next((domain for domain in PLUGIN_DOMAINS if host.endswith(f".{domain}")), None)
