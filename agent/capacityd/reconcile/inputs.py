"""The inputs of a pass besides the Node and the memory. All plans of a pass have the same inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.model.key import Key
from capacityd.model.reading import Reading, reading_text
from capacityd.schema.config import Config


@dataclass(frozen=True, slots=True)
class Inputs:
    """The configuration, the readings, and the time of a pass."""

    config: Config = field(default_factory=Config)
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Name of each configured resource -> its reading."""
    configuration_errors: tuple[str, ...] = ()
    """The errors of the last check. `config` may be an older configuration, without these errors."""
    now: float = 0.0
    """Seconds since the epoch."""
    uptime: float = 0.0
    """Seconds since the machine booted."""
    lower_after: float = 0.0
    """Seconds by which a reduction is delayed."""
    heartbeat_after: float | None = None
    """The age in seconds at which the condition's heartbeat is refreshed; None if it is never refreshed."""

    is_withdrawal: bool = False
    """Whether the pass removes capacityd's keys and condition. Then nothing is configured."""

    @property
    def configured_keys(self) -> tuple[Key, ...]:
        """The keys of all configured resources and labels."""
        resources = [Key(name) for name in self.readings]
        return (*resources, *self.config.labels())

    @property
    def removes_unconfigured(self) -> bool:
        """Whether keys that nothing configures are removed.

        They are removed in a withdrawal, and if the configuration is complete and not empty.
        """
        if self.is_withdrawal:
            return True
        is_empty = not self.readings
        return self.config.complete and not is_empty

    @property
    def digest(self) -> str:
        """A hash of the configuration, its errors, and the readings without their details."""
        readings = {name: reading_text(reading) for name, reading in self.readings.items()}
        content = json.dumps([self.config.digest, self.configuration_errors, readings], sort_keys=True)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]
