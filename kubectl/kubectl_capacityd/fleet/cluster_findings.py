"""What is wrong with a cluster's objects beside its Nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from kubectl_capacityd.fleet.findings import Finding, Reason, finding_for, value_text
from kubectl_capacityd.fleet.norm import is_usual
from kubectl_capacityd.model import Fleet, NodeSummary, Overlaid


def clashes(fleet: Fleet, resource_names: Iterable[str]) -> Iterator[Finding]:
    """Yields a finding for each resource that a DeviceClass also serves. resource_names: what capacityd publishes."""
    for name in resource_names:
        for device_class in fleet.device_classes.get(name, ()):
            message = f"the DeviceClass {device_class} also serves {name} (extendedResourceName)"
            yield finding_for(Reason.DEVICE_CLASS, message)


def overlay_differences(nodes: Iterable[NodeSummary], resource_names: Collection[str]) -> Iterator[Finding]:
    """Yields a finding for each resource with another quantity in a NodeOverlay (of Karpenter) than on most of the
    NodeOverlay's Nodes.

    resource_names: those that capacityd publishes. A Node counts if capacityd writes it and its annotation can be read.
    """
    # What a NodeOverlay says (its name and the quantity) and the resource -> published quantity -> number of Nodes with
    # this quantity. The quantity None: the Node does not publish the resource.
    counts: dict[tuple[Overlaid, str], Counter[int | None]] = {}
    for node in nodes:
        if not node.has_capacityd or node.annotation_error:
            continue
        for name, overlaid in node.overlaid.items():
            if name in resource_names:
                counts.setdefault((overlaid, name), Counter())[node.annotated.get(name)] += 1
    by_overlay_and_name = sorted(counts, key=lambda key: (key[0].overlay, key[1]))
    for overlaid, name in by_overlay_and_name:
        nodes_by_quantity = counts[overlaid, name]
        total = nodes_by_quantity.total()
        if is_usual(nodes_by_quantity[overlaid.quantity], total=total):
            continue
        others = ", ".join(
            f"{count} of {total} Nodes have {value_text(quantity)}"
            for quantity, count in nodes_by_quantity.items()
            if quantity != overlaid.quantity
        )
        yield finding_for(
            Reason.OVERLAY_DIFFERS, f"{name} is {overlaid.quantity} in the NodeOverlay {overlaid.overlay}, {others}"
        )
