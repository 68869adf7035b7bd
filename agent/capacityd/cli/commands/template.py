"""template: prints, in an autoscaler's notation, the resources that a new node will have.

A node like this machine, or with --nodes a node like those of a group.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import yaml

from capacityd.cli.configured import nothing_configured, warn
from capacityd.cli.fleet.common import Common, common
from capacityd.cli.fleet.source import INSTANCE_TYPE, selected_nodes
from capacityd.cli.notations import NOTATIONS, Notation, document, problems
from capacityd.cli.options import Options, refuse_other_sources
from capacityd.cli.output.terminal import print_json, print_line
from capacityd.config import load
from capacityd.discovery.runner import probe
from capacityd.host.kubelet import device_plugin_names
from capacityd.model.config import Config
from capacityd.model.errors import CapacitydError, UsageError
from capacityd.model.fleet import NodeSummary
from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.model.text import plural
from capacityd.worker.selection import host_of, node_name_of


def template(options: Options) -> int:
    """Prints the resources that a new node will have. Returns exit status 4 if one is left out.

    Raises ConfigError, NodeError, CapacitydError if no Node publishes anything, and UsageError if nothing is
    configured, or if the notation can't express a name or requires another option.
    """
    return _of_nodes(options) if options.nodes else _of_machine(options)


def _of_machine(options: Options) -> int:
    """As template(), from what capacityd would publish on this machine."""
    refuse_other_sources(options, "template without --nodes is about a machine", sources=("node_file",))
    if options.selector or options.by is not None or options.context is not None:
        raise UsageError("-l, --by and --context select Nodes: add --nodes")
    notation = NOTATIONS[options.autoscaler]
    _check_instance_types(options, notation, required="the machine's instance type: --instance-type")
    host = host_of(options.selection)
    config = load(options.selection.config).require()
    if not config.resources:
        raise UsageError(nothing_configured(options.selection))
    config = _selected(config, options.resource)
    node_name = node_name_of(options.selection, config, host)
    readings = probe(config, host, node_name=node_name)
    plugins = device_plugin_names(host)  # None: unknown
    quantities, omitted = _published(readings, plugins or ())
    _require_expressible(options, quantities)
    for name, reason in omitted.items():
        warn(f"{name} is left out: {reason}")
    if not quantities:
        warn("this machine has none of the configured resources, so there is nothing to print")
    elif options.json:
        print_json(yaml.safe_load(_document_of_machine(options, quantities)))
    else:
        where = f"with the configuration {config.digest}"
        _print(options, quantities, where=where, text=_document_of_machine(options, quantities))
    return 4 if omitted else 0


def _of_nodes(options: Options) -> int:
    """As template(), from what capacityd publishes on the Nodes of each group."""
    refuse_other_sources(options, "--nodes reads the Nodes of a cluster", sources=("machine", "config", "node_name"))
    notation = NOTATIONS[options.autoscaler]
    if options.by is None:
        _check_instance_types(
            options,
            notation,
            required="what the NodeOverlay is about: --by LABEL, such as karpenter.sh/nodepool, or --instance-type",
        )
    elif options.instance_type:
        raise UsageError("--by gives the values of its label: leave out --instance-type")
    nodes = selected_nodes(options)
    _require_published(nodes, options.resource)
    groups = _groups(options, nodes)
    for group in groups.values():
        _require_expressible(options, group.quantities)
    overlays = {value: _overlay_name(options.name, label_value=value) for value in groups}
    if notation.has_requirement and len(set(overlays.values())) < len(overlays):
        raise UsageError("two groups would get the same name: print each with -l, and give it a --name")
    documents = {
        value: _document_of_group(options, group.quantities, overlay=overlays[value], label_value=value)
        for value, group in groups.items()
        if group.quantities
    }
    if options.json and documents:
        parsed = {value: yaml.safe_load(text) for value, text in documents.items()}
        print_json(parsed[None] if options.by is None else parsed)
    else:
        for number, (value, text) in enumerate(documents.items()):
            if number > 0:
                print_line("---")
            where = f"on {plural(groups[value].nodes, 'Node')}"
            if value is not None:
                where += f" with {options.by}={value}"
            _print(options, groups[value].quantities, where=where, text=text)
    return 4 if any(group.omissions for group in groups.values()) else 0


def _groups(options: Options, nodes: Sequence[NodeSummary]) -> dict[str | None, Common]:
    """Value of the label --by -> what its Nodes have in common. Without --by, the only key is None, for all Nodes.

    Prints differences and omissions as warnings.
    """
    members: dict[str | None, list[NodeSummary]] = {}
    for node in sorted(nodes, key=lambda node: (node.label or "", node.name)):
        if options.by is None:
            members.setdefault(None, []).append(node)
        elif node.label is not None:
            members.setdefault(node.label, []).append(node)
        else:
            warn(f"{node.name} is left out: it has no label {options.by}")
    groups = {value: common(group, options.resource) for value, group in members.items()}
    for value, group in groups.items():
        for message in (*group.differences, *group.omissions):
            warn(message if value is None else f"{options.by}={value}: {message}")
    return groups


def _require_published(nodes: Sequence[NodeSummary], names: Sequence[str]) -> None:
    published = {name for node in nodes for name in node.annotated}
    if missing := [name for name in names if name not in published]:
        raise UsageError(f'none of these Nodes publishes "{missing[0]}"')
    if not published:
        raise CapacitydError("capacityd publishes nothing on these Nodes")


def _overlay_name(name: str, label_value: str | None) -> str:
    """The NodeOverlay's name for a group. name: the option --name. Characters that a name cannot contain become "-"."""
    words = re.findall("[a-z0-9]+", (label_value or "").lower())
    return "-".join(part for part in (name, *words) if part)


