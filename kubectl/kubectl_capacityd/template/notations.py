"""Each autoscaler's notation for the extended resources of a future node, for `template`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from capacityd.model.text import plural


@dataclass(frozen=True, slots=True)
class Notation:
    """An autoscaler's notation for extended resources: YAML that consists of a head and an entry for each resource."""

    about: str
    """A comment above the document, which says what the document is and where it belongs."""
    entry: str
    """The text for a resource, for str.format(). {tag} is {name} with "_" instead of "/"."""
    head: str = ""
    """The text before the entries, for str.format(). {label} and {values} select the nodes of a NodeOverlay."""
    max_name_length: int | None = None
    """Maximum number of characters in a resource's name; None for no limit."""
    forbidden_characters: str = ""
    """Characters that a resource's name may not contain, because the autoscaler would change them."""
    max_resources: int | None = None
    """Maximum number of resources; None for no limit."""

    @property
    def selects_nodes(self) -> bool:
        """Whether the document selects its nodes by a label."""
        return "{label}" in self.head


NOTATIONS: Mapping[str, Notation] = {
    # extractAllocatableResourcesFromAsg in cluster-autoscaler/cloudprovider/aws/aws_manager.go. A tag's key may have
    # 128 characters, and a resource 50 tags: Amazon EC2 User Guide, "Tag your Amazon EC2 resources".
    "aws": Notation(
        about="tags of the Auto Scaling group or EKS node group",
        entry='k8s.io/cluster-autoscaler/node-template/resources/{name}: "{quantity}"\n',
        max_name_length=128 - len("k8s.io/cluster-autoscaler/node-template/resources/"),
        max_resources=50,
    ),
    # extractAllocatableResourcesFromScaleSet in cluster-autoscaler/cloudprovider/azure/azure_template.go. A resource
    # may have 50 tags: Azure Resource Manager documentation, "Use tags to organize your Azure resources".
    "azure": Notation(
        about="tags of the virtual machine scale set",
        entry='k8s.io_cluster-autoscaler_node-template_resources_{tag}: "{quantity}"\n',
        forbidden_characters="_",
        max_resources=50,
    ),
    # extractExtendedResourcesFromKubeEnv in cluster-autoscaler/cloudprovider/gce/templates.go (1.33 and later). In
    # this code, the prefix ends with a dot. The older description of kubernetes/autoscaler#7604 has a dash instead.
    "gke": Notation(
        about="node labels of the GKE node pool",
        entry='clusterautoscaler-nodetemplate-resources.{name}: "{quantity}"\n',
    ),
    # InstanceCapacity in cluster-autoscaler/cloudprovider/clusterapi/clusterapi_unstructured.go. Besides CPU, memory,
    # disk and pods, the annotations carry one resource of any kind. The annotation gpu-type contains its name.
    "cluster-api": Notation(
        about="annotations of the MachineDeployment or MachineSet, beside those for cpu and memory",
        entry='capacity.cluster-autoscaler.kubernetes.io/gpu-type: "{name}"\n'
        'capacity.cluster-autoscaler.kubernetes.io/gpu-count: "{quantity}"\n',
        max_resources=1,
    ),
    # The same function reads status.capacity, which carries any number of resources, if there are no annotations.
    "cluster-api-template": Notation(
        about="the machine template: kubectl patch KIND NAME --subresource=status --type=merge --patch-file=FILE",
        entry='    {name}: "{quantity}"\n',
        head="status:\n  capacity:\n",
    ),
    # WorkerConfig in docs/usage/usage.md of gardener-extension-provider-aws. Other providers use the same format.
    "gardener": Notation(
        about="providerConfig of the Shoot's worker; machine-controller-manager also writes these to the Nodes",
        entry='    {name}: "{quantity}"\n',
        head="nodeTemplate:\n  virtualCapacity:\n",
    ),
    # NodeOverlaySpec in sigs.k8s.io/karpenter, pkg/apis/v1alpha1/nodeoverlay.go
    "karpenter": Notation(
        about="needs the feature gate NodeOverlay",
        entry='    {name}: "{quantity}"\n',
        head="""\
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata:
  name: {overlay}
spec:
  requirements:
    - key: {label}
      operator: In
      values: [{values}]
  capacity:
""",
    ),
}


def problems(notation: Notation, names: Sequence[str]) -> Iterator[str]:
    """Yields the reasons why the notation can't express these resources."""
    for name in names:
        if notation.max_name_length is not None and len(name) > notation.max_name_length:
            yield f"{name} is {len(name)} characters long; the limit is {notation.max_name_length}"
        for character in notation.forbidden_characters:
            if character in name:
                yield f'{name} contains "{character}"; the autoscaler would change it'
    if notation.max_resources is not None and len(names) > notation.max_resources:
        limit = plural(notation.max_resources, "extended resource")
        yield f"it supports at most {limit}, not {len(names)}: choose with --resource"


def document(
    notation: Notation, quantities: Mapping[str, int], *, overlay: str, label: str, values: Sequence[str]
) -> str:
    """Returns the YAML for these quantities.

    overlay: the name of the NodeOverlay. label, values: the NodeOverlay selects nodes whose label has one of these
    values. Notations that do not select nodes ignore all three parameters.
    """
    entries = []
    for name, quantity in quantities.items():
        tag = name.replace("/", "_")
        entries.append(notation.entry.format(name=name, tag=tag, quantity=quantity))
    # json.dumps() quotes the texts, because every JSON string is also a YAML string.
    quoted_values = ", ".join(json.dumps(value) for value in values)
    head = notation.head.format(overlay=json.dumps(overlay), label=json.dumps(label), values=quoted_values)
    return head + "".join(entries)
