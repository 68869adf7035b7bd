"""The machine, the configuration and the Node that a command's options select."""

from __future__ import annotations

import argparse
import sys

from capacityd.config import load
from capacityd.host.live import LiveHost
from capacityd.model.config import Config
from capacityd.model.errors import UsageError
from capacityd.model.host import Host, machine_id, system_uuid
from capacityd.model.node import Node
from capacityd.node import ReviewCache, open_node, open_node_file
from capacityd.worker import runtime_files


def host_of(options: argparse.Namespace) -> Host:
    """The machine to read: this one or a recording. Raises UsageError if the file is not a recording."""
    if options.machine is not None:
        from capacityd.host.recording.replay import load as load_recording  # 10 ms, for this option only

        return load_recording(options.machine)
    return LiveHost()


def config_of(options: argparse.Namespace) -> Config:
    """The configuration. Raises ConfigError with all errors if there are any."""
    config = load(options.config).require()
    if not config.resources:
        warn(nothing_configured(options))
    return config


def active_config(options: argparse.Namespace) -> tuple[Config, tuple[str, ...]]:
    """The configuration that the service's workers use, and the errors of the last check."""
    if saved := runtime_files.read_config(options.folder):
        return saved.restored(), saved.errors
    loaded = load(options.config)  # at boot, there was no room to save the configuration: read the files again
    return loaded.config, tuple(problem.public() for problem in loaded.problems)


def nothing_configured(options: argparse.Namespace) -> str:
    """The message for a configuration without resources."""
    path = options.config or "/etc/capacityd"
    return f'no resource is configured in {path}; "capacityd devices --toml" prints a configuration to start with'


def node_name_of(options: argparse.Namespace, config: Config, host: Host) -> str:
    """The Node's name, as far as it is known without a request to the API server."""
    return str(options.node_name or config.settings.node_name or host.hostname().lower())


def node_of(
    options: argparse.Namespace,
    config: Config,
    host: Host,
    *,
    reads_only: bool,
    cache: ReviewCache | None = None,
) -> Node:
    """The Node, in a file or on the API server. cache: an earlier Node's review.

    Raises UsageError for options that can't be combined, and NodeError.
    """
    refuse_combinations(options, reads_only=reads_only)
    if options.node_file is not None:
        return open_node_file(options.node_file)
    own_id = None if options.machine is not None else machine_id(host)
    return open_node(
        kubeconfig=options.kubeconfig or config.settings.kubeconfig,
        node_name=options.node_name or config.settings.node_name,
        hostname=host.hostname(),
        machine_id=own_id,
        system_uuid=system_uuid(host) if own_id else "",
        cache=cache,
    )


def refuse_combinations(options: argparse.Namespace, *, reads_only: bool) -> None:
    """Raises UsageError for options that can't be combined. reads_only: whether the command never writes to a Node."""
    if options.machine is not None and options.node_file is None and not reads_only:
        dry = ", or --dry-run" if options.command == "apply" else ""
        raise UsageError(f"--machine selects another machine, which has no Node to write; add --node-file{dry}")
    if options.node_file is not None and (options.kubeconfig or options.node_name):
        raise UsageError("--node-file replaces the API server: leave out --kubeconfig and --node-name")


def warn(message: str) -> None:
    """Prints a message for the user on standard error; the result goes to standard output."""
    print(f"capacityd: {message}", file=sys.stderr)
