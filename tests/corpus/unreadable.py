"""Makes the files of a recorded machine unreadable, one at a time. No number may become smaller.

In a mount namespace, the machine's files, folders and links are mounted over /sys, where the live host and libudev read
them. A file gives EIO because /proc/self/mem is mounted over it, or EACCES because of its mode. The kernel's answers
(routes, link modes, mounts) come from the recording.

    python -m tests.corpus.unreadable [SEED [MACHINE…]]

A seed selects one path of each sort. "every" in place of a seed selects every path that a detector reads.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from capacityd.cli.inventory.devices import DeviceEntry, DeviceListing
from capacityd.detectors.udev import find_in
from capacityd.discovery.reader import read_resource
from capacityd.host.live import LiveHost
from capacityd.host.recording.format import read_recording
from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.host import Host
from capacityd.schema.config import Resource
from capacityd.schema.device import SUBSYSTEM
from capacityd.schema.value_types import Amount, Choice, Flag, Kind
from tests.corpus.described import machines, resources, resources_of_page
from tests.support.forked import run_alone
from tests.support.listings import list_devices
from tests.support.readings import device_detector, outcome, resource
from tests.support.trees import Recording, unreadable, write_tree

MOUNTING = """mount -t tmpfs none "$1"; mkdir -p "$1/sys" "$1/run/udev" /run/udev
mount --rbind "$1/sys" /sys; mount --bind "$1/run/udev" /run/udev
exec setpriv --bounding-set=-dac_override,-dac_read_search "$PYTHON" -c "$PROGRAM" "$@"
"""
PROGRAM = "import sys; from tests.corpus.unreadable import main; main(*sys.argv[1:])"
ANSWERS = (
    *("link_modes", "link_kind", "linked_interface", "default_interfaces", "addresses"),
    *("processors", "memory", "filesystem_size", "arch", "hostname"),
)
"""Methods that ask the kernel. Here the recording answers them."""

SUBSYSTEMS = ("block", "i2c", "input", "net", "pci", "usb", "virtio")
"""The subsystems that the detector udev lists here. In the others, a machine has hundreds of devices."""

DETECTORS = [
    *(device_detector(name) for name in ("disk", "nic", "pci", "usb")),
    replace(device_detector("udev"), find=partial(find_in, subsystems=SUBSYSTEMS)),
]
"""The detectors that find devices in /sys."""

EVERY = "every"
_NAMED_LINKS = ("subsystem", "device", "driver", "physfn", "master")


class TreeHost(LiveHost):
    """The recorded machine as files. asked: the paths in /sys that a detector has read."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recorded = RecordedHost(recording)
        self.asked: set[str] = set()
        for name in ANSWERS:
            setattr(self, name, getattr(self._recorded, name))
        for name in ("listdir", "text", "resolve", "lines", "raw", "scandir"):
            setattr(self, name, partial(self._read, getattr(super(), name), getattr(self._recorded, name)))

    def _read(self, live: Callable[..., Any], recorded: Callable[..., Any], path: str, *limit: int) -> Any:
        """Reads a path in /sys from the files, and any other path from the recording."""
        if path.startswith("/sys/"):
            self.asked.add(path)
            return live(path, *limit)
        return recorded(path, *limit)

    def properties(self, device: str) -> Mapping[str, str]:
        self.asked |= {f"{device}/uevent", f"{device}/subsystem"}
        return super().properties(device)

    def property(self, device: str, *names: str) -> str | None:
        self.asked |= {f"{device}/uevent", f"{device}/subsystem"}
        return super().property(device, *names)


