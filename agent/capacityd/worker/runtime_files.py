"""The service's files in its runtime directory. The service continues without a file that is lost.

- config.json: the checked configuration and its errors. All passes use this file, so a rejected reload has no effect.
- state.json: the result of the last pass, for `status`.
- service.json: the status of the resident process.
- service.lock: locked while the resident process runs.

Files are replaced atomically. A file from another version of capacityd counts as missing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from capacityd import __version__
from capacityd.linux.atomic_file import read_regular_file, replace_file, write_error
from capacityd.model.codec import Malformed
from capacityd.model.errors import CapacitydError
from capacityd.model.file_codec import from_file, to_file
from capacityd.model.messages import NO_STATUS, SERVICE_STATUS, ServiceStatus
from capacityd.schema.config import Config
from capacityd.worker.pass_state import PassStatus

_T = TypeVar("_T")

_CONFIG = "config.json"
_STATE = "state.json"
_LOCK = "service.lock"


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """The content of config.json: the result of the last check. A pass need not parse the configuration again."""

    config: Config
    """The effective configuration."""
    errors: tuple[str, ...] = ()
    """Errors of the last check, each with its file and line. After a rejected reload, `config` is the previous
    configuration, which does not contain these errors."""


def runtime_directory() -> str:
    """The folder of the files: systemd's RuntimeDirectory or, outside of the service, its usual path."""
    folders = os.environ.get("RUNTIME_DIRECTORY", "/run/capacityd")
    return folders.split(":")[0]


def read_config(folder: str) -> CheckedConfig | None:
    """The saved configuration; None if it is missing or unreadable."""
    return _read_or_none(folder, _CONFIG, CheckedConfig)


def write_config(folder: str, config: CheckedConfig) -> None:
    """Saves the configuration for all later passes. Raises CapacitydError."""
    _write(folder, _CONFIG, config, 0o600)  # the configuration may come from a file that only root can read


def read_state(folder: str) -> PassStatus:
    """The status of the last pass; an empty status if the file is missing or damaged.

    Raises CapacitydError if the file exists but can't be read.
    """
    path = os.path.join(folder, _STATE)
    try:
        return from_file(PassStatus, read_regular_file(path), __version__)
    except (FileNotFoundError, Malformed):
        return PassStatus()
    except OSError as e:
        raise CapacitydError(f"{path} could not be read: {e.strerror}") from e


def write_state(folder: str, status: PassStatus) -> None:
    """Saves the status of the last pass. Raises CapacitydError."""
    _write(folder, _STATE, status, 0o644)  # any user may run `status`; the file contains no secret


def remove_state(folder: str) -> None:
    """Removes the file with the status of the last pass. Ignores errors."""
    with suppress(OSError):
        os.unlink(os.path.join(folder, _STATE))


def read_service(folder: str) -> ServiceStatus | None:
    """The last status of the resident process, even if the process has ended; None if the file can't be read."""
    return _read_or_none(folder, SERVICE_STATUS, ServiceStatus)


def why_unwritable(folder: str) -> str:
    """Why the folder seems not to be writable; "" if it seems writable. Writes nothing."""
    code = write_error(folder)
    return os.strerror(code) if code else ""


def running_service(folder: str) -> ServiceStatus | None:
    """The status of the running service, or NO_STATUS before its first status; None if the service is not running.

    The service is running if the kernel's list of locks (proc_locks(5)) contains its lock. Only root may open the lock
    file, because a process that opens the file could prevent the service from starting.
    """
    try:
        lock_file = os.stat(os.path.join(folder, _LOCK))
        with open("/proc/locks", encoding="ascii") as f:
            locks = f.read()
    except OSError:
        return None
    device = f"{os.major(lock_file.st_dev):02x}:{os.minor(lock_file.st_dev):02x}"
    lock = f" {device}:{lock_file.st_ino} "
    if lock not in locks:
        return None
    return read_service(folder) or NO_STATUS


def _read_or_none(folder: str, name: str, content_type: type[_T]) -> _T | None:
    path = os.path.join(folder, name)
    try:
        return from_file(content_type, read_regular_file(path), __version__)
    except (OSError, Malformed):
        return None


def _write(folder: str, name: str, value: object, mode: int) -> None:
    """Replaces a file. Raises CapacitydError if the file can't be written."""
    path = os.path.join(folder, name)
    try:
        replace_file(path, to_file(value, __version__), mode)
    except OSError as e:
        raise CapacitydError(f"{path} could not be written: {os.strerror(e.errno or 0)}") from e
