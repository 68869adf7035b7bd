"""The service's files in its state folder, each replaced as a whole. None holds what can't be found anew.

config.toml and config.json: the configuration that every look works from, so that a bad reload cannot reach it.
memory.json: what the next look must know. reviews.json: whose the credentials are. status.json: what the command
status shows. service.json: the resident process's own part of that, service.lock: held while it runs. check.json: the
mistakes that the last check found. metrics.json: the counters, and what keeps the metrics from being written. lock:
held by whoever writes to the Node.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from capacityd.errors import CapacitydError

TYPE_CHECKING = False  # status starts without what only the service needs
if TYPE_CHECKING:
    from typing import Any

    from capacityd.apply import Untold
    from capacityd.config import Loaded
    from capacityd.memory import Memory
    from capacityd.model import Config

_POLL = 0.05
# And service.json, so that status needs no root; they hold no secret.
_FOR_ALL = ("check.json", "metrics.json", "status.json")


def folder() -> str:
    """Where the files are: systemd's RuntimeDirectory, or where it would be."""
    return os.environ.get("RUNTIME_DIRECTORY", "/run/capacityd").split(":")[0]


def write(where: str, name: str, value: object) -> None:
    """Replaces a file. Raises CapacitydError if it can't be written (a full or read-only file system)."""
    path = os.path.join(where, name)
    unfinished = f"{path}.{os.getpid()}"
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        with open(unfinished, "w", encoding="utf-8") as f:
            if name in _FOR_ALL:
                os.fchmod(f.fileno(), 0o644)
            f.write(text)
        os.replace(unfinished, path)
    except OSError as e:
        with suppress(OSError):
            os.unlink(unfinished)
        raise CapacitydError(f"{path} could not be written: {os.strerror(e.errno or 0)}") from e


def read(where: str, name: str) -> dict[str, Any]:
    """A file; empty if it is missing or damaged."""
    try:
        with open(os.path.join(where, name), encoding="utf-8") as f:
            found = json.load(f)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def listed(found: object, key: str, *needed: str) -> Iterator[dict[str, Any]]:
    """The objects of a list in a file's content that have these texts; a damaged one is as none."""
    items = found.get(key) if isinstance(found, dict) else None
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and all(isinstance(item.get(name), str) for name in needed):
            yield item


def keep_config(where: str, loaded: Loaded) -> None:
    """Leaves the configuration for the looks to come. Raises CapacitydError."""
    from capacityd.config import show

    write(where, "config.json", {"broken": dict(loaded.config.broken), "complete": loaded.config.complete})
    write(where, "config.toml", show(loaded))


def kept_config(where: str) -> Config | None:
    """What keep_config left; None if there is nothing yet."""
    from dataclasses import replace

    from capacityd.config import load

    path = os.path.join(where, "config.toml")
    if not os.path.exists(path):
        return None
    found = read(where, "config.json")
    loaded = load(path)
    broken = found.get("broken")
    if not isinstance(broken, dict):  # damaged: what it named is not known, so nothing may be removed
        return replace(loaded.config, complete=False)
    broken = {str(name): str(why) for name, why in broken.items()} | dict(loaded.config.broken)
    return replace(loaded.config, broken=broken, complete=loaded.config.complete and found.get("complete") is True)


def keep_memory(where: str, memory: Memory) -> None:
    """Leaves it for the next look. Raises CapacitydError."""
    from dataclasses import asdict

    write(where, "memory.json", asdict(memory))


def kept_memory(where: str) -> Memory:
    """What keep_memory left. A damaged file is as none: then the Node is asked."""
    from capacityd.memory import Memory

    found = read(where, "memory.json")
    try:
        return Memory(
            seen=None if found["seen"] is None else {str(k): str(v) for k, v in found["seen"].items()},
            published={str(k): int(v) for k, v in found["published"].items()},
            lower_since={str(k): float(v) for k, v in found["lower_since"].items()},
            written={str(k): tuple(float(at) for at in v) for k, v in found["written"].items()},
            undone={str(k): float(v) for k, v in found["undone"].items()},
            kubelet=None if found["kubelet"] is None else float(found["kubelet"]),
            unsettled=int(found["unsettled"]),
            doubtful=int(found["doubtful"]),
            delayed=found["delayed"] is True,
            untold=None if found["untold"] is None else _untold(found["untold"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return Memory()


def _untold(found: Mapping[str, Any]) -> Untold:
    from capacityd.apply import Untold
    from capacityd.capacity import Event

    return Untold(
        uid=str(found["uid"]),
        capacity={str(k): None if v is None else str(v) for k, v in found["capacity"].items()},
        refused=tuple(str(name) for name in found["refused"]),
        events=tuple(Event(*(str(e[key]) for key in ("type", "reason", "message", "action"))) for e in found["events"]),
    )


def unwritable(where: str) -> str:
    """Why nothing can be left there, as far as it shows without trying: "" if it does not."""
    try:
        found = os.statvfs(where)
    except OSError as e:
        return e.strerror or ""
    if found.f_flag & os.ST_RDONLY:
        return os.strerror(errno.EROFS)
    full = not found.f_bfree or (found.f_files and not found.f_ffree)  # some file systems count no files
    return os.strerror(errno.ENOSPC) if full else ""


def kept_reviews(where: str) -> dict[str, Sequence[str]]:
    """What the API server has said of whom credentials are."""
    found = read(where, "reviews.json")
    return {
        whose: review
        for whose, review in found.items()
        if isinstance(review, list) and len(review) == 2 and all(isinstance(text, str) for text in review)
    }


@contextmanager
def locked(where: str, patience: float) -> Iterator[None]:
    """Keeps two of us from writing to the Node at once. Without a state folder there is no service to collide with.

    Raises CapacitydError when the lock isn't free within patience seconds.
    """
    try:
        fd = os.open(os.path.join(where, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    deadline = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise CapacitydError(
                        f"another capacityd has been writing for {patience:g} s; is it stuck?"
                    ) from None
                time.sleep(_POLL)
        yield
    finally:
        os.close(fd)


def running(where: str) -> Mapping[str, Any] | None:
    """The resident process's own words, if it runs."""
    path = os.path.join(where, "service.lock")
    return {"pid": "?"} | read(where, "service.json") if _held(path) else None


def _held(path: str) -> bool:
    """Whether somebody has this lock. Only root may open it: who can could keep the service from starting."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return _listed(path)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


def _listed(path: str) -> bool:
    """Whether the kernel's list of locks, proc_locks(5), has one on this file."""
    try:
        found = os.stat(path)
        with open("/proc/locks", encoding="ascii") as f:
            locks = f.read()
    except OSError:
        return False
    return f" {os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino} " in locks
