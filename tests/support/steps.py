"""The steps of a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.denials import Alters, Denies


@dataclass(frozen=True)
class Step:
    """What happens before a pass. None, or empty: it stays as it is."""

    hardware: Mapping[str, int | None] | None = None
    denies: tuple[Denies, ...] | None = None
    alters: tuple[Alters, ...] | None = None
    record: str = ""
    """A fault of the machine's record, or "restored" or "missing"."""
    kill_at: int | None = None
    writes: Mapping[str, str | None] = field(default_factory=dict)
    """What another writer does to the capacity."""
    annotates: str | None = None
    """What another writer makes of the annotation; "" removes it."""
    node_anew: bool = False
    """The Node is deleted and created again."""
    between: bool = False
    """Others write, or create the Node anew, between the pass's GET and its PATCH, instead of before the pass."""
    lost_answer: bool = False
    reason: str = "resync"

    def __repr__(self) -> str:
        changed = [f"{n}={v!r}" for n in self.__slots_names() if (v := getattr(self, n)) != getattr(Step(), n)]
        return f"Step({', '.join(changed)})"

    def __slots_names(self) -> Sequence[str]:
        return list(self.__dataclass_fields__)
