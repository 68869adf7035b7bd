"""record: saves this machine's hardware in a file, for --machine on any machine."""

from __future__ import annotations

import gzip
import json
import os
import sys

from capacityd.cli.options import Options
from capacityd.cli.output.terminal import listed, print_message
from capacityd.detectors import detector_names, load_detector
from capacityd.host.live import LiveHost
from capacityd.host.recording.format import Recording, read_recording
from capacityd.host.recording.privacy import without_identifiers
from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from capacityd.linux.atomic_file import replace_file
from capacityd.model.errors import UsageError
from capacityd.model.host import Host, machine_id
from capacityd.model.text import printable
from capacityd.schema.device import DeviceDetector

_UNREPORTED_ERRORS = ("ENODATA", "EINVAL", "EOPNOTSUPP", "ENODEV")
"""The Recorder's ENODATA for a file that is too long, and a driver's errors for a file without a value."""
_MAX_PATHS = 5
"""Number of paths to list in a message."""


def record(options: Options) -> int:
    """Writes a recording of this machine. With --machine, writes a copy of a recording, for example to redact it.

    Raises UsageError if the file exists, or can't be written.
    """
    if os.path.exists(options.file):
        if not os.path.isfile(options.file):
            raise UsageError(f"{options.file} is not a regular file; - is standard output")
        if not options.force:
            raise UsageError(f"{options.file} exists; choose another name, or replace it with --force")
    host: Host
    if options.selection.machine is None:
        host = LiveHost()
        recording = Recorder(host, _attribute_names()).run()
        unreadable = _unreadable_paths(recording)
    else:
        recording = read_recording(options.selection.machine)
        host = RecordedHost(recording)
        unreadable = {}  # the paths were listed when the original was recorded
    if not options.keep_serials and not recording.get("redacted"):
        # No recorded file contains the machine id, but other texts may. without_identifiers() also sets "redacted".
        recording = without_identifiers(recording, [machine_id(host)])
    size = _write(options.file, recording)
    for error, paths in sorted(unreadable.items()):
        root_may_read = error == "EACCES" and os.geteuid() != 0
        hint = "; root may read them" if root_may_read else ""
        print_message(f"could not be read ({error}{hint}): {listed(paths, most=_MAX_PATHS)}")
    if options.file != "-":
        _print_report(options.file, recording, size)
    return 0


def _print_report(file: str, recording: Recording, size: int) -> None:
    """Prints what the file contains. size: in bytes."""
    private = "" if "redacted" in recording else "; it contains serial numbers, addresses and names"
    files = len(recording.get("files", {}))
    devices = _number_of_devices(recording)
    print_message(f"{file}: {files} files, {devices} devices, {size} bytes{private}")


def _number_of_devices(recording: Recording) -> int:
    """The number of recorded devices. Each device has a link to its subsystem, even a device unknown to udev."""
    links = recording.get("links", {})
    return len([path for path in links if path.startswith("/sys/devices/") and path.endswith("/subsystem")])


def _attribute_names() -> set[str]:
    """The names of the files that detectors read in their devices' folders."""
    attributes: set[str] = set()
    for detector in map(load_detector, detector_names()):
        if isinstance(detector, DeviceDetector):
            attributes.update(detector.attributes)
    return attributes


def _unreadable_paths(recording: Recording) -> dict[str, list[str]]:
    """Name of the error -> the paths that could not be read."""
    unreadable: dict[str, list[str]] = {}
    for path, error in recording["errors"].items():
        if error not in _UNREPORTED_ERRORS:
            unreadable.setdefault(error, []).append(printable(path))
    return unreadable


def _write(path: str, recording: Recording) -> int:
    """Writes everything or nothing. Compresses the file if its name ends with .gz. Returns the size in bytes."""
    text = json.dumps(recording, indent=1, sort_keys=True) + "\n"  # ASCII: json escapes all other characters
    if path == "-":
        sys.stdout.write(text)
        return len(text)
    content = text.encode("ascii")
    if path.endswith(".gz"):
        content = gzip.compress(content, mtime=0)  # without a time, so that equal recordings give equal files
    try:
        umask = os.umask(0)  # the umask can be read only by changing it
        os.umask(umask)
        replace_file(path, content, mode=0o666 & ~umask)  # the mode of a file that open() creates
    except OSError as e:
        raise UsageError(f"{path}: could not be written: {os.strerror(e.errno or 0)}") from e
    return len(content)
