"""What came of reading the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from capacityd.config.problems import Problem
from capacityd.errors import ConfigError
from capacityd.model import Config


@dataclass(frozen=True, slots=True)
class Loaded:
    """config: everything good, which is what a service goes on with. files: those that were read, in order.

    values: what config was made of, table -> key -> as TOML has it; origins: table.key -> file, both without mistakes.
    """

    config: Config
    problems: tuple[Problem, ...]
    files: tuple[str, ...]
    values: Mapping[str, Mapping[str, Any]]
    origins: Mapping[str, str]

    def require(self) -> Config:
        """The configuration, which must be without a mistake. Raises ConfigError with a line for each."""
        if self.problems:
            raise ConfigError("\n".join(map(str, self.problems)))
        return self.config
