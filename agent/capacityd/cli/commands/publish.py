"""plan, apply and withdraw: determine the desired state of the Node, and write it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

from capacityd.cli.configured import config_of, warn
from capacityd.cli.options import Options, refuse_combinations
from capacityd.cli.output.plan import print_patch, print_plan
from capacityd.cli.output.terminal import print_json
from capacityd.config import load
from capacityd.config.hints import name_hints
from capacityd.discovery.runner import probe
from capacityd.host.kubelet import device_plugin_names
from capacityd.model.config import Config
from capacityd.model.errors import UsageError
from capacityd.model.node import Node, NodeState, annotated_quantities
from capacityd.model.plan import MachineRecord, Plan
from capacityd.model.reading import Quantity
from capacityd.reconcile import machine_record
from capacityd.reconcile.apply import Intentions, Retries, Start
from capacityd.reconcile.apply import apply as apply_plan
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.plan import make_plan, make_withdrawal, only_annotated
from capacityd.reconcile.writing import Denied, Planner
from capacityd.worker import metrics_file, runtime_files
from capacityd.worker.selection import host_of, node_name_of, node_of

_RETRY_TIMEOUT = 30.0  # seconds to retry a busy API server, and to wait for another writer's lock

Units: TypeAlias = Mapping[str, str]  # resource name -> unit of its quantities


def plan(options: Options) -> int:
    """Prints what apply would do. Returns exit status 4 if a resource is unknown, refused, denied, not configured but
    kept, or below `expect`."""
    node, plan_for, units = _prepare(options, reads_only=True)
    plan = plan_for(node.read(), _machine_record(options), {})
    if options.patch:
        print_patch(plan)
    elif options.json:
        print_json(plan.as_dict())
    else:
        print_plan(plan, units)
    return _exit_status(plan)


def apply(options: Options) -> int:
    """Writes the plan to the Node. Returns exit status 4 in the same cases as plan()."""
    node, plan_for, units = _prepare(options, reads_only=options.dry_run)
    return _exit_status(_execute(options, node, plan_for, units))


def withdraw(options: Options) -> int:
    """Removes everything that this machine has published. Returns exit status 4 if it keeps a key of unknown ownership.

    With --all-annotated, also removes keys that only the annotation lists, and prints them first.
    """
    host = host_of(options.selection)
    config = load(options.selection.config).config  # withdraw works with errors in the configuration
    directory = runtime_files.runtime_directory()
    if not options.dry_run and options.selection.node_file is None and (service := runtime_files.running(directory)):
        saved = runtime_files.read_config(directory)
        active = saved.restored() if saved else config
        if not active.settings.observe:  # in observe mode, the service writes nothing
            raise UsageError(
                f"the service is running (PID {service.pid}) and would publish again: stop it first"
                " (`systemctl stop capacityd`)"
            )
    refuse_combinations(options, reads_only=options.dry_run)
    node = node_of(options.selection, config, host)
    device_plugins = device_plugin_names(host)

    if options.all_annotated and (names := only_annotated(node.read(), _machine_record(options))):
        removed = "would be removed anyway" if options.dry_run else "removed anyway"
        warn(f"not in this machine's record, {removed}: {', '.join(names)}")

    def plan_for(state: NodeState, record: MachineRecord | None, denied: Denied) -> Plan:
        trusted = None if options.all_annotated else _trusted(options, state, record)
        facts = Facts(now=time.time(), machine_record=trusted, device_plugins=device_plugins, denied=denied)
        return make_withdrawal(state, facts)

    plan = _execute(options, node, plan_for, _units(config))
    # In observe mode the service may be running, and goes on writing its metrics.
    if not options.dry_run and options.selection.node_file is None and not runtime_files.running(directory):
        for error in metrics_file.remove_all(machine_record.state_directory()):
            warn(error)
    if kept := [name for name in plan.write.annotated if name not in plan.health.denied]:
        warn(
            f"kept keys that another program may own: {', '.join(kept)}. The Node's annotation lists them, but this "
            "machine's record does not; `capacityd withdraw --all-annotated` removes them"
        )
    return _exit_status(plan)


def _prepare(options: Options, *, reads_only: bool) -> tuple[Node, Planner, Units]:
    """Reads the machine. Returns the Node, the function that makes the plan, and the units."""
    host, config = host_of(options.selection), config_of(options.selection)
    for hint in name_hints(config.resources):
        warn(hint)
    if config.settings.observe and not reads_only:
        raise UsageError("[kubernetes] observe = true forbids writes; `capacityd plan` shows the changes")
    refuse_combinations(options, reads_only=reads_only)
    node = node_of(options.selection, config, host)
    readings = probe(config, host, node_name_of(options.selection, config, host))
    for name, reading in readings.items():
        if isinstance(reading, Quantity) and reading.warning:
            warn(f"{name}: {reading.warning}")

    def plan_for(state: NodeState, record: MachineRecord | None, denied: Denied) -> Plan:
        facts = Facts(
            readings,
            config,
            now=time.time(),
            machine_record=_trusted(options, state, record),
            device_plugins=device_plugin_names(host),
            denied=denied,
        )
        return make_plan(state, facts)

    return node, plan_for, _units(config)


def _units(config: Config) -> Units:
    return {r.name: r.unit.name for r in config.resources if r.unit}


def _machine_record(options: Options) -> MachineRecord | None:
    """The machine record; a Node in a file needs none."""
    return None if options.selection.node_file is not None else machine_record.read(machine_record.state_directory())


def _trusted(options: Options, state: NodeState, record: MachineRecord | None) -> MachineRecord | None:
    """The machine record to use. A Node in a file has no other writers, so its annotation is trusted."""
    if options.selection.node_file is None:
        return record
    return MachineRecord(annotated_quantities(state.annotation), node_uid=state.uid)


def _execute(options: Options, node: Node, plan_for: Planner, units: Units) -> Plan:
    """Makes the plan, writes it unless this is a dry run, and prints it."""
    if options.dry_run:
        plan = plan_for(node.read(), _machine_record(options), {})
        _print(options, plan, units, applied=False)
        return plan
    directory = machine_record.state_directory()
    with runtime_files.locked(runtime_files.runtime_directory(), _RETRY_TIMEOUT):
        if options.selection.node_file is not None:
            outcome = apply_plan(node, plan_for, Start(None), retries=Retries(_RETRY_TIMEOUT))
        else:
            record = machine_record.read(directory)
            intentions = Intentions(
                partial(machine_record.intend, directory), partial(machine_record.forget, directory)
            )
            outcome = apply_plan(node, plan_for, Start(record), intentions, Retries(_RETRY_TIMEOUT))
            machine_record.confirm(directory, outcome.plan)
    _print(options, outcome.plan, units, applied=outcome.applied)
    for warning in outcome.warnings:
        warn(warning)
    return outcome.plan


def _exit_status(plan: Plan) -> int:
    health = plan.health
    wrong = health.unknown or plan.refused or health.denied or health.not_configured or health.below_expected
    return 4 if wrong else 0


def _print(options: Options, plan: Plan, units: Units, *, applied: bool) -> None:
    if options.json:
        print_json(plan.as_dict() | {"applied": applied})
    else:
        print_plan(plan, units, applied=applied)