@dataclass(frozen=True, slots=True)
class Place:
    """A path that a detector reads. kind: "file", "folder" or "link"."""

    kind: str
    path: str

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of this kind of path. The mode of a link has no effect, and no folder can give EIO."""
        return {"file": ("EIO", "EACCES"), "folder": ("EACCES",), "link": ("dangling", "ELOOP")}[self.kind]


def places(asked: set[str]) -> set[Place]:
    """The links on the way to each path, and the file or folder at the end."""
    points = set()
    for path in asked:
        real = ""
        for part in path.strip("/").split("/"):
            real += f"/{part}"
            if os.path.islink(real):
                points.add(Place("link", real))
                real = os.path.realpath(real)
        if os.path.isdir(real):
            points.add(Place("folder", real))
        elif os.path.exists(real):
            points.add(Place("file", real))
    return points


def by_path(listing: DeviceListing) -> Mapping[str, DeviceEntry]:
    return {entry.device.path: entry for entry in listing.entries}


def lowered(before: DeviceListing, after: DeviceListing) -> Iterator[str]:
    """Yields the values that have changed, but not to unknown."""
    was, now_by_path = by_path(before), by_path(after)
    for path, entry in was.items():
        if path not in now_by_path:
            if not after.error:
                yield f"{entry.device.name} is not listed"
            continue
        now = now_by_path[path].device
        for key in {*entry.device.values, *now.values} - {*now.unread, *entry.device.unread}:
            if now.get(key) != entry.device.get(key):
                yield f"{entry.device.name}: {key} {entry.device.get(key)} -> {now.get(key)}"
    yield from (
        f"{path} is new" for path in now_by_path.keys() - was.keys() if not now_by_path[path].device.uncertain_because
    )


def _of_each_key() -> Iterator[Resource]:
    """Yields a resource for each key of each detector in DETECTORS."""
    for detector in DETECTORS:
        scope = {SUBSYSTEM: [*SUBSYSTEMS]} if detector.find_in else {}
        for key, one in detector.keys.items():
            if isinstance(one.kind, Amount):
                yield resource(detector.name, scope, measure=key)
            elif key not in scope:
                yield from (resource(detector.name, {**scope, key: value}) for value in _values(one.kind))
        yield from (resource(detector.name, {**scope, f"properties.{name}": "*"}) for name in ("ID_PATH", "DEVNAME"))


def _values(kind: Kind) -> tuple[object, ...]:
    if isinstance(kind, Flag):
        return (True, False)
    if isinstance(kind, Choice):
        return kind.words
    return ("", "*")


class Machine:
    """A machine, and its readings while every path is readable."""

    def __init__(self, name: str, folder: str) -> None:
        recording = read_recording(str(machines()[name].recording))
        write_tree({**recording, "errors": {}}, folder)
        self.host = TreeHost(recording)
        needs = {**resources(Path(folder)), **resources_of_page(Path(folder))}
        self.resources = [*needs.values(), *_of_each_key()]
        self.listings: dict[str, DeviceListing] = {}
        self.outcomes: list[int | str] = []
        self.users: dict[Place, set[str | int]] = {}
        """The detectors, and the numbers of the resources, that read a place."""
        for detector in DETECTORS:
            self.listings[detector.name] = self._traced(detector.name, partial(list_devices, self.host, detector))
        for number, one in enumerate(self.resources):
            self.outcomes.append(outcome(self._traced(number, partial(read_resource, one, self.host, "n"))))

    def _traced(self, user: str | int, ask: Callable[[], Any]) -> Any:
        """Calls a function, and notes the places that it reads. Returns its result."""
        self.host.asked.clear()
        answer = ask()
        for place in places(self.host.asked):
            self.users.setdefault(place, set()).add(user)
        return answer

    def every(self) -> list[Place]:
        """All places that a detector reads."""
        return sorted(self.users, key=lambda place: (place.path, place.kind))

    def sample(self, seed: int) -> list[Place]:
        """One place of each sort. Places of a sort have the same name, and the same detectors read them."""
        sorts: dict[tuple[object, ...], list[Place]] = {}
        for place in self.every():
            parent, _, name = place.path.rpartition("/")
            detectors = frozenset(user for user in self.users[place] if isinstance(user, str))
            if place.kind != "file" and (name not in _NAMED_LINKS or detectors == {"udev"}):
                name = "udev" if detectors == {"udev"} else parent
            sorts.setdefault((place.kind, name, detectors), []).append(place)
        chosen = random.Random(seed)
        chosen_places = [chosen.choice(same) for same in sorts.values()]
        chosen.shuffle(chosen_places)
        return chosen_places

    def wrong(self, place: Place, fault: str) -> list[str]:
        """The values that are wrong while this place is unreadable, or that differ on a recording made meanwhile."""
        with unreadable(place.path, fault):
            users = set().union(
                *(users for p, users in self.users.items() if f"{p.path}/".startswith(f"{place.path}/"))
            )
            numbers = sorted(user for user in users if isinstance(user, int))
            detectors = [detector for detector in DETECTORS if detector.name in users]
            now = {detector.name: list_devices(self.host, detector) for detector in detectors}
            outcomes = {number: outcome(read_resource(self.resources[number], self.host, "n")) for number in numbers}
            errors = [text for d in detectors for text in _wrong_listing(self.listings[d.name], now[d.name], place)]
            for number, came in outcomes.items():
                if came not in (self.outcomes[number], "unknown"):
                    errors.append(f"{_named(self.resources[number])}: {self.outcomes[number]} -> {came}")
            for detector in detectors:
                errors += _disagreements(self.host, now[detector.name])
            again = RecordedHost(json.loads(json.dumps(Recorder(self.host).run())))
        for detector in detectors:
            errors += [f"recorded: {text}" for text in _unlike(now[detector.name], list_devices(again, detector))]
        for number, came in outcomes.items():
            replayed = outcome(read_resource(self.resources[number], again, "n"))
            if replayed != came:
                errors.append(f"recorded: {_named(self.resources[number])}: {came} -> {replayed}")
        return errors


def _named(one: Resource) -> str:
    tests = " or ".join(", ".join(f"{test.key} {test.text}" for test in table.tests) for table in one.tables)
    return f"{one.detector} {one.measure or 'count'} of {tests or 'all'}"


def _wrong_listing(before: DeviceListing, after: DeviceListing, place: Place) -> Iterator[str]:
    name = after.detector.name
    if after.error and place.kind != "folder":
        yield f"devices {name}: nothing listed: {after.error}"
    yield from (f"devices {name}: {text}" for text in lowered(before, after))


def _disagreements(host: Host, listing: DeviceListing) -> Iterator[str]:
    """Yields the tables for which `devices` and `probe` print different counts."""
    detector = listing.detector
    kinds = {entry.kind_selector.toml: entry.kind_selector for entry in listing.entries if entry.kind_selector.toml}
    for kind in kinds.values():
        if detector.find_in and not isinstance(kind.table.get(SUBSYSTEM), str):
            continue
        came = outcome(read_resource(resource(detector.name, kind.table), host, "n"))
        missing_others = listing.error and kind.count is None  # they may belong to a subsystem that probe does not read
        if not missing_others and came != ("unknown" if kind.count is None else kind.count or "absent"):
            yield f"{kind.toml}: devices says {kind.count}, probe {came}"


def _unlike(live: DeviceListing, recorded: DeviceListing) -> Iterator[str]:
    if bool(live.error) != bool(recorded.error):
        yield f"{live.error or 'listed'} -> {recorded.error or 'listed'}"
    was, now = _known(live), _known(recorded)
    yield from (f"{path}: {was.get(path)} -> {now.get(path)}" for path in was | now if was.get(path) != now.get(path))


def _known(listing: DeviceListing) -> dict[str, tuple[Mapping[str, Any], set[str]]]:
    """The path of a device -> its values, and its keys with unknown values."""
    return {entry.device.path: (entry.device.values, {*entry.device.unread}) for entry in listing.entries}


def main(folder: str, name: str, seed: str, most: str) -> None:
    """Prints the number of trees and the wrong values.

    seed: a seed for sample(), or "every". most: the number of places to try, or 0 for all.
    """
    machine = Machine(name, folder)
    chosen = machine.every() if seed == EVERY else machine.sample(int(seed))
    wrong, trees = [], 0
    for place in chosen[: int(most) or None]:
        for fault in place.faults:
            trees += 1
            wrong += [[place.path, fault, text] for text in machine.wrong(place, fault)]
    print(json.dumps([trees, wrong]))


def run(name: str, folder: str, seed: int | str, most: int = 0) -> tuple[int, list[tuple[str, str, str]]]:
    """The number of trees of a machine, and (path, fault, text) of each wrong value."""
    trees, wrong = json.loads(run_alone(MOUNTING, PROGRAM, folder, name, str(seed), str(most)))
    return trees, [tuple(one) for one in wrong]


def of_all(seed: int | str, names: Sequence[str]) -> bool:
    """Prints the wrong values of these machines. Returns whether there are none."""
    failed = False
    for name in names:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            trees, wrong = run(name, folder, seed)
        number = len({(path, fault) for path, fault, _ in wrong})
        print(f"{name}: {trees} trees, {number} wrong, {time.monotonic() - began:.0f} s, seed {seed}", flush=True)
        for path, fault, text in wrong:
            print(f"  {path} {fault}: {text}")
        failed = failed or bool(wrong)
    return not failed


if __name__ == "__main__":
    seed, *chosen = sys.argv[1:] or [str(random.randrange(10**6))]
    sys.exit(not of_all(seed if seed == EVERY else int(seed), chosen or sorted(machines())))
