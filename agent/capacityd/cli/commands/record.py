"""record: this machine's hardware as a file that --machine takes on any machine."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import sys
import threading
import time

from capacityd.cli.output.terminal import print_json
from capacityd.detectors import load, names
from capacityd.host.recording.format import Recording, read_recording
from capacityd.host.recording.privacy import without_identifiers
from capacityd.host.recording.recorder import Recorder, RecorderStoppedError
from capacityd.host.recording.replay import RecordedHost
from capacityd.host.recording.source import LiveSource, RecordedSource, Source
from capacityd.linux.atomic_file import replace_file
from capacityd.model.device import Device, DeviceDetector
from capacityd.model.errors import CapacitydError, HostError, UsageError
from capacityd.model.host import Host, machine_id
from capacityd.worker.context import warn

_READ_TIMEOUT = 5.0  # seconds for one path: nothing of the kernel's takes that long unless hardware hangs
_MAX_PATHS = 5  # in a message


def record(options: argparse.Namespace) -> int:
    """Writes the recording. Raises UsageError if the file exists."""
    if not options.force and os.path.isfile(options.file):
        raise UsageError(f"{options.file} exists; give another name, or --force to replace it")
    before = None if options.machine is None else read_recording(options.machine)
    source: Source = LiveSource() if before is None else RecordedSource(before)
    found, unreadable = _recorded(source)
    found["hardware_names"] = _hardware_names(source, found)
    if before is not None and before.get("redacted"):
        found["redacted"] = True
    elif not options.keep_serials:
        found = without_identifiers(found, [machine_id(source)])
    size = _write(options.file, found)
    for error, paths in sorted(unreadable.items()) if before is None else ():
        hint = "; root may read them" if error == "EACCES" and os.geteuid() != 0 else ""
        more = f" and {len(paths) - _MAX_PATHS} more" if len(paths) > _MAX_PATHS else ""
        warn(f"could not be read ({error}{hint}): {', '.join(paths[:_MAX_PATHS])}{more}")
    if options.file != "-":
        _report(options, found, size, unreadable)
    return 0


def _report(options: argparse.Namespace, found: Recording, size: int, unreadable: dict[str, list[str]]) -> None:
    redacted = "redacted" in found
    devices = {folder: names for folder, names in found["left_out"].items() if folder.startswith("/sys/devices/")}
    left_out = sum(not name.endswith("/") for names in devices.values() for name in names)
    if options.json:
        report = {"file": options.file, "bytes": size, "redacted": redacted, "left_out": left_out}
        print_json(report | {"unreadable": unreadable})
        return
    kept = "" if redacted else "; serial numbers, addresses and names are in it as they are"
    warn(f"{options.file}: {len(found['files'])} files of {len(found['properties'])} devices, {size} bytes{kept}")
    if left_out:
        warn(f"{left_out} files are left out because they are not on the list of attributes to record")


def _hardware_names(source: Source, found: Recording) -> dict[str, dict[str, str]]:
    """What the hardware database says of the devices; the machine of the replay may have another, or none."""
    machine, modaliases = RecordedHost(found), set[str | None]()
    for detector in map(load, names()):
        if isinstance(detector, DeviceDetector) and detector.modalias is not None:
            with contextlib.suppress(HostError):  # a recording without a sysfs
                modaliases |= {_modalias(machine, detector, device) for device in detector.find(machine)}
    return {asked: dict(known) for asked in sorted(filter(None, modaliases)) if (known := source.hardware_names(asked))}


def _modalias(machine: Host, detector: DeviceDetector, device: Device) -> str | None:
    try:
        return detector.modalias(machine, device) if detector.modalias else None
    except HostError:
        return None


def _recorded(source: Source) -> tuple[Recording, dict[str, list[str]]]:
    """The recording, and the paths that could not be read, by error. A path that does not answer is left out."""
    skip: set[str] = set()
    while True:
        recorder, done = Recorder(source, skip), list[Recording]()

        def run(recorder: Recorder = recorder, done: list[Recording] = done) -> None:
            with contextlib.suppress(RecorderStoppedError):
                done.append(recorder.run())

        # A thread, because nothing interrupts a read that hangs in the kernel.
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        hanging = _watch(thread, recorder)
        if hanging is None:
            if not done:
                raise CapacitydError("the recording failed")
            return done[0], recorder.unreadable
        warn(f"{hanging} does not answer; it is left out")
        recorder.stopped = True
        skip.add(hanging)


def _watch(thread: threading.Thread, recorder: Recorder) -> str | None:
    """Waits for the end. Returns the path at which it hangs, if it does."""
    at, since = "", time.monotonic()
    while thread.is_alive():
        thread.join(0.1)
        if recorder.at != at:
            at, since = recorder.at, time.monotonic()
        elif thread.is_alive() and time.monotonic() - since > _READ_TIMEOUT:
            return at
    return None


def _write(path: str, recording: Recording) -> int:
    """Writes all of it or nothing, sorted, compressed if the name ends with .gz. Returns how many bytes."""
    text = json.dumps(recording, indent=1, sort_keys=True) + "\n"
    content = gzip.compress(text.encode("ascii"), mtime=0) if path.endswith(".gz") else text.encode("ascii")
    if path == "-":
        sys.stdout.write(text)
        return len(content)
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout, a pipe
            with open(path, "wb") as out:
                out.write(content)
        else:
            mask = os.umask(0)
            os.umask(mask)
            replace_file(path, content, 0o666 & ~mask)
    except OSError as e:
        raise UsageError(f"{path}: could not be written: {os.strerror(e.errno or 0)}") from e
    return len(content)
