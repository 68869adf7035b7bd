"""The machine record: the file on this machine that lists the published quantities.

The file confirms the annotation on the Node. Anybody who may patch the Node's metadata can write the annotation. Only
root on this machine can write the file.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Mapping
from typing import NamedTuple

from capacityd.linux.atomic_file import read_regular_file, replace_file, write_error
from capacityd.model.codec import Malformed
from capacityd.model.errors import StateError
from capacityd.model.file_codec import from_file, to_file
from capacityd.model.plan import MachineRecord, Plan, Reported

_FILE = "published.json"


class _Content(NamedTuple):
    """The file's content: the fields of MachineRecord in the same order, but published and intended must not be
    missing. All versions can read each other's files."""

    published: Mapping[str, int]
    intended: Mapping[str, int]
    reported: Reported = Reported()
    node_uid: str = ""


def state_directory() -> str:
    """systemd's StateDirectory, or the directory where it would be."""
    # systemd separates several directories with colons.
    return os.environ.get("STATE_DIRECTORY", "/var/lib/capacityd").split(":")[0]


def path(directory: str) -> str:
    """The path of the record."""
    return os.path.join(directory, _FILE)


def read(directory: str) -> MachineRecord | None:
    """Reads the record; None if it is missing or damaged. Raises StateError if the file exists but can't be read.

    A damaged record counts as missing: none of its entries can be trusted.
    """
    file = path(directory)
    try:
        return MachineRecord(*from_file(_Content, read_regular_file(file)))
    except (FileNotFoundError, Malformed):
        return None
    except OSError as e:
        raise StateError(f"{file} could not be read: {e.strerror} (run as root?)") from e


def write(directory: str, machine_record: MachineRecord) -> None:
    """Replaces the record atomically and durably: it survives a crash or a power failure. Raises StateError."""
    file = path(directory)
    try:
        os.makedirs(directory, mode=0o755, exist_ok=True)
        # 0o644: the file contains no secret. The caller holds the lock for writes to the Node.
        replace_file(file, to_file(machine_record), 0o644, durable=True)
    except OSError as e:
        raise StateError(f"{file} could not be written: {os.strerror(e.errno or 0)}") from e


def why_unwritable(directory: str) -> str:
    """Why no record could be saved in the directory, as far as can be told without writing; "" if a record could be
    saved."""
    code = write_error(directory)
    if code in (0, errno.ENOENT):  # write() creates a missing directory
        return ""
    return f"{directory} can't be written: {os.strerror(code)}"


def intend(directory: str, machine_record: MachineRecord | None, plan: Plan) -> MachineRecord | None:
    """Before a write to the Node: saves what the plan is about to publish. machine_record: the file's content. Returns
    the new record.

    Raises StateError.
    """
    if plan.write.recorded is None:  # the plan does not change the record
        return machine_record
    after_write = dataclasses.replace(plan.confirmed_record, published=plan.write.recorded)
    if machine_record == after_write:  # the write changes no quantity
        return machine_record
    with_intention = dataclasses.replace(plan.confirmed_record, intended=plan.write.recorded)
    if with_intention != machine_record:  # an earlier attempt may have saved the same intention
        write(directory, with_intention)
    return with_intention


def replace(directory: str, machine_record: MachineRecord | None) -> None:
    """After a conflict or a rejection: replaces the record, which contains an intention. None: removes the file.

    If the intention stayed, the next plan could take another writer's key of the intended quantity for this machine's.
    Raises StateError.
    """
    if machine_record is not None:
        write(directory, machine_record)
        return
    try:
        os.unlink(path(directory))
    except FileNotFoundError:
        pass
    except OSError as e:
        raise StateError(f"{path(directory)} could not be removed: {os.strerror(e.errno or 0)}") from e


def confirm(directory: str, plan: Plan) -> None:
    """After the write to the Node, or if there was nothing to write: saves what this machine has published now. Raises
    StateError."""
    if plan.write.recorded is None:  # the plan does not change the record
        return
    result = MachineRecord(plan.write.recorded, reported=plan.write.reported, node_uid=plan.confirmed_record.node_uid)
    if read(directory) != result:
        write(directory, result)
