"""The configuration of a command, and messages for its user."""

from __future__ import annotations

import sys

from capacityd.config import load
from capacityd.model.config import Config
from capacityd.model.options import Selection


def config_of(selection: Selection) -> Config:
    """The configuration. Raises ConfigError with all errors if there are any."""
    loaded = load(selection.config)
    config = loaded.require()
    if not config.resources:
        warn(nothing_configured(selection))
        for problem in loaded.warnings:  # a file in the wrong place may be the reason
            warn(problem.unlocated())
    return config


def nothing_configured(selection: Selection) -> str:
    """The message for a configuration without resources."""
    path = selection.config or "/etc/capacityd"
    return f'no resource is configured in {path}; "capacityd devices --toml" prints a configuration to start with'


def warn(message: str) -> None:
    """Prints a message for the user on standard error; the result goes to standard output."""
    print(f"capacityd: {message}", file=sys.stderr)
