"""What is wrong with a cluster's objects beside its Nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from capacityd.cli.fleet.findings import Finding, Reason, is_majority, same_for_all, shown
from capacityd.model.fleet import Fleet, NodeSummary, Overlaid


def clashes(fleet: Fleet, names: Iterable[str]) -> Iterator[Finding]:
    """Yields resources that a DeviceClass also serves. names: the resources that capacityd publishes."""
    for name in names:
        for device_class in fleet.device_classes.get(name, ()):
            message = f"the DeviceClass {device_class} also serves {name} (extendedResourceName)"
            yield same_for_all(Reason.DEVICE_CLASS, message)


def overlay_differences(nodes: Iterable[NodeSummary], names: Collection[str]) -> Iterator[Finding]:
    """Yields NodeOverlays with another quantity than most of the Nodes that they are about.

    names: the resources that capacityd publishes. A Node counts if capacityd writes it and its annotation can be read.
    """
    # Name of the NodeOverlay, resource, the NodeOverlay's quantity -> published quantity -> number of Nodes with it.
    counts: dict[tuple[str, str, Overlaid], Counter[int | None]] = {}
    for node in nodes:
        if node.has_capacityd and not node.annotation_error:
            for name, overlaid in node.overlaid.items():
                if name in names:
                    of_overlay = counts.setdefault((overlaid.overlay, name, overlaid), Counter())
                    of_overlay[node.annotated.get(name)] += 1
    for (overlay, name, overlaid), nodes_by_quantity in sorted(counts.items(), key=lambda item: item[0][:2]):
        total = nodes_by_quantity.total()
        if is_majority(nodes_by_quantity[overlaid.quantity], total=total):
            continue
        del nodes_by_quantity[overlaid.quantity]
        having = [f"{count} of {total} Nodes have {shown(quantity)}" for quantity, count in nodes_by_quantity.items()]
        message = f"{name} is {overlaid.quantity} in the NodeOverlay {overlay}, {', '.join(having)}"
        yield same_for_all(Reason.OVERLAY_DIFFERS, message)
