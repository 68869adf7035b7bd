"""A model of a machine: its clocks, readings and files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.schema.config import Config, Resource, Settings
from tests.support.judge.surroundings import Configuration, ConfiguredResource
from tests.support.model.server import OURS

EPOCH = 1_700_000_000.5  # any time
BOOT_LASTS = 30.0  # seconds from the end of a machine's work until it has booted again
FIRST_UPTIME = 10.0  # the uptime after a reboot


class Killed(BaseException):
    """Simulates SIGKILL. It is not an Exception, so that no handler in the worker catches it."""


@dataclass
class Machine:
    """A machine. Times are seconds of uptime unless a name says otherwise."""

    folder: Path
    config: Config
    readings: dict[str, Reading] = field(default_factory=dict)
    """The readings by resource. A configured resource without a reading is absent."""
    uptime: float = 20.0
    booted: float = EPOCH
    """When the machine booted: seconds since the epoch, by the machine's clock."""
    steady_at_boot: float = 0.0
    """The judge's clock at the boot, in seconds."""
    suspended: float = 0.0
    """How long the machine has been suspended since its boot, in seconds."""
    device_plugins: set[str] = field(default_factory=set)
    plugins_readable: bool = True
    kill_at: int | None = None
    """The kill point at which the next worker is killed. There is one before and after each request and file."""
    expires_at: dict[str, float] = field(default_factory=dict)
    """When the source of a reading becomes too old, by resource. No event reports it."""

    def __post_init__(self) -> None:
        self.points = 0
        """How many kill points the current worker has passed."""
        self.run_folder = self.folder / "run"
        self.run_folder.mkdir(parents=True)

    @property
    def steady(self) -> float:
        """The judge's clock, in seconds."""
        return self.steady_at_boot + self.uptime

    @property
    def now(self) -> float:
        """Seconds since the epoch, by the machine's clock."""
        return self.booted + self.uptime

    @property
    def plugins(self) -> frozenset[str] | None:
        """The names in the kubelet's list of device plugins. None: the list can't be read."""
        return frozenset(self.device_plugins) if self.plugins_readable else None

    def probe(self) -> dict[str, Reading]:
        """The readings of all configured resources."""
        readings: dict[str, Reading] = {name: Unknown("broken") for name in self.config.broken}
        return readings | {resource.name: self._read(resource.name) for resource in self.config.resources}

    def _read(self, name: str) -> Reading:
        reading, expires_at = self.readings.get(name, Absent("none")), self.expires_at.get(name)
        if expires_at is None or not isinstance(reading, Quantity):
            return reading
        if expires_at <= self.uptime:
            return Unknown("too old")
        return replace(reading, valid_for=expires_at - self.uptime)

    def set_reading(self, name: str, reading: Reading, valid_for: float | None = None) -> None:
        """Changes a reading. valid_for: seconds until its source is too old. None: there is no limit."""
        self.readings[name] = reading
        self.expires_at.pop(name, None)
        if valid_for is not None:
            self.expires_at[name] = self.uptime + valid_for

    def reboot(self) -> None:
        """The machine reboots. /run is empty then."""
        self.expires_at = {name: at - self.uptime - BOOT_LASTS for name, at in self.expires_at.items()}
        self.booted += self.uptime + BOOT_LASTS
        self.steady_at_boot += self.uptime + BOOT_LASTS
        self.uptime, self.suspended = FIRST_UPTIME, 0.0
        shutil.rmtree(self.run_folder)
        self.run_folder.mkdir()

    def pass_kill_point(self) -> None:
        """A worker reaches a kill point. Raises Killed if it is to be killed here."""
        if self.points == self.kill_at:
            raise Killed
        self.points += 1


def configuration(
    names: frozenset[str] = frozenset(OURS[:2]),
    adopt: frozenset[str] = frozenset(),
    broken: frozenset[str] = frozenset(),
    labelled: frozenset[str] = frozenset(),
    settings: Settings | None = None,
    complete: bool = True,
) -> Config:
    """A configuration of these resources. The broken ones have an error, so only their names are known."""
    return Config(
        resources=tuple(
            Resource(name, "static", (), adopt=name in adopt, label=name in labelled) for name in sorted(names - broken)
        ),
        settings=settings or Settings(),
        broken=dict.fromkeys(sorted(names & broken), "an error"),
        complete=complete,
    )


def for_judge(config: Config) -> Configuration:
    """The configuration in the judge's form."""
    settings = config.settings
    return Configuration(
        {resource.name: ConfiguredResource(resource.adopt, resource.label) for resource in config.resources},
        broken=frozenset(config.broken),
        complete=config.complete,
        observe=settings.observe,
        condition=settings.condition,
        lower_after=settings.lower_after,
        lower_after_boot=settings.lower_after_boot,
        resync=settings.resync,
    )
