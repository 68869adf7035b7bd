"""The service's files in its runtime directory. All of them can be recreated: one that is lost costs what it held.

config.json: the checked configuration with its errors, which every pass uses, so that a rejected reload has no effect.
state.json: what a pass leaves for the next one. service.json: the resident process's own status. service.lock is held
while that runs, and lock while a worker or a command writes to the Node.

Each is replaced atomically, and of one version: what another version wrote counts as missing.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from capacityd import __version__
from capacityd.config import Loaded, restore
from capacityd.linux.atomic_file import read_regular_file, replace_file, reserve_room, write_error
from capacityd.model.codec import Malformed, from_file, to_file
from capacityd.model.config import Config
from capacityd.model.errors import CapacitydError
from capacityd.model.messages import ServiceStatus
from capacityd.worker.pass_state import PassState

_T = TypeVar("_T")

_POLL = 0.05
_CONFIG, _STATE, _SERVICE = "config.json", "state.json", "service.json"
_MORE = 4096
"""Bytes that a pass may add to its state."""


@dataclass(frozen=True, slots=True)
class SavedConfig:
    """config.json. It is one file, because a half that is missing would count as not configured."""

    values: Mapping[str, Any]
    """Loaded.values"""
    broken: Mapping[str, str]
    complete: bool
    """Those of Loaded.config."""
    errors: tuple[str, ...] = ()
    """Those of the last check, each with its file and line. After a rejected reload they are not of these values."""

    @classmethod
    def of(cls, loaded: Loaded) -> SavedConfig:
        """What is saved of a configuration."""
        config = loaded.config
        errors = tuple(problem.located() for problem in loaded.problems)
        return cls(dict(loaded.values), dict(config.broken), config.complete, errors)

    def restored(self) -> Config:
        """The configuration."""
        return restore(self.values, self.broken, self.complete)


@dataclass(frozen=True, slots=True)
class RunningService:
    """The service runs. status: None if it has written none yet, or one that can't be read."""

    status: ServiceStatus | None

    @property
    def pid(self) -> str:
        """The process id of the resident process, "?" if it is unknown."""
        return str(self.status.pid) if self.status else "?"


def folder() -> str:
    """Where the files are: systemd's RuntimeDirectory, or where it would be."""
    return os.environ.get("RUNTIME_DIRECTORY", "/run/capacityd").split(":")[0]


def read_config(where: str) -> SavedConfig | None:
    """The saved configuration; None if there is none that can be read."""
    return _read_or_none(where, _CONFIG, SavedConfig)


def write_config(where: str, config: SavedConfig) -> None:
    """Saves the configuration for all later passes. Raises CapacitydError."""
    _write(where, _CONFIG, config, 0o600)  # a file of the configuration may be for root only


def read_state(where: str) -> PassState:
    """The state that the last pass left; an empty one if it is missing or damaged.

    Raises CapacitydError if there is a file that can't be read: then none can be relied on to be there the next time.
    """
    path = os.path.join(where, _STATE)
    try:
        return from_file(PassState, read_regular_file(path), __version__)
    except (FileNotFoundError, Malformed):
        return PassState()
    except OSError as e:
        raise CapacitydError(f"{path} could not be read: {e.strerror}") from e


def write_state(where: str, state: PassState) -> None:
    """Saves the state for the next pass. Raises CapacitydError."""
    _write(where, _STATE, state, 0o644)  # `status` needs no root; it holds no secret


def reserve_state(where: str) -> None:
    """Makes sure, before a pass decides, that its state can be saved. Raises CapacitydError."""
    path = os.path.join(where, _STATE)
    try:
        size = os.stat(path).st_size if os.path.isfile(path) else 0
        reserve_room(path, size + _MORE)
    except OSError as e:
        raise CapacitydError(f"{path} could not be written: {os.strerror(e.errno or 0)}") from e


def read_service(where: str) -> ServiceStatus | None:
    """What the resident process has left, running or not; None if there is nothing that can be read."""
    return _read_or_none(where, _SERVICE, ServiceStatus)


@contextmanager
def collecting_errors(errors: list[str]) -> Iterator[None]:
    """Collects errors of files, so that a pass goes on although its result can't be saved."""
    try:
        yield
    except CapacitydError as e:
        errors.append(str(e))


def unwritable(where: str) -> str:
    """Why the directory can't be written, as far as that is visible without trying; "" if it can."""
    code = write_error(where)
    return os.strerror(code) if code else ""


@contextmanager
def locked(where: str, retry_timeout: float) -> Iterator[None]:
    """Serialises writers on this machine. If the runtime directory does not exist, no service can be running.

    Raises CapacitydError if the lock is not free within retry_timeout seconds.
    """
    try:
        fd = os.open(os.path.join(where, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError:
        yield
        return
    deadline = time.monotonic() + retry_timeout
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise CapacitydError(
                        f"another capacityd has been writing for {retry_timeout:g} s; is it stuck?"
                    ) from None
                time.sleep(_POLL)
        yield
    finally:
        os.close(fd)


def running(where: str) -> RunningService | None:
    """The service, if it runs: if the kernel's list of locks, proc_locks(5), has its lock.

    Only root may open the lock: whoever can could keep the service from starting.
    """
    try:
        status = os.stat(os.path.join(where, "service.lock"))
        with open("/proc/locks", encoding="ascii") as f:
            locks = f.read()
    except OSError:
        return None
    lock = f" {os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} "
    return RunningService(read_service(where)) if lock in locks else None


def _read_or_none(where: str, name: str, kind: type[_T]) -> _T | None:
    try:
        return from_file(kind, read_regular_file(os.path.join(where, name)), __version__)
    except (OSError, Malformed):
        return None


def _write(where: str, name: str, value: object, mode: int) -> None:
    """Replaces a file. Raises CapacitydError if it can't be written (a full or read-only file system)."""
    path = os.path.join(where, name)
    try:
        replace_file(path, to_file(value, __version__), mode)
    except OSError as e:
        raise CapacitydError(f"{path} could not be written: {os.strerror(e.errno or 0)}") from e
