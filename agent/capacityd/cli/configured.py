"""Loads the configuration for a command."""

from __future__ import annotations

from capacityd.cli.output.terminal import print_message
from capacityd.config import load
from capacityd.model.options import Selection
from capacityd.schema.config import Config


def config_of(selection: Selection) -> Config:
    """Loads the configuration, and tells the user if it has no resources. Raises ConfigError with all errors."""
    config = load(selection.config).require()
    if not config.resources:
        print_message(nothing_configured(selection))
    return config


def nothing_configured(selection: Selection) -> str:
    """The message for a configuration without resources."""
    path = selection.config or "/etc/capacityd"
    return f'no resource is configured in {path}; "capacityd devices --toml" prints a configuration to start with'
