"""Reads the Nodes that a command's options select: of a cluster, with the user's kubeconfig, or of a saved list."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from capacityd.cli.options import Options
from capacityd.model.errors import CapacitydError, UsageError
from capacityd.model.fleet import Fleet, NodeSummary
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.fleet_file import read_fleet_file
from capacityd.node.node_list import read_fleet, read_nodes
from capacityd.node.operator_kubeconfig import load_operators

T = TypeVar("T")

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""The label that groups Nodes by default."""


def selected_fleet(options: Options) -> Fleet:
    """Returns the selected Nodes, with all that `fleet` reports about. Raises NodeError, UsageError, CapacitydError.

    At least one Node is selected: a wrong name or selector must not look like a healthy fleet.
    """
    label = INSTANCE_TYPE if options.by is None else options.by
    fleet = _saved(options, label)
    if fleet is None:
        fleet = _of_cluster(
            options,
            lambda access, progress: read_fleet(
                access, label=label, selector=options.selector, names=tuple(options.node), progress=progress
            ),
        )
    _require_nodes(fleet.nodes, options)
    return fleet


def selected_nodes(options: Options) -> tuple[NodeSummary, ...]:
    """Returns the selected Nodes, at least one. Reads nothing else. Raises as selected_fleet() does."""
    label = INSTANCE_TYPE if options.by is None else options.by
    saved = _saved(options, label)
    if saved is not None:
        nodes = saved.nodes
    else:
        nodes = _of_cluster(
            options,
            lambda access, progress: read_nodes(access, label=label, selector=options.selector, progress=progress),
        )
    _require_nodes(nodes, options)
    return nodes


def _saved(options: Options, label: str) -> Fleet | None:
    """The Nodes of a saved list; None if the options name none."""
    if options.selection.node_file is None:
        return None
    if options.selector:
        raise UsageError("-l needs a cluster: save the list with kubectl get nodes -l SELECTOR -o json")
    if options.selection.kubeconfig is not None or options.context is not None:
        raise UsageError("--node-file replaces the API server: leave out --kubeconfig and --context")
    return read_fleet_file(options.selection.node_file, label=label)


def _of_cluster(options: Options, read: Callable[[ClusterAccess, Callable[[str, int], None]], T]) -> T:
    """Calls read with the user's access to the cluster, and with a function that shows the progress on a terminal."""
    access = load_operators(options.selection.kubeconfig, context=options.context)
    on_terminal = sys.stderr.isatty()
    try:
        return read(access, _progress if on_terminal else _no_progress)
    finally:
        if on_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)  # removes the progress line


def _no_progress(_kind: str, _count: int) -> None:
    """In place of _progress() if standard error is no terminal."""


def _progress(kind: str, count: int) -> None:
    """Shows on the terminal how many Nodes or pods have been read so far."""
    print(f"\r\x1b[Kreading {kind}: {count}", end="", file=sys.stderr, flush=True)


def _require_nodes(nodes: tuple[NodeSummary, ...], options: Options) -> None:
    """Raises CapacitydError if the options select no Node."""
    if not nodes:
        error = f"no Node matches -l {options.selector}" if options.selector else "the cluster has no Nodes"
        raise CapacitydError(error)
    if options.by is not None and all(node.label is None for node in nodes):
        raise UsageError(f'no Node has the label "{options.by}" (--by)')
