"""The options of a command, as values."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from typing import Any

from capacityd.model.errors import UsageError
from capacityd.model.options import Selection


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a command. Options of other commands keep their defaults. None: the option is not given."""

    command: str
    selection: Selection  # of the machine, the configuration and the Node
    json: bool = False
    # devices
    detector: str | None = None
    toml: bool = False
    # probe
    explain: bool = False
    as_service: bool = False
    # plan
    patch: bool = False
    # withdraw
    dry_run: bool = False
    # record
    file: str = ""
    force: bool = False
    keep_serials: bool = False
    # config
    task: str = ""


def options_of(parsed: argparse.Namespace) -> Options:
    """The options of the parsed command line."""
    # The parser stores each option under the name of its field in Selection or Options.
    selection_names = {field.name for field in fields(Selection)}
    selection: dict[str, str | None] = {}
    others: dict[str, Any] = {}
    for name, value in vars(parsed).items():
        if name in selection_names:
            selection[name] = value
        else:
            others[name] = value
    return Options(selection=Selection(**selection), **others)


def refuse_combinations(options: Options, *, writes: bool) -> None:
    """Raises UsageError for options that can't be combined. writes: whether the command may write to the Node."""
    selection = options.selection
    if writes and selection.machine is not None and selection.node_file is None:
        raise UsageError("--machine selects another machine, which has no Node to write; add --node-file")
    if selection.node_file is not None and selection.kubeconfig:
        raise UsageError("--node-file replaces the API server: leave out --kubeconfig")
