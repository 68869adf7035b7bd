"""The service's files in its runtime directory, each replaced atomically. All of them can be recreated.

config.json: the configuration that every pass uses, so that a rejected reload has no effect.
memory.json: the state for the next pass. reviews.json: the user of the credentials. status.json: what `status` shows.
service.json: the resident process's own part of that. service.lock: held while it runs. check.json: the errors of the
last check. metrics.json: the counters, and why the metrics could not be written. lock: held while writing to the Node.

Each file of a worker names the version that wrote it: what another version wrote counts as missing, so what is read
needs no checks. config.json is checked as the configuration is.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from capacityd import __version__
from capacityd.config import Loaded, restore
from capacityd.linux.atomic_file import replace_file, write_error
from capacityd.model.config import Config
from capacityd.model.errors import CapacitydError
from capacityd.node import Review
from capacityd.reconcile.state import Denial, ReconcileState

_POLL = 0.05
_OF_SERVICE = "service.json"  # the resident process writes it
# And service.json, so that status needs no root; they hold no secret.
_FOR_ALL = ("check.json", "metrics.json", "status.json")


def folder() -> str:
    """Where the files are: systemd's RuntimeDirectory, or where it would be."""
    return os.environ.get("RUNTIME_DIRECTORY", "/run/capacityd").split(":")[0]


def write(where: str, name: str, value: Mapping[str, object]) -> None:
    """Replaces a file. Raises CapacitydError if it can't be written (a full or read-only file system)."""
    path = os.path.join(where, name)
    mode = 0o644 if name in _FOR_ALL else 0o600
    try:
        replace_file(path, json.dumps({**value, "version": __version__}).encode(), mode)
    except OSError as e:
        raise CapacitydError(f"{path} could not be written: {os.strerror(e.errno or 0)}") from e


@contextmanager
def collecting_errors(errors: list[str]) -> Iterator[None]:
    """Collects the errors of writes, so that a pass goes on although its result can't be saved."""
    try:
        yield
    except CapacitydError as e:
        errors.append(str(e))


def read(where: str, name: str) -> dict[str, Any]:
    """The content of a file; empty if it is missing, damaged, or written by another version."""
    try:
        with open(os.path.join(where, name), encoding="utf-8") as f:
            found = json.load(f)
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or found.pop("version", None) != (None if name == _OF_SERVICE else __version__):
        return {}
    return found


def keep_config(where: str, loaded: Loaded) -> None:
    """Saves the configuration for later passes. Raises CapacitydError.

    It is one file, because a half that is missing would count as not configured.
    """
    config = loaded.config
    snapshot = {"values": dict(loaded.values), "broken": dict(config.broken), "complete": config.complete}
    write(where, "config.json", snapshot)


def kept_config(where: str) -> Config | None:
    """The saved configuration; None if there is none, or if it is damaged."""
    found = read(where, "config.json")
    values, broken, complete = (found.get(key) for key in ("values", "broken", "complete"))
    if not isinstance(values, dict) or not isinstance(broken, dict) or not isinstance(complete, bool):
        return None
    return restore(values, {str(name): str(why) for name, why in broken.items()}, complete)


def keep_memory(where: str, memory: ReconcileState) -> None:
    """Saves the state for the next pass. Raises CapacitydError."""
    write(where, "memory.json", asdict(memory))


def kept_memory(where: str) -> ReconcileState:
    """The saved state. Without it, the next pass reads the Node."""
    found = read(where, "memory.json")
    if not found:
        return ReconcileState()
    plugins = found.pop("plugins")
    return ReconcileState(
        written={name: tuple(moments) for name, moments in found.pop("written").items()},
        plugins=None if plugins is None else tuple(plugins),
        behind=tuple(found.pop("behind")),
        denied={name: Denial(**denial) for name, denial in found.pop("denied").items()},
        **found,
    )


def unwritable(where: str) -> str:
    """Why the directory can't be written, as far as that is visible without trying; "" if it can."""
    code = write_error(where)
    return os.strerror(code) if code else ""


def kept_reviews(where: str) -> dict[str, Review]:
    """The users of credentials, according to the API server."""
    users = read(where, "reviews.json").get("users", {})
    return {whose: Review(*review) for whose, review in users.items()}


def keep_reviews(where: str, reviews: Mapping[str, Review]) -> None:
    """Saves the users of credentials. Raises CapacitydError."""
    write(where, "reviews.json", {"users": reviews})


@contextmanager
def locked(where: str, retry_timeout: float) -> Iterator[None]:
    """Serialises writers on this machine. If the runtime directory does not exist, no service can be running.

    Raises CapacitydError if the lock is not free within retry_timeout seconds.
    """
    try:
        fd = os.open(os.path.join(where, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


def running(where: str) -> Mapping[str, Any] | None:
    """The content of service.json, if the service runs: if the kernel's list of locks, proc_locks(5), has its lock.

    Only root may open the lock: whoever can could keep the service from starting.
    """
    try:
        found = os.stat(os.path.join(where, "service.lock"))
        with open("/proc/locks", encoding="ascii") as f:
            locks = f.read()
    except OSError:
        return None
    lock = f" {os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino} "
    return {"pid": "?"} | read(where, _OF_SERVICE) if lock in locks else None
