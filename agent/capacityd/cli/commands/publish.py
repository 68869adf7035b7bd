"""plan, apply and withdraw: run one reconcile pass by hand, and print the changes of the Node."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from capacityd.cli.configured import config_of
from capacityd.cli.options import Options, refuse_combinations
from capacityd.cli.output.plan import plan_as_dict, print_patch, print_plan
from capacityd.cli.output.terminal import print_json, print_message
from capacityd.config import load
from capacityd.discovery.runner import probe
from capacityd.host.kubelet import device_plugin_names
from capacityd.model.errors import CapacitydError, UsageError
from capacityd.model.host import Host
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Plan
from capacityd.model.reading import Quantity, Reading
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.reconcile import Outcome, Pass
from capacityd.schema.config import Config
from capacityd.worker import metrics_file, runtime_files
from capacityd.worker.selection import host_of, node_of

_INSTEAD_OF_APPLY = (
    "`systemctl reload capacityd` lets it use the configuration at once; `capacityd plan` shows what would be written"
)
_INSTEAD_OF_WITHDRAW = "`capacityd withdraw --dry-run` shows what would be removed"


def plan(options: Options) -> int:
    """Prints what apply would do. Returns exit status 4 if something keeps a resource from being published."""
    return _publish(options, writes=False)


def apply(options: Options) -> int:
    """Writes the plan to the Node. Returns exit status 4 if something keeps a resource from being published."""
    return _publish(options, writes=True)


def withdraw(options: Options) -> int:
    """Removes everything that the Node's annotation lists, and the condition. Returns exit status 4 if a key stays,
    because another writer has set it or the API server denies its removal."""
    writes = not options.dry_run
    refuse_combinations(options, writes=writes)
    if writes:
        _refuse_while_service_runs(options, _INSTEAD_OF_WITHDRAW)
    host = host_of(options.selection)
    config = load(options.selection.config).config  # withdraw works with errors in the configuration
    withdrawal = Pass(
        node_of(options.selection, config, host),
        read_machine=lambda _node_name: {},  # a withdrawal needs no readings
        inputs_of=lambda _readings: Inputs(now=time.time(), is_withdrawal=True),
        device_plugins=partial(device_plugin_names, host),
        writes=writes,
    )
    outcome = _run_pass(withdrawal, options)
    _print_outcome(outcome, config, options)
    if writes and options.selection.node_file is None:
        _remove_service_files(config)
    remaining = [change for change in outcome.plan.changes if change.stored.capacity and not change.action.writes]
    if options.json:
        for change in remaining:
            print_message(f"{change.key} stays: {change.reason}")
    return 4 if remaining else 0


def _remove_service_files(config: Config) -> None:
    """Removes the service's files that show published resources. Prints why the metrics file could not be removed."""
    runtime_files.remove_state(runtime_files.runtime_directory())  # `status` reads this file
    if not config.settings.textfile:
        return
    if error := metrics_file.remove(config.settings.textfile):
        print_message(f"{error}: delete it")


def _refuse_while_service_runs(options: Options, alternative: str) -> None:
    """Raises UsageError if the service runs, because only one process may write the Node. Accepts a Node file.

    alternative: what the user can do while the service runs.
    """
    if options.selection.node_file is not None:
        return
    service = runtime_files.running_service(runtime_files.runtime_directory())
    if service is not None:
        raise UsageError(
            f"the service is running (PID {service.pid or '?'}), and writes the Node itself: "
            f"`systemctl stop capacityd` ends it; {alternative}"
        )


def _publish(options: Options, *, writes: bool) -> int:
    """Reads the machine, runs a reconcile pass, and prints its plan. Returns the exit status.

    writes: whether the pass writes the plan to the Node.
    """
    host = host_of(options.selection)
    config = config_of(options.selection)
    if writes and config.settings.observe:
        raise UsageError("[kubernetes] observe = true forbids writes; `capacityd plan` shows the changes")
    refuse_combinations(options, writes=writes)
    if writes:
        _refuse_while_service_runs(options, _INSTEAD_OF_APPLY)
    publication = Pass(
        node_of(options.selection, config, host),
        read_machine=partial(_read_machine, config, host),
        inputs_of=lambda readings: Inputs(config, readings, now=time.time()),
        device_plugins=partial(device_plugin_names, host),
        writes=writes,
    )
    outcome = _run_pass(publication, options)
    if options.patch:
        print_patch(outcome.plan)
    else:
        _print_outcome(outcome, config, options)
    return _exit_status(outcome.plan, options)


def _read_machine(config: Config, host: Host, node_name: str | None) -> Mapping[str, Reading]:
    """Reads all resources, and prints the warnings of their readings."""
    readings = probe(config, host, node_name)
    for name, reading in readings.items():
        if isinstance(reading, Quantity) and reading.warning:
            print_message(f"{name}: {reading.warning}")
    return readings


def _run_pass(reconcile_pass: Pass, options: Options) -> Outcome:
    """Runs a pass, prints its warnings, and writes what it has changed to the journal. Raises NodeError if it fails."""
    pass_end = reconcile_pass.run()
    if pass_end.error is not None:
        raise pass_end.error
    if pass_end.outcome is None:
        # This cannot happen: only a Pass with may_send_nothing ends without an outcome and without an error.
        raise CapacitydError("the pass has sent nothing")
    for warning in pass_end.outcome.warnings:
        print_message(warning)
    if pass_end.outcome.is_written and options.selection.node_file is None:
        _log_changes(pass_end.outcome, options.command)
    return pass_end.outcome


def _log_changes(outcome: Outcome, command: str) -> None:
    """Writes to the journal what a command has changed, and the user who ran the command or called sudo."""
    with suppress(ImportError):  # without systemd's library, the command works without the journal
        from capacityd.worker import journal

        user = os.environ.get("SUDO_USER") or f"uid {os.getuid()}"
        journal.log_to_journal(journal.command_entries(outcome, command, user))


def _print_outcome(outcome: Outcome, config: Config, options: Options) -> None:
    if options.json:
        print_json(plan_as_dict(outcome.plan) | {"applied": outcome.is_written})
        return
    units = {resource.name: resource.unit for resource in config.resources if resource.unit}
    print_plan(outcome.plan, units, applied=outcome.is_written)


def _exit_status(plan: Plan, options: Options) -> int:
    """4 if something keeps a resource from being published, otherwise 0. A resource below `expect` is published, too.

    Prints what is wrong to standard error, unless the table on standard output shows it.
    """
    troubles = [trouble for trouble in plan.troubles if trouble.key is not None]  # None: a trouble of the whole Node
    if options.json or options.patch:
        for trouble in troubles:
            print_message(trouble.summary)
    is_incomplete = any(trouble.reason is not ConditionReason.BELOW_EXPECTED for trouble in troubles)
    return 4 if is_incomplete else 0
