"""Reads the Nodes that a command's options select, from a cluster or from a saved list."""

from __future__ import annotations

from capacityd.model.errors import CapacitydError, UsageError
from kubectl_capacityd.cluster.fleet_file import read_fleet_file
from kubectl_capacityd.cluster.node_list import read_fleet
from kubectl_capacityd.cluster.operator_kubeconfig import load_operators
from kubectl_capacityd.model import Fleet, NodeSummary
from kubectl_capacityd.options import ClusterOptions

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""The label that groups Nodes by default."""


def group_label(options: ClusterOptions) -> str:
    """The label that groups Nodes."""
    return INSTANCE_TYPE if options.by is None else options.by


def selected_fleet(options: ClusterOptions, *, only_nodes: bool = False) -> Fleet:
    """Returns the selected Nodes, the DeviceClasses and the pods' requests. Raises NodeError and UsageError.

    Raises CapacitydError if no Node is selected: a wrong selector must not look like a healthy fleet. only_nodes:
    whether to read only Nodes from a cluster.
    """
    fleet = _saved_fleet(options)
    if fleet is None:
        access = load_operators(options.kubeconfig, context=options.context)
        fleet = read_fleet(access, group_label(options), options.selector, only_nodes=only_nodes)
    _require_nodes(fleet.nodes, options)
    return fleet


def _saved_fleet(options: ClusterOptions) -> Fleet | None:
    """The Nodes of a saved list; None if the options name no list.

    Raises UsageError for an option that needs a cluster, and NodeError.
    """
    if options.node_file is None:
        return None
    if options.selector:
        raise UsageError("-l needs a cluster: save the list with kubectl get nodes -l SELECTOR -o json")
    if options.kubeconfig is not None or options.context is not None:
        raise UsageError("--node-file replaces the API server: leave out --kubeconfig and --context")
    return read_fleet_file(options.node_file, label=group_label(options))


def _require_nodes(nodes: tuple[NodeSummary, ...], options: ClusterOptions) -> None:
    """Raises CapacitydError if the options select no Node, and UsageError if no Node has the label of --by."""
    if not nodes:
        error = f"no Node matches -l {options.selector}" if options.selector else "the cluster has no Nodes"
        raise CapacitydError(error)
    if options.by is not None and all(node.label_value is None for node in nodes):
        raise UsageError(f'no Node has the label "{options.by}" (--by)')
