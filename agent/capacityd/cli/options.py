"""The options of a command, as values."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields

from capacityd.model.errors import UsageError
from capacityd.model.options import Selection, WorkerOptions
from capacityd.model.reasons import Job, PassReason


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a command. Those that a command does not have keep their defaults.

    The help texts are in cli/parser.py.
    """

    command: str
    selection: Selection
    json: bool = False
    # devices
    detector: str | None = None
    toml: bool = False
    # probe
    explain: bool = False
    as_service: bool = False
    # plan, apply, withdraw
    patch: bool = False
    dry_run: bool = False
    all_annotated: bool = False
    # record
    file: str = ""
    force: bool = False
    keep_serials: bool = False
    # fleet, template
    context: str | None = None
    nodes: bool = False
    selector: str = ""
    by: str | None = None
    # fleet
    node: Sequence[str] = ()
    all: bool = False
    max_age: str = ""
    textfile: str | None = None
    # template
    autoscaler: str = ""
    resource: Sequence[str] = ()
    instance_type: Sequence[str] = ()
    name: str = ""
    # config
    task: str = ""


def options_of(parsed: argparse.Namespace) -> Options | WorkerOptions:
    """The options of the parsed command line."""
    # The parser stores each option under the name of its field in Selection, Options or WorkerOptions.
    values = dict(vars(parsed))
    selection = Selection(**{field.name: values.pop(field.name) for field in fields(Selection)})
    if parsed.command == "worker":
        reasons = frozenset(PassReason(reason) for reason in parsed.reasons.split(",") if reason)
        return WorkerOptions(
            job=Job(parsed.job), folder=parsed.folder, selection=selection, reasons=reasons, lost=parsed.lost
        )
    return Options(selection=selection, **values)


def refuse_other_sources(
    options: Options, why: str, sources: Sequence[str] = ("machine", "node_file", "node_name")
) -> None:
    """Raises UsageError if one of these options of Selection is given. why: the reason, as the message's start."""
    given = [name for name in sources if getattr(options.selection, name) is not None]
    if given:
        refused = [f"--{name.replace('_', '-')}" for name in given]
        raise UsageError(f"{why}: leave out {' and '.join(refused)}")


def refuse_combinations(options: Options, *, reads_only: bool) -> None:
    """Raises UsageError for options that can't be combined. reads_only: whether the command never writes to a Node."""
    selection = options.selection
    if selection.machine is not None and selection.node_file is None and not reads_only:
        or_dry_run = ", or --dry-run" if options.command == "apply" else ""
        raise UsageError(f"--machine selects another machine, which has no Node to write; add --node-file{or_dry_run}")
    if selection.node_file is not None and (selection.kubeconfig or selection.node_name):
        raise UsageError("--node-file replaces the API server: leave out --kubeconfig and --node-name")
