"""template: prints, in an autoscaler's notation, the resources that a new node will have.

The new node is like this machine. With --nodes, it is like the present Nodes of a group.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from capacityd.cli.configured import nothing_configured
from capacityd.cli.output.terminal import print_message
from capacityd.config import load
from capacityd.discovery.runner import probe
from capacityd.host.kubelet import device_plugin_names
from capacityd.model.errors import CapacitydError, UsageError
from capacityd.model.options import Selection
from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.model.text import plural, printable
from capacityd.schema.config import Config
from capacityd.worker.selection import host_of, node_name_of
from kubectl_capacityd.commands.source import group_label, selected_fleet
from kubectl_capacityd.model import NodeSummary, published_names
from kubectl_capacityd.options import ClusterOptions
from kubectl_capacityd.template.common import common_resources
from kubectl_capacityd.template.notations import NOTATIONS, document, problems


def template(options: ClusterOptions) -> int:
    """Prints the resources that a new node will have. Returns exit status 4 if a resource is left out.

    Raises ConfigError and NodeError. Raises CapacitydError if no Node publishes anything. Raises UsageError if nothing
    is configured, or if the notation can't express a resource or requires another option.
    """
    _require_one_source(options)
    return _print_for_nodes(options) if options.nodes else _print_for_machine(options)


def _require_one_source(options: ClusterOptions) -> None:
    """Raises UsageError for an option about a machine with --nodes, or an option about Nodes without --nodes."""
    of_machine = (options.config, options.machine, options.node_name)
    if options.nodes and any(of_machine):
        raise UsageError("--nodes reads the Nodes of a cluster: leave out --config, --machine and --node-name")
    of_nodes = (options.node_file, options.selector, options.by, options.context, options.kubeconfig)
    if not options.nodes and any(of_nodes):
        raise UsageError("--node-file, --kubeconfig, --context, -l and --by select Nodes: add --nodes")


def _print_for_machine(options: ClusterOptions) -> int:
    """Prints the resources of a new node that is like this machine. Returns the exit status."""
    _check_instance_types(options, required="the machine's instance type: --instance-type")
    selection = Selection(config=options.config, machine=options.machine, node_name=options.node_name)
    host = host_of(selection)
    config = load(options.config).require()
    if not config.resources:
        raise UsageError(nothing_configured(selection))
    config = _with_resources(config, options.resource_names)
    readings = probe(config, host, node_name=node_name_of(selection, config))
    device_plugins = device_plugin_names(host) or ()  # if the names are unknown, no resource is refused
    quantities, omissions = _publishable(readings, device_plugins)
    text = ""
    if quantities:
        text = _document(options, quantities, where=f"with the configuration {config.digest}", label_value=None)
    for omission in omissions:
        print_message(omission)
    if not quantities:
        print_message("this machine has none of the configured resources, so there is nothing to print")
    print(text, end="")
    return 4 if omissions else 0


def _print_for_nodes(options: ClusterOptions) -> int:
    """Prints the resources of new nodes that are like the present Nodes of each group. Returns the exit status."""
    if options.by is None:
        required = "what the NodeOverlay is about: --by LABEL, such as karpenter.sh/nodepool, or --instance-type"
        _check_instance_types(options, required)
    elif options.instance_types:
        raise UsageError("--by gives the values of its label: leave out --instance-type")
    nodes = selected_fleet(options, only_nodes=True).nodes
    _require_published(nodes, options.resource_names)
    documents = []
    exit_status = 0
    for label_value, members in _groups(options, nodes).items():
        group = common_resources(members, options.resource_names)
        where = f"on {plural(group.compared_nodes, 'Node')}"
        prefix = ""
        if label_value is not None:
            where += f" with {options.by}={label_value}"
            prefix = f"{options.by}={label_value}: "
        for message in (*group.differences, *group.omissions):
            print_message(f"{prefix}{message}")
        if group.omissions:
            exit_status = 4
        if group.quantities:
            documents.append(_document(options, group.quantities, where=where, label_value=label_value))
    print("---\n".join(documents), end="")
    return exit_status


def _groups(options: ClusterOptions, nodes: Sequence[NodeSummary]) -> dict[str | None, list[NodeSummary]]:
    """Value of the label of --by -> the Nodes with this value. Without --by, the only key is None.

    Prints which Nodes lack the label.
    """
    groups: dict[str | None, list[NodeSummary]] = {}
    for node in sorted(nodes, key=lambda node: (node.label_value or "", node.name)):
        if options.by is not None and node.label_value is None:
            print_message(f"{node.name} is left out: it has no label {options.by}")
            continue
        group = None if options.by is None else node.label_value
        groups.setdefault(group, []).append(node)
    return groups


def _require_published(nodes: Sequence[NodeSummary], names: Sequence[str]) -> None:
    """Raises UsageError for a resource that no Node publishes. Raises CapacitydError if nothing is published."""
    published = published_names(nodes)
    for name in names:
        if name not in published:
            raise UsageError(f'none of these Nodes publishes "{name}"')
    if not published:
        raise CapacitydError("capacityd publishes nothing on these Nodes")


def _check_instance_types(options: ClusterOptions, required: str) -> None:
    """Raises UsageError if a required instance type is missing, or if the notation does not use instance types.

    required: what the notation requires, for the message.
    """
    notation = NOTATIONS[options.autoscaler]
    if notation.selects_nodes and not options.instance_types:
        raise UsageError(f"{options.autoscaler} requires {required}")
    if options.instance_types and not notation.selects_nodes:
        raise UsageError(f"{options.autoscaler} does not use instance types: leave out --instance-type")


def _with_resources(config: Config, names: Sequence[str]) -> Config:
    """The configuration with only these resources, or with all resources if names is empty.

    Raises UsageError if a named resource is not configured.
    """
    if not names:
        return config
    configured = sorted(resource.name for resource in config.resources)
    for name in names:
        if name not in configured:
            raise UsageError(f'no resource "{name}" is configured; must be one of {", ".join(configured)}')
    resources = tuple(resource for resource in config.resources if resource.name in names)
    return replace(config, resources=resources)


def _publishable(readings: Mapping[str, Reading], device_plugins: Collection[str]) -> tuple[dict[str, int], list[str]]:
    """The resources that capacityd would publish (name -> quantity), and why other resources are left out.

    Neither result mentions the resources that this machine lacks. device_plugins: the names that device plugins have
    registered on this machine.
    """
    quantities: dict[str, int] = {}
    omissions: list[str] = []
    for name, reading in sorted(readings.items()):
        if isinstance(reading, Unknown):
            omissions.append(f"{name} is left out: unknown: {reading.reason}")
        elif name in device_plugins:
            omissions.append(f"{name} is left out: refused: a device plugin has this name on this machine")
        elif isinstance(reading, Quantity):
            quantities[name] = reading.value
    return quantities, omissions


def _document(options: ClusterOptions, quantities: Mapping[str, int], where: str, label_value: str | None) -> str:
    """The YAML below two comments. Raises UsageError if the autoscaler's notation can't express these resources.

    where: on which Nodes, or with which configuration, capacityd publishes the resources. label_value: the value that
    the label of --by has on the document's nodes; None if the nodes have one of the types in --instance-type instead.
    """
    notation = NOTATIONS[options.autoscaler]
    errors = [f"{options.autoscaler}: {problem}" for problem in problems(notation, list(quantities))]
    if errors:
        raise UsageError("\n".join(errors))
    overlay = _overlay_name(options.overlay_name, label_value)
    values = options.instance_types if label_value is None else (label_value,)
    text = document(notation, quantities, overlay=overlay, label=group_label(options), values=values)
    about = printable(f"{options.autoscaler}: {notation.about}")
    origin = printable(f"the resources that capacityd publishes {where}")
    return f"# {about}\n# {origin}\n{text}"


def _overlay_name(name: str, label_value: str | None) -> str:
    """The NodeOverlay's name for a group: name, then the label's value with "-" for characters that are not allowed."""
    words = re.findall("[a-z0-9]+", (label_value or "").lower())
    return "-".join([name, *words])
