"""The steps of a history, and whom they happen to: a model of a machine and its API server, or real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from capacityd.model.reading import Reading
from tests.support.denials import Alters, Denies


class AnyServer(Protocol):
    """The Node and the admission of writes to its status: ModelServer, or a real API server."""

    denies: tuple[Denies, ...]
    alters: tuple[Alters, ...]
    between: list[Callable[[], None]]
    """What other writers do between a GET and a PATCH, at one PATCH each."""
    lose: int
    """So many responses to writes get lost."""

    @property
    def capacity(self) -> Mapping[str, str]: ...

    @property
    def annotation(self) -> str | None: ...

    @property
    def condition(self) -> Mapping[str, str]: ...

    def write(self, name: str, value: str | None) -> None: ...

    def annotate(self, text: str | None) -> None: ...

    def register_anew(self) -> None: ...


class AnyMachine(Protocol):
    """A machine whose worker makes one pass after another."""

    readings: dict[str, Reading]
    uptime: float
    kill_at: int | None
    killed: str
    record_errno: int
    """The error with which the machine's record can't be read; 0: it can."""

    @property
    def server(self) -> AnyServer: ...

    @property
    def record(self) -> Path: ...

    @property
    def error(self) -> str: ...

    def make_pass(self, *reasons: str) -> bool: ...


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
