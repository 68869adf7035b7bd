"""template: prints, in an autoscaler's notation, the resources that a new node will have.

The new node is like this machine. With --nodes, it is like the present Nodes of a group.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from capacityd.cli.configured import nothing_configured
from capacityd.cli.output.terminal import print_line, print_message
from capacityd.config import load
from capacityd.discovery.runner import probe
from capacityd.host.kubelet import device_plugin_names
from capacityd.model.errors import CapacitydError, UsageError
from capacityd.model.options import Selection
from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.model.text import plural
from capacityd.schema.config import Config
from capacityd.worker.selection import host_of, node_name_of
from kubectl_capacityd.commands.source import group_label, selected_fleet
from kubectl_capacityd.model import NodeSummary
from kubectl_capacityd.options import ClusterOptions
from kubectl_capacityd.template.common import Common, common
from kubectl_capacityd.template.notations import NOTATIONS, Notation, document, problems


def template(options: ClusterOptions) -> int:
    """Prints the resources that a new node will have. Returns exit status 4 if a resource is left out.

    Raises ConfigError and NodeError. Raises CapacitydError if no Node publishes anything. Raises UsageError if nothing
    is configured, or if the notation can't express a resource or requires another option.
    """
    _require_one_source(options)
    return _of_nodes(options) if options.nodes else _of_machine(options)


def _require_one_source(options: ClusterOptions) -> None:
    """Raises UsageError for an option about a machine with --nodes, or an option about Nodes without --nodes."""
    if options.nodes and (options.config or options.machine or options.node_name):
        raise UsageError("--nodes reads the Nodes of a cluster: leave out --config, --machine and --node-name")
    of_nodes = (options.node_file, options.selector, options.by, options.context, options.kubeconfig)
    if not options.nodes and any(of_nodes):
        raise UsageError("--node-file, --kubeconfig, --context, -l and --by select Nodes: add --nodes")


def _of_machine(options: ClusterOptions) -> int:
    """Does the work of template() for a node like this machine."""
    selection = Selection(config=options.config, machine=options.machine, node_name=options.node_name)
    notation = NOTATIONS[options.autoscaler]
    _check_instance_types(options, notation, required="the machine's instance type: --instance-type")
    host = host_of(selection)
    config = load(options.config).require()
    if not config.resources:
        raise UsageError(nothing_configured(selection))
    config = _selected(config, options.resource_names)
    node_name = node_name_of(selection, config)
    readings = probe(config, host, node_name=node_name)
    device_plugins = device_plugin_names(host) or ()  # if the names are unknown, no resource is refused
    quantities, omitted = _published(readings, device_plugins)
    _require_expressible(options, quantities)
    for name, reason in omitted.items():
        print_message(f"{name} is left out: {reason}")
    exit_status = 4 if omitted else 0
    if not quantities:
        print_message("this machine has none of the configured resources, so there is nothing to print")
        return exit_status
    text = _document(options, quantities, overlay=options.overlay_name, label_value=None)
    _print(options, quantities, where=f"with the configuration {config.digest}", text=text)
    return exit_status


def _of_nodes(options: ClusterOptions) -> int:
    """Does the work of template() for nodes like the Nodes of each group."""
    notation = NOTATIONS[options.autoscaler]
    if options.by is None:
        _check_instance_types(
            options,
            notation,
            required="what the NodeOverlay is about: --by LABEL, such as karpenter.sh/nodepool, or --instance-type",
        )
    elif options.instance_types:
        raise UsageError("--by gives the values of its label: leave out --instance-type")
    nodes = selected_fleet(options, only_nodes=True).nodes
    _require_published(nodes, options.resource_names)
    groups = _groups(options, nodes)
    for group in groups.values():
        _require_expressible(options, group.quantities)
    overlay_names = {label_value: _overlay_name(options.overlay_name, label_value) for label_value in groups}
    if notation.selects_nodes and len(set(overlay_names.values())) < len(overlay_names):
        raise UsageError("two groups would get the same name: print each with -l, and give it a --name")
    documents = {
        label_value: _document(options, group.quantities, overlay=overlay_names[label_value], label_value=label_value)
        for label_value, group in groups.items()
        if group.quantities
    }
    for number, (label_value, text) in enumerate(documents.items()):
        if number > 0:
            print_line("---")  # separates two documents in YAML
        group = groups[label_value]
        where = f"on {plural(group.compared_nodes, 'Node')}"
        if label_value is not None:
            where += f" with {options.by}={label_value}"
        _print(options, group.quantities, where=where, text=text)
    return 4 if any(group.omissions for group in groups.values()) else 0


def _groups(options: ClusterOptions, nodes: Sequence[NodeSummary]) -> dict[str | None, Common]:
    """Value of the label of --by -> what the Nodes with this value have in common. Without --by, the only key is None.

    Prints differences and omissions as warnings.
    """
    members: dict[str | None, list[NodeSummary]] = {}
    for node in sorted(nodes, key=lambda node: (node.label_value or "", node.name)):
        if options.by is None:
            members.setdefault(None, []).append(node)
        elif node.label_value is not None:
            members.setdefault(node.label_value, []).append(node)
        else:
            print_message(f"{node.name} is left out: it has no label {options.by}")
    groups = {label_value: common(group, options.resource_names) for label_value, group in members.items()}
    for label_value, group in groups.items():
        for message in (*group.differences, *group.omissions):
            print_message(message if label_value is None else f"{options.by}={label_value}: {message}")
    return groups


def _require_published(nodes: Sequence[NodeSummary], names: Sequence[str]) -> None:
    """Raises UsageError for a resource that no Node publishes. Raises CapacitydError if nothing is published."""
    published = {name for node in nodes for name in node.annotated}
    if missing := [name for name in names if name not in published]:
        raise UsageError(f'none of these Nodes publishes "{missing[0]}"')
    if not published:
        raise CapacitydError("capacityd publishes nothing on these Nodes")


def _overlay_name(name: str, label_value: str | None) -> str:
    """The NodeOverlay's name for a group: name, then the label's value with "-" for characters that are not allowed."""
    words = re.findall("[a-z0-9]+", (label_value or "").lower())
    return "-".join(part for part in (name, *words) if part)


def _require_expressible(options: ClusterOptions, quantities: Mapping[str, int]) -> None:
    """Raises UsageError if the autoscaler's notation can't express these resources."""
    notation = _notation(options, quantities)
    if errors := [f"{options.autoscaler}: {problem}" for problem in problems(notation, list(quantities))]:
        raise UsageError("\n".join(errors))


def _check_instance_types(options: ClusterOptions, notation: Notation, required: str) -> None:
    """Raises UsageError if a required instance type is missing, or if the notation does not use instance types.

    required: what the notation requires, for the message.
    """
    if notation.selects_nodes and not options.instance_types:
        raise UsageError(f"{options.autoscaler} requires {required}")
    if options.instance_types and not notation.selects_nodes:
        raise UsageError(f"{options.autoscaler} does not use instance types: leave out --instance-type")


def _selected(config: Config, names: Sequence[str]) -> Config:
    """The configuration with only these resources, or with all resources if names is empty.

    Raises UsageError if a named resource is not configured.
    """
    configured = {resource.name for resource in config.resources}
    if missing := [name for name in names if name not in configured]:
        raise UsageError(f'no resource "{missing[0]}" is configured; must be one of {", ".join(sorted(configured))}')
    if not names:
        return config
    return replace(config, resources=tuple(resource for resource in config.resources if resource.name in names))


def _published(
    readings: Mapping[str, Reading], device_plugins: Collection[str]
) -> tuple[dict[str, int], dict[str, str]]:
    """The resources that capacityd would publish (name -> quantity), and the omitted resources (name -> reason).

    Resources that this machine lacks are left out of both.
    device_plugins: names that device plugins have registered on this machine.
    """
    quantities: dict[str, int] = {}
    omitted: dict[str, str] = {}
    for name, reading in sorted(readings.items()):
        if isinstance(reading, Unknown):
            omitted[name] = f"unknown: {reading.reason}"
        elif name in device_plugins:
            omitted[name] = "refused: a device plugin has this name on this machine"
        elif isinstance(reading, Quantity):
            quantities[name] = reading.value
    return quantities, omitted


def _notation(options: ClusterOptions, quantities: Mapping[str, int]) -> Notation:
    """The notation for this autoscaler and this number of resources."""
    return NOTATIONS[options.autoscaler].for_number(len(quantities))


def _document(options: ClusterOptions, quantities: Mapping[str, int], *, overlay: str, label_value: str | None) -> str:
    """The YAML. overlay: the name of Karpenter's NodeOverlay. Other notations ignore the name.

    label_value: the value of the label of --by on the document's nodes. None: the document is about the nodes of the
    types in --instance-type.
    """
    return document(
        _notation(options, quantities),
        quantities,
        overlay=overlay,
        label=group_label(options),
        values=options.instance_types if label_value is None else (label_value,),
    )


def _print(options: ClusterOptions, quantities: Mapping[str, int], where: str, text: str) -> None:
    """Prints a document below two comments. where: on which Nodes, or with which configuration, capacityd publishes the
    resources."""
    print_line(f"# {options.autoscaler}: {_notation(options, quantities).about}")
    print_line(f"# the resources that capacityd publishes {where}")
    print(text, end="")
