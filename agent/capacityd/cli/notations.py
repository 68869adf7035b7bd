"""The notation of each autoscaler for the extended resources of a future node, for `template`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notation:
    """How an autoscaler is told of extended resources: in YAML, the head and then an entry for each resource."""

    about: str
    """What the document is, and where to put it: the comment above it."""
    entry: str
    """With the places {name}, {tag} (the name with "_" for "/") and {quantity}."""
    head: str = ""
    """With the places {overlay} (a name) and {instance_types}."""
    longest_name: int | None = None
    """The most characters of a resource's name that fit; None: any name fits."""
    forbidden: str = ""
    """Characters of a resource's name that the autoscaler would change."""
    most: int | None = None
    """The number of resources that it can carry; None: any number."""

    @property
    def has_instance_types(self) -> bool:
        """Whether it applies to instance types."""
        return "{instance_types}" in self.head


NOTATIONS: Mapping[str, Notation] = {
    # extractAllocatableResourcesFromAsg in cluster-autoscaler/cloudprovider/aws/aws_manager.go. A tag's key has at most
    # 128 characters: Amazon EC2 User Guide, "Tag your Amazon EC2 resources".
    "aws": Notation(
        "tags of the Auto Scaling group or EKS node group",
        'k8s.io/cluster-autoscaler/node-template/resources/{name}: "{quantity}"\n',
        longest_name=128 - len("k8s.io/cluster-autoscaler/node-template/resources/"),
    ),
    # extractAllocatableResourcesFromScaleSet in cluster-autoscaler/cloudprovider/azure/azure_template.go
    "azure": Notation(
        "tags of the virtual machine scale set",
        'k8s.io_cluster-autoscaler_node-template_resources_{tag}: "{quantity}"\n',
        forbidden="_",
    ),
    # extractExtendedResourcesFromKubeEnv in cluster-autoscaler/cloudprovider/gce/templates.go (1.33 and later). Not the
    # prefix with a dash in the description of kubernetes/autoscaler#7604: it was changed before it was merged.
    "gke": Notation(
        "node labels of the GKE node pool",
        'clusterautoscaler-nodetemplate-resources.{name}: "{quantity}"\n',
    ),
    # InstanceCapacity in cluster-autoscaler/cloudprovider/clusterapi/clusterapi_unstructured.go. Besides CPU, memory,
    # disk and pods, it knows one resource, of any kind; gpu-type has its name.
    "cluster-api": Notation(
        "annotations of the MachineDeployment or MachineSet, beside those for cpu and memory",
        'capacity.cluster-autoscaler.kubernetes.io/gpu-type: "{name}"\n'
        'capacity.cluster-autoscaler.kubernetes.io/gpu-count: "{quantity}"\n',
        most=1,
    ),
    # WorkerConfig in docs/usage/usage.md of gardener-extension-provider-aws; other providers have the same.
    "gardener": Notation(
        "providerConfig of the Shoot's worker; machine-controller-manager also writes these to the Nodes",
        '    {name}: "{quantity}"\n',
        head="nodeTemplate:\n  virtualCapacity:\n",
    ),
    # NodeOverlaySpec in sigs.k8s.io/karpenter, pkg/apis/v1alpha1/nodeoverlay.go
    "karpenter": Notation(
        "needs the feature gate NodeOverlay",
        '    {name}: "{quantity}"\n',
        head="""\
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata:
  name: {overlay}
spec:
  requirements:
    - key: node.kubernetes.io/instance-type
      operator: In
      values: [{instance_types}]
  capacity:
""",
    ),
}


def problems(notation: Notation, names: Sequence[str]) -> Iterator[str]:
    """Yields why the notation can't carry these resources."""
    for name in names:
        if notation.longest_name is not None and len(name) > notation.longest_name:
            yield f"{name} has {len(name)} characters; at most {notation.longest_name} fit"
        yield from (f'{name} has a "{c}", which the autoscaler would change' for c in notation.forbidden if c in name)
    if notation.most is not None and len(names) > notation.most:
        yield f"it carries {notation.most} extended resource, not {len(names)}: choose with --resource"


def document(notation: Notation, quantities: Mapping[str, int], overlay: str, instance_types: Sequence[str]) -> str:
    """Returns the YAML for these quantities. overlay: the name of the NodeOverlay."""
    types = ", ".join(map(json.dumps, instance_types))
    entries = (
        notation.entry.format(name=name, tag=name.replace("/", "_"), quantity=quantity)
        for name, quantity in quantities.items()
    )
    return notation.head.format(overlay=json.dumps(overlay), instance_types=types) + "".join(entries)
