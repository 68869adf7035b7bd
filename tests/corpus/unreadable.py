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

from capacityd.cli.inventory.found import FoundDevices, find
from capacityd.detectors.udev import find_in_subsystems
from capacityd.discovery.reader import read_resource
from capacityd.host.live import LiveHost
from capacityd.host.recording.format import read_recording
from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.host import Host
from capacityd.schema.config import Resource
from tests.corpus.described import machines, resources, resources_of_page
from tests.support.forked import run_alone
from tests.support.readings import device_detector, outcome
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
    replace(device_detector("udev"), find=partial(find_in_subsystems, subsystems=SUBSYSTEMS)),
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


Answer = FoundDevices | int | str
"""The devices of a detector, or the outcome of a resource."""


def questions(host: Host, needs: Sequence[Resource]) -> dict[str, Callable[[], Answer]]:
    """What a machine is asked: the devices of each detector, and the outcome of each resource."""
    asked: dict[str, Callable[[], Answer]] = {}
    for detector in DETECTORS:
        asked[detector.name] = partial(find, host, detector)
    for need in needs:
        asked[need.name] = partial(_outcome, host, need)
    return asked


def _outcome(host: Host, need: Resource) -> int | str:
    return outcome(read_resource(need, host, "node"))


def lowered(before: Answer, now: Answer) -> Iterator[str]:
    """Yields how an answer has changed, but not to unknown."""
    if not isinstance(before, FoundDevices) or not isinstance(now, FoundDevices):
        if now not in (before, "unknown"):
            yield f"{before} -> {now}"
        return
    old, new = ({device.path: device for device in found.devices} for found in (before, now))
    for path, device in old.items():
        if path in new:
            readable = {*device.values, *new[path].values} - {*device.unread, *new[path].unread}
            for key in readable:
                if new[path].get(key) != device.get(key):
                    yield f"{device.name}: {key} {device.get(key)} -> {new[path].get(key)}"
        elif not now.error:
            yield f"{device.name} is not listed"
    for path in new.keys() - old.keys():
        if not new[path].uncertain_because:
            yield f"{path} is new"


def known(answer: Answer) -> object:
    """What an answer says. Reasons are left out, because they differ between a machine and its recording."""
    if not isinstance(answer, FoundDevices):
        return answer
    return bool(answer.error), [(device.path, device.values, {*device.unread}) for device in answer.devices]


class Machine:
    """A machine, and its answers while every path is readable."""

    def __init__(self, name: str, folder: str) -> None:
        recording = read_recording(str(machines()[name].recording))
        write_tree({**recording, "errors": {}}, folder)
        self.host = TreeHost(recording)
        self.needs = [*{**resources(Path(folder)), **resources_of_page(Path(folder))}.values()]
        self.answers: dict[str, Answer] = {}
        self.readers: dict[Place, set[str]] = {}
        """A place -> the questions whose answers need the place."""
        for question, ask in questions(self.host, self.needs).items():
            self.host.asked.clear()
            self.answers[question] = ask()
            for place in places(self.host.asked):
                self.readers.setdefault(place, set()).add(question)

    def all_places(self) -> list[Place]:
        """All places that a detector reads."""
        return sorted(self.readers, key=lambda place: (place.path, place.kind))

    def sample(self, seed: int) -> list[Place]:
        """One place of each sort. Places of a sort have the same name, and the same detectors read them."""
        names = {detector.name for detector in DETECTORS}
        sorts: dict[tuple[object, ...], list[Place]] = {}
        for place in self.all_places():
            parent, _, name = place.path.rpartition("/")
            detectors = frozenset(names & self.readers[place])
            if place.kind != "file" and (name not in _NAMED_LINKS or detectors == {"udev"}):
                name = "udev" if detectors == {"udev"} else parent
            sorts.setdefault((place.kind, name, detectors), []).append(place)
        generator = random.Random(seed)
        chosen_places = [generator.choice(same) for same in sorts.values()]
        generator.shuffle(chosen_places)
        return chosen_places

    def wrong(self, place: Place, fault: str) -> list[str]:
        """The answers that are wrong while this place is unreadable, or that differ on a recording made meanwhile."""
        concerned: set[str] = set()
        for other, readers in self.readers.items():
            if f"{other.path}/".startswith(f"{place.path}/"):
                concerned |= readers
        with unreadable(place.path, fault):
            asked = questions(self.host, self.needs)
            now = {question: asked[question]() for question in sorted(concerned)}
            recording = Recorder(self.host).run()
        replayed = questions(RecordedHost(json.loads(json.dumps(recording))), self.needs)
        errors = []
        for question, answer in now.items():
            if isinstance(answer, FoundDevices) and answer.error and place.kind != "folder":
                errors.append(f"{question}: nothing listed: {answer.error}")
            errors += [f"{question}: {text}" for text in lowered(self.answers[question], answer)]
            again = replayed[question]()
            if known(again) != known(answer):
                errors.append(f"{question}: recorded: {known(answer)} -> {known(again)}")
        return errors


def main(folder: str, name: str, seed: str, limit: str) -> None:
    """Prints the number of faults that were tried, and the wrong answers.

    seed: a seed for sample(), or "every". limit: the number of places to try, or 0 for all.
    """
    machine = Machine(name, folder)
    chosen = machine.all_places() if seed == EVERY else machine.sample(int(seed))
    wrong, tried = [], 0
    for place in chosen[: int(limit) or None]:
        for fault in place.faults:
            tried += 1
            wrong += [[place.path, fault, text] for text in machine.wrong(place, fault)]
    print(json.dumps([tried, wrong]))


def run(name: str, folder: str, seed: int | str, limit: int = 0) -> tuple[int, list[tuple[str, str, str]]]:
    """The number of faults that were tried on a machine, and (path, fault, text) of each wrong value."""
    tried, wrong = json.loads(run_alone(MOUNTING, PROGRAM, folder, name, str(seed), str(limit)))
    return tried, [tuple(one) for one in wrong]


def run_all(seed: int | str, names: Sequence[str]) -> bool:
    """Prints the wrong values of these machines. Returns whether there are none."""
    failed = False
    for name in names:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            tried, wrong = run(name, folder, seed)
        number = len({(path, fault) for path, fault, _ in wrong})
        print(f"{name}: {tried} faults, {number} wrong, {time.monotonic() - began:.0f} s, seed {seed}", flush=True)
        for path, fault, text in wrong:
            print(f"  {path} {fault}: {text}")
        failed = failed or bool(wrong)
    return not failed


if __name__ == "__main__":
    seed, *chosen = sys.argv[1:] or [str(random.randrange(10**6))]
    sys.exit(not run_all(seed if seed == EVERY else int(seed), chosen or sorted(machines())))
