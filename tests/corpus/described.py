"""The corpus as values: machines, what each is made of, its recording, and the truth about it.

A machine is machines/NAME.toml: about, machine (QEMU's -machine), hardware (QEMU's arguments), early and inside (what
is done in it before it is recorded), memory, kernel, release; like: another machine, from which all else is taken;
[truth]: for every need of needs.toml the right answer; [page]: for the needs of docs/recipes.md, of which a machine has
none unless it says so; [devices]: detector -> every device that it must list (none without an entry), each with
its values, as a configuration would match it ("?" for what can't be known). All that is written by hand from how
the machine is put together, never from a detector's output. The recording is machines/NAME.json.gz, made by
python -m tests.corpus NAME.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from capacityd.config import load as configuration
from capacityd.discovery.reader import read_resource, value_of
from capacityd.host.recording.format import read_recording
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.config import Resource
from capacityd.model.device import DeviceDetector
from capacityd.model.errors import HostError
from capacityd.model.reading import Quantity, Reading
from capacityd.model.value_types import Text
from tests.support.readings import device_detector, outcome

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
MACHINES = HERE / "machines"
NEEDS = HERE.parents[1] / "docs/recipes.md"
UNKNOWN = "?"
NOT_RECORDED = {"seats": "unknown"}
"""The needs of docs/recipes.md that no recording can answer: it has nothing of /run."""

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Need:
    """A resource that a user wants to publish. toml: the body of the resource."""

    name: str
    toml: str


@dataclass(frozen=True, slots=True)
class Machine:
    """qemu: what record() of emulator.py takes. truth, page: need -> number, "absent" or "unknown"."""

    name: str
    qemu: Values
    truth: Mapping[str, int | str]
    page: Mapping[str, int | str]
    devices: Mapping[str, Sequence[Values]]

    @property
    def recording(self) -> Path:
        """The file of its recording."""
        return MACHINES / f"{self.name}.json.gz"


def parsed(path: Path) -> dict[str, Any]:
    """A file of TOML."""
    return tomllib.loads(path.read_text())


@cache
def needs() -> tuple[Need, ...]:
    """In the order of the file."""
    parsed_text = parsed(HERE / "needs.toml")
    return tuple(Need(name, need["toml"]) for name, need in parsed_text.items())


@cache
def machines() -> dict[str, Machine]:
    """By name."""
    return {path.stem: _machine(path) for path in sorted(MACHINES.glob("*.toml"))}


@cache
def host(name: str) -> RecordedHost:
    """The recorded machine of this name."""
    return RecordedHost(read_recording(str(machines()[name].recording)))


@cache
def resources(folder: Path) -> dict[str, Resource]:
    """The needs, all in one configuration. folder: where its file is written."""
    return _configured(folder, toml())


def toml() -> str:
    """The needs, all in one configuration."""
    return "\n".join(f'[resources."example.com/{need.name}"]\n{need.toml}' for need in needs())


@cache
def resources_of_page(folder: Path) -> dict[str, Resource]:
    """Those that the page of everyday needs shows, in one configuration as in one image."""
    return _configured(folder, "\n".join(re.findall(r"^```toml\n(.*?)^```$", NEEDS.read_text(), re.M | re.S)))


def _configured(folder: Path, toml: str) -> dict[str, Resource]:
    path = folder / "needs.toml"
    path.write_text(toml)
    return {resource.name.partition("/")[2]: resource for resource in configuration(str(path)).require().resources}


def read(machine: str, resource: Resource) -> Reading:
    """The resource's reading on a machine, with every reason."""
    return read_resource(resource, host(machine), "corpus", explain=True)


def why(reading: Reading) -> str:
    """Each device and the rule by which it counted or not."""
    lines = [f"{outcome(reading)} {getattr(reading, 'reason', '')}"]
    if isinstance(reading, Quantity):
        lines += [f"+ {e.device}: {e.amount} {e.note}" for e in reading.contributions]
    return "\n".join([*lines, *(f"- {r.device}: {r.reason}" for r in reading.rejections)])


def unlike(machine: str, detector: str, expected: Sequence[Values]) -> list[str]:
    """What a detector lists otherwise than expected: devices that are missing, and those that are too many."""
    known = device_detector(detector)
    keys = {key for values in expected for key in values}
    try:
        devices = [*known.find(host(machine))]
    except HostError as e:
        return [f"{detector} can't be listed: {e}"]
    left = [(device.name, {key: _value(machine, known, device, key) for key in keys}) for device in devices]
    missing = []
    for values in expected:
        fitting = next(
            (devices for devices in left if all(_fits(known, k, v, devices[1][k]) for k, v in values.items())), None
        )
        if fitting is None:
            missing.append(f"there is no {dict(values)}")
        else:
            left.remove(fitting)
    return missing + [f"there is {name}: {values}" for name, values in left]


def _value(machine: str, detector: DeviceDetector, device: Any, key: str) -> Any:
    try:
        return value_of(host(machine), detector, device, key)
    except HostError as e:
        return e


def _fits(detector: DeviceDetector, key: str, wanted: object, value: Any) -> bool:
    if wanted == UNKNOWN or isinstance(value, HostError):
        return wanted == UNKNOWN and isinstance(value, HostError)
    kind = detector.keys[key].kind if key in detector.keys else Text()
    return any(pattern.matches(value) for pattern in kind.parse(wanted)) or (wanted == "" and value is None)


def _machine(path: Path) -> Machine:
    tables_in_file = parsed(path)
    if "like" in tables_in_file:
        like = parsed(path.with_name(f"{tables_in_file.pop('like')}.toml"))
        tables = {name: {**like.get(name, {}), **tables_in_file.get(name, {})} for name in ("truth", "page", "devices")}
        tables_in_file = {**like, **tables_in_file, **tables}
    qemu = {key: value for key, value in tables_in_file.items() if key not in ("about", "truth", "page", "devices")}
    stated = (tables_in_file.get(name, {}) for name in ("truth", "page", "devices"))
    return Machine(path.stem, qemu, *stated)
