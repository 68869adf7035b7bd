"""plan, apply and withdraw: determine the desired state of the Node, and write it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

from capacityd.cli.configured import config_of
from capacityd.cli.options import Options, refuse_combinations
from capacityd.cli.output.plan import print_patch, print_plan
from capacityd.cli.output.progress import progress
from capacityd.cli.output.terminal import print_json, print_message
from capacityd.config import load
from capacityd.config.hints import name_hints
from capacityd.discovery.runner import probe
from capacityd.host.kubelet import device_plugin_names
from capacityd.model.errors import UsageError
from capacityd.model.node import Node, NodeState, annotated_quantities
from capacityd.model.plan import MachineRecord, Plan
from capacityd.model.reading import Quantity
from capacityd.reconcile import machine_record
from capacityd.reconcile.apply import NO_RECORD_FILE, RecordFile, Retries, Start
from capacityd.reconcile.apply import apply as write_plan
from capacityd.reconcile.attempt import Denied, Planner
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.plan import make_plan as plan_from_facts
from capacityd.reconcile.plan import make_withdrawal, only_annotated
from capacityd.schema.config import Config
from capacityd.worker import metrics_file, runtime_files
from capacityd.worker.selection import host_of, node_name_of, node_of

_RETRY_TIMEOUT = 30.0  # seconds to retry a busy API server, and to wait for the lock of another writer on this machine

Units: TypeAlias = Mapping[str, str]  # resource name -> unit of its quantities


def plan(options: Options) -> int:
    """Prints what apply would do. Returns exit status 4 if a resource is unknown, refused, denied, not configured but
    kept, or below `expect`."""
    node, make_plan, units = _prepare(options, writes=False)
    node_plan = _plan_before_writes(node, make_plan, options)
    if options.patch:
        print_patch(node_plan)
    elif options.json:
        print_json(node_plan.as_dict())
    else:
        print_plan(node_plan, units)
    return _exit_status(node_plan)


def apply(options: Options) -> int:
    """Writes the plan to the Node. Returns exit status 4 in the same cases as plan()."""
    node, make_plan, units = _prepare(options, writes=not options.dry_run)
    return _exit_status(_execute(options, node, make_plan, units))


def withdraw(options: Options) -> int:
    """Removes everything that this machine has published. Returns exit status 4 if a key stays: its owner is another
    writer or unknown, or the API server denies its removal.

    With --all-annotated, also removes keys that only the annotation lists, and prints them first.
    """
    refuse_combinations(options, writes=not options.dry_run)
    host = host_of(options.selection)
    config = load(options.selection.config).config  # withdraw works with errors in the configuration
    directory = runtime_files.runtime_directory()
    writes_to_cluster = not options.dry_run and options.selection.node_file is None
    if writes_to_cluster:
        _refuse_if_service_publishes(directory, config)
    node = node_of(options.selection, config, host)
    device_plugins = device_plugin_names(host)
    if options.all_annotated:
        _print_unconfirmed(node, options)

    # write_plan() calls this for each attempt. denied: name -> why the API server denies its change. _written: the plan
    # that an earlier attempt has written; a command ignores it.
    def make_plan(state: NodeState, record: MachineRecord | None, denied: Denied, _written: Plan | None) -> Plan:
        record = _ownership_record(options, state, record)
        if options.all_annotated:
            record = None  # then make_withdrawal() removes every key that the annotation lists
        facts = Facts(now=time.time(), machine_record=record, device_plugins=device_plugins, denied=denied)
        return make_withdrawal(state, facts)

    withdrawal = _execute(options, node, make_plan, _units(config))
    # A service in observe mode may be running, and goes on writing its metrics.
    if writes_to_cluster and runtime_files.running(directory) is None:
        for error in metrics_file.remove_all(machine_record.state_directory()):
            print_message(error)
    _print_kept(withdrawal)
    return _exit_status(withdrawal)


def _print_unconfirmed(node: Node, options: Options) -> None:
    """Prints the keys that withdraw removes only because of --all-annotated: this machine's record does not confirm
    them."""
    unconfirmed = only_annotated(node.read(), _machine_record(options))
    if unconfirmed:
        removed = "would be removed anyway" if options.dry_run else "removed anyway"
        print_message(f"not in this machine's record, {removed}: {', '.join(unconfirmed)}")


def _print_kept(withdrawal: Plan) -> None:
    """Prints the keys that a withdrawal leaves because their owner is unknown."""
    # write.annotated: what the annotation lists afterwards. The annotation keeps a key for two reasons: the API server
    # denies the key's removal, or the key's owner is unknown.
    if kept := [name for name in withdrawal.write.annotated if name not in withdrawal.health.denied]:
        print_message(
            f"kept keys that another program may own: {', '.join(kept)}. The Node's annotation lists them, but this "
            "machine's record does not; `capacityd withdraw --all-annotated` removes them"
        )


def _refuse_if_service_publishes(directory: str, config: Config) -> None:
    """Raises UsageError if the service runs, and would publish again what withdraw removes."""
    service = runtime_files.running(directory)
    if service is None:
        return
    saved = runtime_files.read_config(directory)
    active = saved.config if saved else config  # the files may have changed since the service read them
    if not active.settings.observe:  # in observe mode, the service writes nothing
        raise UsageError(
            f"the service is running (PID {service.pid}) and would publish again: stop it first"
            " (`systemctl stop capacityd`)"
        )


def _prepare(options: Options, *, writes: bool) -> tuple[Node, Planner, Units]:
    """Reads the machine and prints warnings. Returns the Node, the function that makes the plan, and the units.

    writes: whether the command may write to the Node.
    """
    host = host_of(options.selection)
    config = config_of(options.selection)
    for hint in name_hints(config.resources):
        print_message(hint)
    if config.settings.observe and writes:
        raise UsageError("[kubernetes] observe = true forbids writes; `capacityd plan` shows the changes")
    refuse_combinations(options, writes=writes)
    node = node_of(options.selection, config, host)
    node_name = node_name_of(options.selection, config, host)
    with progress("reading the resources"):
        readings = probe(config, host, node_name=node_name)
    for name, reading in readings.items():
        if isinstance(reading, Quantity) and reading.warning:
            print_message(f"{name}: {reading.warning}")

    # As make_plan() in withdraw().
    def make_plan(state: NodeState, record: MachineRecord | None, denied: Denied, _written: Plan | None) -> Plan:
        facts = Facts(
            readings=readings,
            config=config,
            now=time.time(),
            machine_record=_ownership_record(options, state, record),
            device_plugins=device_plugin_names(host),
            denied=denied,
        )
        return plan_from_facts(state, facts)

    return node, make_plan, _units(config)


def _units(config: Config) -> Units:
    return {resource.name: resource.unit.name for resource in config.resources if resource.unit}


def _machine_record(options: Options) -> MachineRecord | None:
    """This machine's record of what it has published; None if the record is missing, or if the Node is in a file: then
    _ownership_record() does not use it."""
    if options.selection.node_file is not None:
        return None
    return machine_record.read(machine_record.state_directory())


def _ownership_record(options: Options, state: NodeState, record: MachineRecord | None) -> MachineRecord | None:
    """The record by which the plan decides what capacityd owns; None: the plan decides by the Node's annotation alone.

    record: this machine's; None if it is missing.

    A Node in a file has no other writers. So its own annotation takes the place of the machine's record.
    """
    if options.selection.node_file is None:
        return record
    return MachineRecord(annotated_quantities(state.annotation), node_uid=state.uid)


def _plan_before_writes(node: Node, make_plan: Planner, options: Options) -> Plan:
    """Reads the Node and makes the plan for it."""
    denied: Denied = {}  # the API server has not denied anything yet
    written = None  # this command has not written a plan yet
    return make_plan(node.read(), _machine_record(options), denied, written)


def _execute(options: Options, node: Node, make_plan: Planner, units: Units) -> Plan:
    """Makes the plan, writes it unless this is a dry run, and prints it."""
    if options.dry_run:
        plan = _plan_before_writes(node, make_plan, options)
        _print(options, plan, units, applied=False)
        return plan
    has_record = options.selection.node_file is None  # a Node in a file has no record on this machine
    directory = machine_record.state_directory()
    record_file = NO_RECORD_FILE
    if has_record:
        # write_plan() calls intend before each write to the Node, and replace after a conflict or a rejection.
        record_file = RecordFile(
            intend=partial(machine_record.intend, directory), replace=partial(machine_record.replace, directory)
        )
    with runtime_files.locked(runtime_files.runtime_directory(), retry_timeout=_RETRY_TIMEOUT):
        start = Start(_machine_record(options))  # without the Node's state: write_plan() reads the Node
        outcome = write_plan(node, make_plan, start, record_file=record_file, retries=Retries(timeout=_RETRY_TIMEOUT))
        if has_record:
            machine_record.confirm(directory, outcome.plan)  # replaces the intended quantities by the published ones
    _print(options, outcome.plan, units, applied=outcome.applied)
    for warning in outcome.warnings:
        print_message(warning)
    return outcome.plan


def _exit_status(plan: Plan) -> int:
    """4 in the cases that plan() lists, otherwise 0."""
    health = plan.health
    wrong = (health.unknown, plan.refused, health.denied, health.not_configured, health.below_expected)
    return 4 if any(wrong) else 0


def _print(options: Options, plan: Plan, units: Units, *, applied: bool) -> None:
    if options.json:
        print_json(plan.as_dict() | {"applied": applied})
    else:
        print_plan(plan, units, applied=applied)
