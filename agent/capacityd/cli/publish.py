"""plan, apply and withdraw: what belongs on the Node, and putting it there."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from capacityd import state
from capacityd.apply import Outcome
from capacityd.apply import apply as publish
from capacityd.capacity import NodeState, Plan
from capacityd.cli.changes import show_patch, show_plan
from capacityd.cli.context import config_of, host_of, node_name_of, node_of, warn
from capacityd.cli.terminal import progress
from capacityd.cli.text import as_json
from capacityd.decision import Terms
from capacityd.errors import CapacitydError, UsageError
from capacityd.host.kubelet import device_plugin_names
from capacityd.model import Config, Quantity, Reading
from capacityd.node import Node
from capacityd.plan import make_plan, make_withdrawal
from capacityd.quantity import whole_quantity
from capacityd.report import plan_as_dict
from capacityd.settings import Duration

_PATIENCE = 30.0  # seconds in which a person waits for an API server that says "later"
_POLL = 1.0

Decide: TypeAlias = Callable[[NodeState], Plan]
Units: TypeAlias = Mapping[str, str]  # name -> what stands behind its quantities


def plan(options: argparse.Namespace) -> int:
    """Prints what apply would do; exit status 4 if something is unknown or refused."""
    node, decide, units = _prepare(options, reads_only=True)
    made = decide(node.read())
    if options.patch:
        show_patch(made)
    else:
        _print(options, made, None, units)
    return _status(made)


def apply(options: argparse.Namespace) -> int:
    """Publishes; exit status 4 if something is unknown or refused."""
    wait = _wait_of(options)
    if options.dry_run:
        node, decide, units = _prepare(options, reads_only=True)
        made = decide(node.read())
        _print(options, made, False, units)
        return _status(made)
    node, decide, units = _prepare(options, reads_only=False)
    outcome = _publish(options, node, decide, units)
    if wait is not None:
        _await_allocatable(node, outcome, wait)
    return _status(outcome.plan)


def withdraw(options: argparse.Namespace) -> int:
    """Takes away what is recorded as published; exit status 4 if somebody else's value had to be left."""
    from capacityd.config import load

    if options.node_file is None and (service := state.running(state.folder())):
        raise UsageError(f"the service runs (process {service['pid']}) and would publish again: stop it first")
    host, config = host_of(options), load(options.config).config  # a damaged configuration must not keep one from it
    node = node_of(options, config, host, reads_only=False)
    terms = Terms(plugins=device_plugin_names(host), now=time.time())
    return _status(_publish(options, node, lambda found: make_withdrawal(found, terms), _units(config)).plan)


def _prepare(options: argparse.Namespace, reads_only: bool) -> tuple[Node, Decide, Units]:
    from capacityd.probe import probe

    host, config = host_of(options), config_of(options)
    if config.settings.observe and not reads_only:
        raise UsageError('observe = true in [kubernetes]: nothing is written; "capacityd plan" shows what would be')
    node = node_of(options, config, host, reads_only)
    readings = probe(config, host, node_name_of(options, config, host))
    _warn_of(readings)

    def decide(found: NodeState) -> Plan:
        terms = Terms(
            adopt=frozenset(r.name for r in config.resources if r.adopt),
            plugins=device_plugin_names(host),
            complete=config.complete,
            now=time.time(),
            condition=config.settings.condition,
        )
        return make_plan(readings, found, terms)

    return node, decide, _units(config)


def _units(config: Config) -> Units:
    return {r.name: f" {r.unit.name}" for r in config.resources if r.unit}


def _publish(options: argparse.Namespace, node: Node, decide: Decide, units: Units) -> Outcome:
    with state.locked(state.folder(), _PATIENCE):
        outcome = publish(node, decide, _PATIENCE)
    _print(options, outcome.plan, outcome.applied, units)
    for warning in outcome.warnings:
        warn(warning)
    return outcome


def _warn_of(readings: dict[str, Reading]) -> None:
    for name, reading in readings.items():
        if isinstance(reading, Quantity) and reading.warning:
            warn(f"{name}: {reading.warning}")


def _status(made: Plan) -> int:
    return 4 if made.unknown or made.refused else 0


def _print(options: argparse.Namespace, made: Plan, applied: bool | None, units: Units) -> None:
    if options.json:
        found = plan_as_dict(made)
        print(as_json(found if applied is None else found | {"applied": applied}))
    else:
        show_plan(made, bool(applied), units)


def _wait_of(options: argparse.Namespace) -> float | None:
    if options.wait is None:
        return None
    if options.dry_run or options.node_file is not None:
        raise UsageError("--wait is for a Node whose kubelet runs: leave out --dry-run and --node-file")
    try:
        return Duration(1, 3600).parse(options.wait)
    except ValueError as e:
        raise UsageError(f"--wait {e}") from e


def _await_allocatable(node: Node, outcome: Outcome, wait: float) -> None:
    """Waits until the kubelet has copied capacity to allocatable, which takes up to 10 s by default."""
    removed = [c.name for c in outcome.plan.changes if c.action == "remove"]
    began = time.monotonic()
    found = outcome.state
    with progress(f"waiting for the kubelet of Node {found.name}") as say:
        while late := _not_followed(found, outcome.plan, removed):
            waited = time.monotonic() - began
            if waited > wait:
                raise CapacitydError(
                    f"allocatable of Node {found.name} has not followed within {wait:g} s for {', '.join(late)};"
                    " is its kubelet running?"
                )
            say(f"waiting for the kubelet: allocatable of {', '.join(late)}, {waited:.0f} of {wait:g} s")
            time.sleep(_POLL)
            found = node.read()
    warn(f"allocatable has followed, after {time.monotonic() - began:.0f} s")


def _not_followed(found: NodeState, made: Plan, removed: list[str]) -> list[str]:
    late = [name for name, value in made.published.items() if whole_quantity(found.allocatable.get(name, "")) != value]
    return late + [name for name in removed if name in found.allocatable]
