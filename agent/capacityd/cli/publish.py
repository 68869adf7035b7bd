"""plan, apply and withdraw: what belongs on the Node, and putting it there."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from capacityd import state
from capacityd.apply import Outcome
from capacityd.apply import apply as publish
from capacityd.capacity import NodeState, Plan
from capacityd.cli.context import config_of, host_of, node_name_of, node_of, warn
from capacityd.cli.text import as_json, columns
from capacityd.errors import CapacitydError, UsageError
from capacityd.host.kubelet import device_plugin_names
from capacityd.model import Quantity, Reading
from capacityd.node import Node
from capacityd.plan import Terms, make_plan, make_withdrawal
from capacityd.quantity import whole_quantity
from capacityd.report import plan_as_dict
from capacityd.settings import Duration

_PATIENCE = 30.0  # seconds in which a person waits for an API server that says "later"
_POLL = 1.0


def plan(options: argparse.Namespace) -> int:
    """Prints what apply would do; exit status 4 if something is unknown or refused."""
    node, decide = _prepare(options, reads_only=True)
    made = decide(node.read())
    _print(options, made, None)
    return _status(made)


def apply(options: argparse.Namespace) -> int:
    """Publishes; exit status 4 if something is unknown or refused."""
    wait = _wait_of(options)
    if options.dry_run:
        node, decide = _prepare(options, reads_only=True)
        made = decide(node.read())
        _print(options, made, False)
        return _status(made)
    node, decide = _prepare(options, reads_only=False)
    outcome = _publish(options, node, decide)
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
    return _status(_publish(options, node, lambda found: make_withdrawal(found, terms)).plan)


def _prepare(options: argparse.Namespace, reads_only: bool) -> tuple[Node, Callable[[NodeState], Plan]]:
    from capacityd.probe import probe

    host, config = host_of(options), config_of(options)
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

    return node, decide


def _publish(options: argparse.Namespace, node: Node, decide: Callable[[NodeState], Plan]) -> Outcome:
    with state.locked(state.folder(), _PATIENCE):
        outcome = publish(node, decide, _PATIENCE)
    _print(options, outcome.plan, outcome.applied)
    for warning in outcome.warnings:
        warn(warning)
    return outcome


def _warn_of(readings: dict[str, Reading]) -> None:
    for name, reading in readings.items():
        if isinstance(reading, Quantity) and reading.warning:
            warn(f"{name}: {reading.warning}")


def _status(made: Plan) -> int:
    return 4 if made.unknown or made.refused else 0


def _print(options: argparse.Namespace, made: Plan, applied: bool | None) -> None:
    if options.json:
        found = plan_as_dict(made)
        print(as_json(found if applied is None else found | {"applied": applied}))
        return
    print(f"Node {made.node}")
    rows = [(f"  {c.action}", c.name, _moved(c.old, c.new), c.reason) for c in made.changes]
    print("".join(f"{line}\n" for line in columns(rows)), end="")
    if not made.patch:
        print("nothing to write")
    elif applied:
        print("written")
    else:
        print("patch:")
        print("".join(f"  {json.dumps(operation, ensure_ascii=False)}\n" for operation in made.patch), end="")
        print("nothing was written")


def _moved(old: str | None, new: str | None) -> str:
    before, after = (text if text is not None else "-" for text in (old, new))
    return before if before == after else f"{before} → {after}"


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
    deadline = time.monotonic() + wait
    found = outcome.state
    while late := _not_followed(found, outcome.plan, removed):
        if time.monotonic() > deadline:
            raise CapacitydError(
                f"allocatable of Node {found.name} has not followed within {wait:g} s for {', '.join(late)};"
                " is its kubelet running?"
            )
        time.sleep(_POLL)
        found = node.read()
    warn("allocatable has followed")


def _not_followed(found: NodeState, made: Plan, removed: list[str]) -> list[str]:
    late = [name for name, value in made.published.items() if whole_quantity(found.allocatable.get(name, "")) != value]
    return late + [name for name in removed if name in found.allocatable]