def _require_expressible(options: Options, quantities: Mapping[str, int]) -> None:
    notation = _notation(options, quantities)
    if errors := [f"{options.autoscaler}: {problem}" for problem in problems(notation, list(quantities))]:
        raise UsageError("\n".join(errors))


def _check_instance_types(options: Options, notation: Notation, required: str) -> None:
    """Raises UsageError if the notation requires an instance type and there is none, or the other way round.

    required: what the notation requires, for the message.
    """
    if notation.has_requirement and not options.instance_type:
        raise UsageError(f"{options.autoscaler} requires {required}")
    if options.instance_type and not notation.has_requirement:
        raise UsageError(f"{options.autoscaler} does not use instance types: leave out --instance-type")


def _selected(config: Config, names: Sequence[str]) -> Config:
    """The configuration with only these resources; with all resources if names is empty."""
    configured = {resource.name for resource in config.resources}
    if missing := [name for name in names if name not in configured]:
        raise UsageError(f'no resource "{missing[0]}" is configured; must be one of {", ".join(sorted(configured))}')
    if not names:
        return config
    return replace(config, resources=tuple(resource for resource in config.resources if resource.name in names))


def _published(readings: Mapping[str, Reading], plugins: Collection[str]) -> tuple[dict[str, int], dict[str, str]]:
    """Name -> quantity of the published resources, and name -> reason of the omitted ones. An absent one is in neither.

    plugins: names that device plugins have registered on this machine.
    """
    quantities: dict[str, int] = {}
    omitted: dict[str, str] = {}
    for name, reading in sorted(readings.items()):
        if isinstance(reading, Unknown):
            omitted[name] = f"unknown: {reading.reason}"
        elif name in plugins:
            omitted[name] = "refused: a device plugin has this name on this machine"
        elif isinstance(reading, Quantity):
            quantities[name] = reading.value
    return quantities, omitted


def _notation(options: Options, quantities: Mapping[str, int]) -> Notation:
    """The notation for this autoscaler and this number of resources."""
    return NOTATIONS[options.autoscaler].for_number(len(quantities))


def _document_of_machine(options: Options, quantities: Mapping[str, int]) -> str:
    """The YAML for Nodes like this machine. For Karpenter, the option --instance-type selects these Nodes."""
    return _document_of_group(options, quantities, overlay=options.name, label_value=None)


def _document_of_group(
    options: Options, quantities: Mapping[str, int], *, overlay: str, label_value: str | None
) -> str:
    """The YAML. overlay: the NodeOverlay's name. label_value: the group's value of the label --by; None: no --by."""
    return document(
        _notation(options, quantities),
        quantities,
        overlay=overlay,
        label=options.by or INSTANCE_TYPE,
        values=options.instance_type if label_value is None else (label_value,),
    )


def _print(options: Options, quantities: Mapping[str, int], where: str, text: str) -> None:
    """Prints a document below two comments. where: on which Nodes the resources are published."""
    print_line(f"# {options.autoscaler}: {_notation(options, quantities).about}")
    print_line(f"# the resources that capacityd publishes {where}")
    print(text, end="")
