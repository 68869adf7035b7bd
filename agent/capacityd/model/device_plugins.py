"""The domains that device plugins usually use for their resources, each with its source.

A plugin may use any domain, so capacityd uses this table only for warnings. The resources that plugins have
registered on this machine are in the kubelet's checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
"""The kubelet's list of device plugins, which only root can read. The kubelet's --root-dir does not change the path."""
CHECKPOINT_UNREADABLE = (
    f"the kubelet's list of device plugins can't be read ({CHECKPOINT}). If this file is damaged, the kubelet cannot "
    "read it either: remove it"
)

PLUGIN_DOMAINS: Mapping[str, str] = {
    "akri.sh": "https://docs.akri.sh/user-guide/requesting-akri-resources",
    "alibabacloud.com": "https://github.com/AliyunContainerService/sgx-device-plugin",
    "aliyun.com": "https://github.com/AliyunContainerService/gpushare-device-plugin",
    "amd.com": "https://github.com/ROCm/k8s-device-plugin",
    "aws.amazon.com": "https://docs.aws.amazon.com/eks/latest/userguide/device-management-neuron.html",
    "aws.ec2.nitro": "https://github.com/aws/aws-nitro-enclaves-k8s-device-plugin",
    "birentech.com": "https://github.com/BirenTechnology/k8s-device-plugin",
    "cambricon.com": "https://github.com/Cambricon/cambricon-k8s-device-plugin",
    "devic.es": "https://github.com/squat/generic-device-plugin",
    "devices.kubevirt.io": "https://github.com/kubevirt/kubevirt/tree/main/pkg/virt-handler/device-manager",
    "enflame.com": "https://github.com/Project-HAMi/HAMi/blob/master/docs/enflame-vgcu-support.md",
    "furiosa.ai": "https://github.com/furiosa-ai/furiosa-device-plugin",
    "github.com": "https://github.com/kuberenetes-learning-group/fuse-device-plugin",
    "google.com": "https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus",
    "habana.ai": "https://github.com/HabanaAI/habanalabs-k8s-device-plugin",
    "huawei.com": "https://github.com/Ascend/ascend-device-plugin",
    "hygon.com": "https://github.com/Project-HAMi/HAMi/blob/master/docs/hygon-dcu-support.md",
    "ibm.com": "https://github.com/ibm-aiu/spyre-device-plugin",
    "iluvatar.ai": "https://github.com/Project-HAMi/HAMi/blob/master/docs/iluvatar-gpu-support.md",
    "iluvatar.com": "https://github.com/Deep-Spark/ix-device-plugin",
    # Also for the project's subdomains (gpu.intel.com, qat.intel.com) and the SR-IOV network device plugin.
    "intel.com": "https://github.com/intel/intel-device-plugins-for-kubernetes",
    "k8s.amazonaws.com": "https://github.com/awslabs/aws-virtual-gpu-device-plugin",
    "kubernetes.azure.com": "https://learn.microsoft.com/azure/confidential-computing/confidential-nodes-aks-addon",
    "kunlunxin.com": "https://github.com/Project-HAMi/HAMi/blob/master/docs/kunlunxin-support.md",
    "mellanox.com": "https://github.com/k8snetworkplumbingwg/sriov-network-device-plugin",
    "metax-tech.com": "https://github.com/Project-HAMi/HAMi/blob/master/docs/metax-support.md",
    "mthreads.com": "https://github.com/Project-HAMi/HAMi/blob/master/docs/mthreads-support.md",
    "nextflow.io": "https://github.com/nextflow-io/k8s-fuse-plugin",
    "nvidia.com": "https://github.com/NVIDIA/k8s-device-plugin",
    "openshift.io": "https://github.com/k8snetworkplumbingwg/sriov-network-operator",
    "qualcomm.com": "https://docs.qualcomm.com/doc/80-99100-3/topic/production-serving-management.html",
    "rdma": "https://github.com/Mellanox/k8s-rdma-shared-dev-plugin",
    "rebellions.ai": "https://github.com/RBLN-SW/rbln-k8s-device-plugin",
    "smarter-devices": "https://github.com/smarter-project/smarter-device-manager",
    # The default domain of generic-device-plugin before 0.2.0; devic.es since then.
    "squat.ai": "https://github.com/squat/generic-device-plugin",
    "tencent.com": "https://github.com/tkestack/gpu-manager",
    "volcano.sh": "https://github.com/volcano-sh/devices",
    "vpc.amazonaws.com": "https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html",
    "xilinx.com": "https://github.com/Xilinx/FPGA_as_a_Service",
}
"""Domain -> the project that uses it, or the project's documentation. Subdomains count as well."""


def plugin_domain(name: str) -> str | None:
    """The key of PLUGIN_DOMAINS that is the domain of a resource's name, or a parent domain; None if there is none."""
    name_domain, _, _ = name.partition("/")
    for domain in PLUGIN_DOMAINS:
        if name_domain == domain or name_domain.endswith(f".{domain}"):
            return domain
    return None
