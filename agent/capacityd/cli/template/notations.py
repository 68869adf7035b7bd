"""The notation of each autoscaler for the extended resources of a future node. Pure.

Each names the source of its rules: the code that reads it, or the documentation of the cloud that stores it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from capacityd.cli.template import Autoscaler

_IDENTIFIERS = ("apiVersion", "kind", "key", "operator")
"""The keys whose values are fixed words, which need no quotes in YAML."""
_AWS_PREFIX = "k8s.io/cluster-autoscaler/node-template/resources/"
_AWS_MAX_KEY = 128  # Amazon EC2 User Guide, "Tag your Amazon EC2 resources"
_AZURE_PREFIX = "k8s.io_cluster-autoscaler_node-template_resources_"
_AZURE_MAX_NAME = 512  # Azure Resource Manager, "Use tags to organize your Azure resources"
# Not the prefix with a dash in the description of kubernetes/autoscaler#7604: it was changed before it was merged.
_GKE_PREFIX = "clusterautoscaler-nodetemplate-resources."
_GKE_MAX_PREFIX = 253  # of a label's key, up to the slash
_CLUSTER_API_PREFIX = "capacity.cluster-autoscaler.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Target:
    """What a NodeOverlay applies to; no other notation needs it."""

    name: str
    instance_types: tuple[str, ...]


Document = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Notation:
    """How an autoscaler is told of extended resources."""

    about: str
    """What the document is, and where to put it: the comment above it."""
    problem: Callable[[str], str]
    """Returns why it can't carry a resource's name, as the end of a sentence; "" if it can."""
    document: Callable[[Mapping[str, int], Target], Document]
    """Returns the document for these quantities."""
    most: int | None = None
    """The number of resources that it can carry; None: any number."""
    has_target: bool = False
    """Whether it needs the instance types."""


def problems(notation: Notation, names: Sequence[str]) -> Iterator[str]:
    """Yields why the notation can't carry these resources."""
    for name in names:
        if problem := notation.problem(name):
            yield f"{name} {problem}"
    if notation.most is not None and len(names) > notation.most:
        yield f"it carries {notation.most} extended resource, not {len(names)}: choose with --resource"


def yaml_lines(document: Document, indent: int = 0) -> Iterator[str]:
    """Yields a document as YAML."""
    for key, value in document.items():
        start = f"{' ' * indent}{key}:"
        if isinstance(value, Mapping):
            yield start
            yield from yaml_lines(value, indent + 2)
        elif isinstance(value, list):
            yield start
            for item in value:
                first, *others = yaml_lines(item, indent + 4)
                yield f"{' ' * (indent + 2)}- {first.lstrip()}"
                yield from others
        elif isinstance(value, tuple):
            yield f"{start} [{', '.join(map(json.dumps, value))}]"
        else:
            yield f"{start} {value if key in _IDENTIFIERS else json.dumps(value)}"


def _aws_problem(name: str) -> str:
    length = len(_AWS_PREFIX) + len(name)
    return f"makes a tag of {length} characters; AWS allows {_AWS_MAX_KEY}" if length > _AWS_MAX_KEY else ""


def _aws(quantities: Mapping[str, int], _: Target) -> Document:
    """extractAllocatableResourcesFromAsg in cluster-autoscaler/cloudprovider/aws/aws_manager.go."""
    return {_AWS_PREFIX + name: str(quantity) for name, quantity in quantities.items()}


def _azure_problem(name: str) -> str:
    if "_" in name:
        return 'has a "_", which Cluster Autoscaler takes for a "/" in a tag'
    length = len(_AZURE_PREFIX) + len(name)
    return f"makes a tag of {length} characters; Azure allows {_AZURE_MAX_NAME}" if length > _AZURE_MAX_NAME else ""


def _azure(quantities: Mapping[str, int], _: Target) -> Document:
    """extractAllocatableResourcesFromScaleSet in cluster-autoscaler/cloudprovider/azure/azure_template.go."""
    return {_AZURE_PREFIX + name.replace("/", "_"): str(quantity) for name, quantity in quantities.items()}


def _gke_problem(name: str) -> str:
    length = len(_GKE_PREFIX) + len(name.partition("/")[0])
    if length > _GKE_MAX_PREFIX:
        return f"makes a label whose key has {length} characters before the slash; Kubernetes allows {_GKE_MAX_PREFIX}"
    return ""


def _gke(quantities: Mapping[str, int], _: Target) -> Document:
    """extractExtendedResourcesFromKubeEnv in cluster-autoscaler/cloudprovider/gce/templates.go (1.33 and later)."""
    return {_GKE_PREFIX + name: str(quantity) for name, quantity in quantities.items()}


def _cluster_api(quantities: Mapping[str, int], _: Target) -> Document:
    """InstanceCapacity in cluster-autoscaler/cloudprovider/clusterapi/clusterapi_unstructured.go.

    Besides CPU, memory, disk and pods, it knows one resource, of any kind; gpu-type has its name.
    """
    annotations = {}
    for name, quantity in quantities.items():
        annotations = {f"{_CLUSTER_API_PREFIX}gpu-type": name, f"{_CLUSTER_API_PREFIX}gpu-count": str(quantity)}
    return annotations


def _gardener(quantities: Mapping[str, int], _: Target) -> Document:
    """WorkerConfig in docs/usage/usage.md of gardener-extension-provider-aws; other providers have the same."""
    return {"nodeTemplate": {"virtualCapacity": {name: str(quantity) for name, quantity in quantities.items()}}}


def _karpenter(quantities: Mapping[str, int], target: Target) -> Document:
    """NodeOverlaySpec in sigs.k8s.io/karpenter, pkg/apis/v1alpha1/nodeoverlay.go."""
    instance_type = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": target.instance_types}
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": target.name},
        "spec": {
            "requirements": [instance_type],
            "capacity": {name: str(quantity) for name, quantity in quantities.items()},
        },
    }


def _any_name(_: str) -> str:
    return ""


NOTATIONS: Mapping[Autoscaler, Notation] = {
    Autoscaler.AWS: Notation("tags of the Auto Scaling group or EKS node group", _aws_problem, _aws),
    Autoscaler.AZURE: Notation("tags of the virtual machine scale set", _azure_problem, _azure),
    Autoscaler.GKE: Notation("node labels of the GKE node pool", _gke_problem, _gke),
    Autoscaler.CLUSTER_API: Notation(
        "annotations of the MachineDeployment or MachineSet, beside those for cpu and memory",
        _any_name,
        _cluster_api,
        most=1,
    ),
    Autoscaler.GARDENER: Notation(
        "providerConfig of the Shoot's worker; machine-controller-manager also writes these to the Nodes",
        _any_name,
        _gardener,
    ),
    Autoscaler.KARPENTER: Notation("needs the feature gate NodeOverlay", _any_name, _karpenter, has_target=True),
}
