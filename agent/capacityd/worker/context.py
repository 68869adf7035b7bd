"""The machine and the configuration that a command's options select."""

from __future__ import annotations

import argparse
import sys

from capacityd.config import load
from capacityd.host.live import LiveHost
from capacityd.model.config import Config
from capacityd.model.host import Host


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


def nothing_configured(options: argparse.Namespace) -> str:
    """The message for a configuration without resources."""
    path = options.config or "/etc/capacityd"
    return f'no resource is configured in {path}; "capacityd devices --toml" prints a configuration to start with'


def node_name_of(options: argparse.Namespace, config: Config, host: Host) -> str:
    """The Node's name, as far as it is known without a request to the API server."""
    return str(options.node_name or config.settings.node_name or host.hostname().lower())


def warn(message: str) -> None:
    """Prints a message for the user on standard error; the result goes to standard output."""
    print(f"capacityd: {message}", file=sys.stderr)
