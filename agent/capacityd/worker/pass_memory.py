"""What a pass leaves for the next pass: a text that the service keeps, and gives to the next worker.

The text is empty after a start of the service, and after a pass without a result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capacityd import __version__
from capacityd.model.codec import Malformed
from capacityd.model.file_codec import from_file, to_file
from capacityd.node.identity import Identity
from capacityd.reconcile.memory import Memory
from capacityd.worker.pass_state import PassStatus


@dataclass(frozen=True, slots=True)
class PassMemory:
    """What a pass leaves for the next pass."""

    reconcile: Memory = field(default_factory=Memory)
    """The memory for the next plan."""
    status: PassStatus = field(default_factory=PassStatus)
    identity: Identity | None = None
    """The Node that the last pass has determined from its credentials."""
    textfile: str | None = None
    """The path of the metrics file; None if no file is written."""


def to_text(memory: PassMemory) -> str:
    """Converts the memory to the text for the service."""
    return to_file(memory, __version__).decode()


def from_text(text: str) -> PassMemory:
    """Restores the memory from the text of to_text(). The memory is empty if the text is empty or another version's."""
    try:
        return from_file(PassMemory, text.encode(), __version__)
    except Malformed:
        return PassMemory()
