"""record: this machine's hardware as a file that --machine takes on any machine."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from capacityd.cli.context import warn
from capacityd.cli.terminal import progress
from capacityd.cli.text import as_json
from capacityd.errors import CapacitydError, HostError, UsageError

if TYPE_CHECKING:
    from capacityd.host import Host
    from capacityd.host.recording import Recording, Walk
    from capacityd.host.source import Source
    from capacityd.model import Device, DeviceDetector

_PATIENCE = 5.0  # seconds for one file: nothing of the kernel's takes that long unless the hardware hangs
_SHOWN = 5  # paths that a message names


def record(options: argparse.Namespace) -> int:
    """Writes the recording. Raises UsageError if the file is there already."""
    from capacityd.host import machine_id
    from capacityd.host.recorded import recording_in
    from capacityd.host.redaction import redact
    from capacityd.host.source import LiveSource, RecordedSource

    if not options.force and os.path.isfile(options.file):
        raise UsageError(f"{options.file} is there already; give another name, or --force to replace it")
    source: Source = LiveSource() if options.machine is None else RecordedSource(recording_in(options.machine))
    found, missing = _walked(source)
    found["hardware_names"] = _hardware_names(source, found)
    if source.redacted:
        found["redacted"] = True
    elif not options.keep_serials:
        found, notes = redact(found, [machine_id(source)])
        for note in notes:
            warn(note)
    size = _write(options.file, found, options.force)
    for why, paths in sorted(missing.items()):
        if options.machine is not None:
            break
        hint = "; root may read them" if why == "EACCES" and os.geteuid() != 0 else ""
        more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        warn(f"could not be read ({why}{hint}): {', '.join(paths[:_SHOWN])}{more}")
    if options.json and options.file != "-":
        print(as_json({"file": options.file, "bytes": size, "redacted": "redacted" in found, "unreadable": missing}))
    elif options.file != "-":
        kept = "" if "redacted" in found else "; serial numbers, addresses and names are in it as they are"
        warn(f"{options.file}: {len(found['files'])} files of {len(found['properties'])} devices, {size} bytes{kept}")
    return 0


def _hardware_names(source: Source, found: Recording) -> dict[str, dict[str, str]]:
    """What the hardware database says of the devices; the machine of the replay may have another, or none."""
    from capacityd.detectors import load, names
    from capacityd.host.recorded import RecordedHost
    from capacityd.model import DeviceDetector

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


def _walked(source: Source) -> tuple[Recording, dict[str, list[str]]]:
    """The recording, and what could not be read. A path that does not answer is left behind, with its thread."""
    from capacityd.host.recording import Stopped, Walk

    walk = Walk(source)
    while True:
        done: list[Recording] = []

        def run(walk: Walk = walk, done: list[Recording] = done) -> None:
            with contextlib.suppress(Stopped):
                done.append(walk.run())

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        stuck = _watch(thread, walk)
        if stuck is None:
            if not done:
                raise CapacitydError("the recording failed")
            return done[0], walk.unread
        warn(f"{stuck} does not answer; it is left out")
        walk.stopped = True
        walk = Walk(source, walk, [stuck])


def _watch(thread: threading.Thread, walk: Walk) -> str | None:
    """Waits for the end, and shows how far it is. Returns the path at which it hangs, if it does."""
    at, since = "", time.monotonic()
    with progress("recording this machine") as show:
        while thread.is_alive():
            thread.join(0.1)
            show(f"recording this machine: {len(walk.files)} files")
            if walk.at != at:
                at, since = walk.at, time.monotonic()
            elif thread.is_alive() and time.monotonic() - since > _PATIENCE:
                return at
    return None


def _write(path: str, recording: Recording, force: bool) -> int:
    """Writes all of it or nothing, sorted, compressed if the name ends with .gz. Returns how many bytes."""
    text = json.dumps(recording, indent=1, sort_keys=True) + "\n"
    data = text.encode("ascii")
    if path.endswith(".gz"):
        import gzip

        data = gzip.compress(data, 9, mtime=0)
    if path == "-":
        sys.stdout.write(text)
        return len(data)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as f:  # /dev/stdout, a pipe
                f.write(data)
            return len(data)
        with _beside(path) as (fd, name):
            with open(fd, "wb") as f:
                f.write(data)
            if force:
                os.replace(name, path)
            else:
                os.link(name, path)
    except FileExistsError as e:
        raise UsageError(f"{path} is there already; give another name, or --force to replace it") from e
    except OSError as e:
        raise UsageError(f"{path}: could not be written: {os.strerror(e.errno or 0)}") from e
    return len(data)


@contextlib.contextmanager
def _beside(path: str) -> Iterator[tuple[int, str]]:
    """A new file in the same folder, with the rights that a new file has; it is gone afterwards unless renamed."""
    fd, name = tempfile.mkstemp(prefix=".capacityd-", dir=os.path.dirname(path) or ".")
    try:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(fd, 0o666 & ~mask)
        yield fd, name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
