"""The machines of the corpus: their parts, their recordings, and the expected readings.

machines/NAME.toml describes a machine. `python -m tests.corpus NAME` records it as machines/NAME.json.gz. The keys:
- about, memory, kernel, release;
- machine (QEMU's -machine) and hardware (QEMU's arguments);
- early and inside (shell commands to run before the recording);
- like (another machine, from which all missing keys are taken);
- [truth]: the expected answer for every need in needs.toml;
- [page]: the expected answers for docs/recipes.md. A resource without an entry is absent.
- [devices]: for a detector, every device that it must list, with values as in a configuration ("?": unknown).

Write these tables by hand from the machine's parts. Do not copy a detector's output.
"""

from __future__ import annotations

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
from capacityd.model.errors import HostError
from capacityd.model.reading import Quantity, Reading
from capacityd.schema.config import Resource
from capacityd.schema.device import DeviceDetector
from capacityd.schema.value_types import Text
from tests.support.pages import blocks
from tests.support.readings import device_detector, outcome

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
MACHINES = HERE / "machines"
RECIPES = HERE.parents[1] / "docs/recipes.md"
UNKNOWN = "?"
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Machine:
    """A recorded machine.

    qemu: the arguments of record() in emulator.py. truth: the right answer for each need: a number, "absent" or
    "unknown". page: the right answers for docs/recipes.md. devices: the keys of each device that a detector must find.
    """

    name: str
    qemu: Values
    truth: Mapping[str, int | str]
    page: Mapping[str, int | str]
    devices: Mapping[str, Sequence[Values]]

    @property
    def recording(self) -> Path:
        """The file of the machine's recording."""
        return MACHINES / f"{self.name}.json.gz"


def parsed(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    return tomllib.loads(path.read_text())


@cache
def needs() -> dict[str, str]:
    """The resources that users want to publish, each with the lines of its table, in the order of needs.toml."""
    return {name: need["toml"] for name, need in parsed(HERE / "needs.toml").items()}


@cache
def machines() -> dict[str, Machine]:
    """The machines by name."""
    return {path.stem: _machine(path) for path in sorted(MACHINES.glob("*.toml"))}


@cache
def host(name: str) -> RecordedHost:
    """The recorded machine of this name."""
    return RecordedHost(read_recording(str(machines()[name].recording)))


@cache
def resources(folder: Path) -> dict[str, Resource]:
    """All needs, loaded from one configuration. folder: where to write the configuration."""
    return _configured(folder, toml())


def toml() -> str:
    """A configuration with all needs."""
    return "\n".join(f'[resources."example.com/{name}"]\n{lines}' for name, lines in needs().items())


@cache
def resources_of_page(folder: Path) -> dict[str, Resource]:
    """The resources of docs/recipes.md, loaded from one configuration, as on one image for a fleet."""
    examples = [block.text for block in blocks(RECIPES.read_text()) if block.kind == "toml" and not block.name]
    return _configured(folder, "\n".join(examples))


def _configured(folder: Path, toml: str) -> dict[str, Resource]:
    path = folder / "needs.toml"
    path.write_text(toml)
    return {resource.name.partition("/")[2]: resource for resource in configuration(str(path)).require().resources}


def read(machine: str, resource: Resource) -> Reading:
    """The resource's reading on a machine, with the reason for each excluded device."""
    return read_resource(resource, host(machine), "corpus", explain=True)


def why(reading: Reading) -> str:
    """Each device, with its amount or with the rule that excluded it."""
    lines = [f"{outcome(reading)} {getattr(reading, 'reason', '')}"]
    if isinstance(reading, Quantity):
        lines += [f"+ {e.device}: {e.amount} {e.note}" for e in reading.contributions]
    return "\n".join([*lines, *(f"- {r.device}: {r.reason}" for r in reading.rejections)])


def unlike(machine: str, detector: str, expected: Sequence[Values]) -> list[str]:
    """The expected devices that a detector does not list, and the listed devices that are not expected."""
    known = device_detector(detector)
    keys = {key for values in expected for key in values}
    try:
        devices = [*known.find(host(machine))]
    except HostError as e:
        return [f"{detector} can't be listed: {e}"]
    unmatched = [(device.name, {key: _value(machine, known, device, key) for key in keys}) for device in devices]
    missing = []
    for values in expected:
        fitting = [
            (name, got) for name, got in unmatched if all(_fits(known, key, values[key], got[key]) for key in values)
        ]
        if fitting:
            unmatched.remove(fitting[0])
        else:
            missing.append(f"there is no {dict(values)}")
    return missing + [f"there is {name}: {values}" for name, values in unmatched]


def _value(machine: str, detector: DeviceDetector, device: Any, key: str) -> Any:
    """The value of a device's key, or the error."""
    try:
        return value_of(host(machine), detector, device, key)
    except HostError as e:
        return e


def _fits(detector: DeviceDetector, key: str, wanted: object, value: Any) -> bool:
    """Whether a value (or an error) is the wanted one, which is written as in a configuration."""
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
