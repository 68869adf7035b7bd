"""Compares a Node's systemUUID with this machine's UUID.

Clones of an image may share a machine-id, but the firmware or the hypervisor gives each machine a UUID of its own. The
kubelet and capacityd read the UUID from the same file, /sys/class/dmi/id/product_uuid. A kubelet that cannot read this
file reports something else as systemUUID, such as the machine-id.
Source: GetSystemUUID in google/cadvisor, lib/utils/sysfs/sysfs.go.
"""

from __future__ import annotations

import re
from uuid import UUID

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACEHOLDERS = (
    UUID("03000200-0400-0500-0006-000700080009"),  # firmware that the board's maker has not filled in
    UUID("12345678-1234-5678-90ab-cddeefaabbcc"),
)


def is_of_another_machine(theirs: str, ours: str) -> bool:
    """Whether both texts are UUIDs, and belong to different machines.

    The byte order of the first three groups does not matter. It changed with SMBIOS 2.6, so an old kernel and a new
    kernel may print these groups in opposite byte orders.
    """
    their_uuid, our_uuid = _parsed(theirs), _parsed(ours)
    if their_uuid is None or our_uuid is None:
        return False
    return their_uuid not in (our_uuid, _swapped(our_uuid))


def _parsed(text: str) -> UUID | None:
    """The UUID; None if the text is no UUID, or is a placeholder that many machines have."""
    if not _UUID.fullmatch(text.lower()):
        return None
    uuid = UUID(text)
    repeats_one_digit = len(set(uuid.hex)) == 1
    is_placeholder = any(uuid in (known, _swapped(known)) for known in _PLACEHOLDERS)
    return None if repeats_one_digit or is_placeholder else uuid


def _swapped(uuid: UUID) -> UUID:
    """The UUID with its first three groups in the opposite byte order."""
    return UUID(bytes=uuid.bytes_le)
