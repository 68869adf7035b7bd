"""template: prints, in an autoscaler's notation, the resources that a node like this machine will have."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import yaml

from capacityd.cli.configured import nothing_configured, warn
from capacityd.cli.notations import NOTATIONS, Notation, document, problems
from capacityd.cli.options import Options, refuse_other_sources
from capacityd.cli.output.terminal import print_json, print_line
from capacityd.config import load
from capacityd.discovery.runner import probe
from capacityd.host.kubelet import device_plugin_names
from capacityd.model.config import Config
from capacityd.model.errors import UsageError
from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.worker.selection import host_of, node_name_of


def template(options: Options) -> int:
    """Prints the resources that capacityd would publish. Returns exit status 4 if one is unknown or refused.

    Raises ConfigError, and UsageError if nothing is configured, or if the notation can't express a name or requires
    another option.
    """
    refuse_other_sources(options, "template is about a new Node", ("node_file",))
    notation = NOTATIONS[options.autoscaler]
    _check_instance_types(options, notation)
    host, config = host_of(options.selection), load(options.selection.config).require()
    if not config.resources:
        raise UsageError(nothing_configured(options.selection))
    config = _selected(config, options.resource)
    readings = probe(config, host, node_name_of(options.selection, config, host))
    quantities, omitted = _published(readings, device_plugin_names(host) or ())
    if errors := [f"{options.autoscaler}: {problem}" for problem in problems(notation, list(quantities))]:
        raise UsageError("\n".join(errors))
    for name, reason in omitted.items():
        warn(f"{name} is left out: {reason}")
    if quantities:
        _print(options, document(notation, quantities, options.name, options.instance_type), config.digest)
    else:
        warn("this machine has none of the configured resources, so there is nothing to print")
    return 4 if omitted else 0


def _check_instance_types(options: Options, notation: Notation) -> None:
    if notation.has_instance_types and not options.instance_type:
        raise UsageError(f"{options.autoscaler} requires the machine's instance type: --instance-type")
    if options.instance_type and not notation.has_instance_types:
        raise UsageError(f"{options.autoscaler} does not use instance types: leave out --instance-type")


def _selected(config: Config, names: Sequence[str]) -> Config:
    """The configuration with only these resources; with all resources if names is empty."""
    configured = {resource.name for resource in config.resources}
    if missing := [name for name in names if name not in configured]:
        raise UsageError(f'no resource "{missing[0]}" is configured; must be one of {", ".join(sorted(configured))}')
    return replace(config, resources=tuple(r for r in config.resources if r.name in names)) if names else config


def _published(readings: Mapping[str, Reading], plugins: Collection[str]) -> tuple[dict[str, int], dict[str, str]]:
    """The published resources, and the omitted ones with their reasons. An absent resource is in neither.

    plugins: names that device plugins have registered on this machine.
    """
    quantities, omitted = {}, {}
    for name, reading in sorted(readings.items()):
        if isinstance(reading, Unknown):
            omitted[name] = f"unknown: {reading.reason}"
        elif name in plugins:
            omitted[name] = "refused: a device plugin has this name on this machine"
        elif isinstance(reading, Quantity):
            quantities[name] = reading.value
    return quantities, omitted


def _print(options: Options, text: str, digest: str) -> None:
    if options.json:
        print_json(yaml.safe_load(text))
        return
    print_line(f"# {options.autoscaler}: {NOTATIONS[options.autoscaler].about}")
    print_line(f"# the resources that capacityd publishes with the configuration {digest}")
    print(text, end="")
