"""Records a machine: devices with the attributes that contents.py lists, mounts, and what answers.py asks.

The recording names files that exist but are not recorded, so that on replay they are unknown, never absent.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress

from capacityd.host.lower_disks import BCACHEFS, EXT4_JOURNALS
from capacityd.host.mounts import SWAPS
from capacityd.host.recording.answers import Source, answers, error_name
from capacityd.host.recording.contents import keeps_file, keeps_folder, mounts_without_options, unit_without_options
from capacityd.host.recording.format import Recording
from capacityd.host.recording.named import automount_units, paths_named_in
from capacityd.host.regular_file import MAX_TABLE_BYTES
from capacityd.host.system_disks import RESUME_FILE
from capacityd.host.time_limit import within_time_limit
from capacityd.linux.mountinfo import MOUNT_TABLE
from capacityd.model.errors import HostError
from capacityd.model.host import device_and_above

_MAX_RECORDED_BYTES = 8192  # of an attribute; most kernels limit attributes to a page of 4096 bytes
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ESTALE)  # not ENODEV, which drivers return for other reasons
_DEVICES = "/sys/devices"
_WITH_ATTRIBUTES = (_DEVICES, "/sys/class", "/sys/firmware")  # of other folders, only the names of files are recorded


class Recorder:
    """Makes one recording. attributes: names of attributes to record in addition to those of contents.py."""

    def __init__(self, source: Source, attributes: Collection[str] = ()) -> None:
        self._source = source
        self._attributes = attributes
        self._files: dict[str, str] = {}  # path -> content
        self._links: dict[str, str] = {}  # path -> target
        self._errors: dict[str, str] = {}  # path -> name of the errno
        self._left_out: dict[str, list[str]] = {}  # folder -> names of entries that were not read with the folder
        self._existing_only: set[str] = set()  # existing paths without recorded contents
        self._read_folders: set[str] = set()  # folders whose entries are recorded
        self._listed_devices: set[str] = set()  # devices that a bus or class lists

    def run(self) -> Recording:
        """The whole recording, with serial numbers, addresses and other identifiers.

        Errors become a part of the recording, so run() raises no HostError.
        """
        self._record_folder(_DEVICES)
        for bus in self._record_folder("/sys/bus"):
            self._record_folder(f"/sys/bus/{bus}")
            self._record_devices(f"/sys/bus/{bus}/devices")
        for subsystem in self._record_folder("/sys/class"):
            self._record_devices(f"/sys/class/{subsystem}")
        for folder in ("/sys/block", "/sys/dev/block"):
            self._record_devices(folder)
        for filesystem in self._record_folder("/sys/fs/btrfs"):
            self._record_devices(f"/sys/fs/btrfs/{filesystem}/devices")
        for filesystem in self._record_folder(BCACHEFS):
            for device in self._record_folder(f"{BCACHEFS}/{filesystem}"):
                self._record_link(f"{BCACHEFS}/{filesystem}/{device}/block")
        if self._resolve("/proc/device-tree"):
            self._record_link("/proc/device-tree")
            self._record_folder("/sys/firmware/devicetree/base")
        self._record_file(MOUNT_TABLE, MAX_TABLE_BYTES, transform=mounts_without_options)
        self._record_file(SWAPS, MAX_TABLE_BYTES)
        self._record_folder("/sys/power")
        self._record_file(RESUME_FILE, _MAX_RECORDED_BYTES)
        self._record_folder(EXT4_JOURNALS)
        for path in list(automount_units(self._files)):  # a list, because _record_file() changes self._files
            self._record_file(path, _MAX_RECORDED_BYTES, transform=unit_without_options)
        self._record_paths_named_in_files()
        self._record_link_targets()
        interfaces = sorted(os.path.basename(path) for path in self._links if path.startswith("/sys/class/net/"))
        return {
            "files": self._files,
            "links": self._links,
            "errors": self._errors,
            "left_out": self._unrecorded(),
            "folders": sorted(self._existing_only),
            **answers(self._source, devices=self._possible_devices(), interfaces=interfaces),
            "arch": self._source.arch(),
            "hostname": self._source.hostname(),
        }

    def _unrecorded(self) -> dict[str, list[str]]:
        """Folder -> the names in it of which nothing is recorded. The name of a subfolder ends with "/"."""
        recorded = self._read_folders | self._files.keys()  # some names were recorded later, for another reason
        unrecorded: dict[str, list[str]] = {}
        for folder, names in self._left_out.items():
            for name in names:
                path = f"{folder}/{name.removesuffix('/')}"
                if path not in recorded:
                    unrecorded.setdefault(folder, []).append(name)
        return unrecorded

    def _possible_devices(self) -> Iterator[str]:
        """Yields the recorded folders that udev may know as devices, sorted."""
        for path in sorted(self._read_folders):
            has_subsystem = f"{path}/subsystem" in self._links
            is_unreadable = f"{path}/subsystem" in self._errors or f"{path}/uevent" in self._errors
            if has_subsystem or path in self._listed_devices or is_unreadable:
                yield path

    def _record_devices(self, folder: str) -> None:
        """Records the devices to which the links in a folder lead, and the devices above them."""
        for name, kind in self._record_folder(folder).items():
            path = f"{folder}/{name}"
            if kind == "folder":
                self._record_folder(path)
            if path not in self._links:
                continue  # not a device: the entry of a device is a link
            device = os.path.normpath(os.path.join(folder, self._links[path]))
            if device.startswith(f"{_DEVICES}/"):
                self._listed_devices.add(device)
            for device_or_above in device_and_above(device):
                if device_or_above in self._read_folders:
                    break  # the folders above are recorded already
                self._record_folder(device_or_above)

    def _record_folder(self, folder: str) -> Mapping[str, str]:
        """Records a folder's entries, and the entries of each subfolder that contents.py lists.

        Returns the entries as scandir() does; empty if the folder is already recorded, or can't be read.
        """
        if folder in self._read_folders:
            return {}
        try:
            entries = within_time_limit(folder, lambda: self._source.scandir(folder))
        except HostError as e:
            self._record_failure(folder, e)
            if folder in self._errors:  # _record_failure() leaves out a folder that does not exist
                self._existing_only.add(folder)
            return {}
        self._read_folders.add(folder)
        left_out = []
        for name, kind in entries.items():
            if not self._record_entry(f"{folder}/{name}", kind):
                left_out.append(f"{name}/" if kind == "folder" else name)
        if left_out:
            self._left_out[folder] = left_out
        if not entries:  # no recorded path shows that an empty folder exists
            self._existing_only.add(folder)
        return entries

    def _record_entry(self, path: str, kind: str) -> bool:
        """Records an entry of a folder. Returns False if the recording leaves out the entry's content."""
        if kind == "link":
            self._record_link(path)
            return True
        if kind == "file" and self._keeps_file(path):
            self._record_file(path, _MAX_RECORDED_BYTES)
            return True
        if kind == "folder" and keeps_folder(path):
            self._record_folder(path)
            return True
        return False

    def _keeps_file(self, path: str) -> bool:
        """Whether to record the content of a file in a folder."""
        has_attributes = path.startswith(_WITH_ATTRIBUTES)
        return has_attributes and (keeps_file(path) or os.path.basename(path) in self._attributes)

    def _record_file(self, path: str, limit: int, transform: Callable[[str], str] = str) -> None:
        """Records a file of at most limit bytes. transform: returns the text to record; str() changes nothing."""
        self._record_text(self._files, path, ask=lambda: transform(self._source.raw(path, limit)))

    def _record_link(self, path: str) -> None:
        self._record_text(self._links, path, ask=lambda: self._source.readlink(path))

    def _record_text(self, part: dict[str, str], path: str, ask: Callable[[], str]) -> None:
        """Adds what ask() returns to a part of the recording. Records an error instead if ask() raises HostError."""
        try:
            part[path] = within_time_limit(path, ask)
        except HostError as e:
            self._record_failure(path, e)

    def _record_failure(self, path: str, e: HostError) -> None:
        if e.errno in _ABSENT:
            return
        if e.errno == errno.EFBIG:  # longer than the recorder's limit, so not recorded
            self._errors[path] = "ENODATA"
        else:
            self._errors[path] = error_name(e) or "EIO"

    def _record_paths_named_in_files(self) -> None:
        """Records the existence of the files, folders and devices that paths_named_in() finds."""
        for path in sorted(paths_named_in(self._files)):
            real = self._resolve(path)
            if not real:
                continue
            if real != path:
                self._links[path] = real
            self._existing_only.add(real)

    def _record_link_targets(self) -> None:
        """Records the existence of link targets that are not recorded otherwise, such as drivers."""
        recorded = self._read_folders | self._existing_only
        for path, target in sorted(self._links.items()):
            target_path = os.path.normpath(os.path.join(os.path.dirname(path), target))
            if target_path in recorded or target_path in self._links or target_path in self._files:
                continue
            recorded.add(target_path)
            real = self._resolve(path)
            if not real:
                continue
            if real.startswith(f"{_DEVICES}/"):
                self._record_folder(real)
            if real not in self._read_folders and real not in self._files:
                self._existing_only.add(real)

    def _resolve(self, path: str) -> str | None:
        """The path with all links resolved; None if the path does not exist, or can't be resolved."""
        with suppress(HostError):
            return within_time_limit(path, lambda: self._source.resolve(path))
        return None
