"""However a pass ends, the condition tells the truth; once the causes are gone, the Node is right."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, example, given, note
from hypothesis import settings as how_hard
from hypothesis import strategies as st

from capacityd.model.reading import Quantity
from tests.support.recovery import (
    NAMES,
    THEIRS,
    A,
    Alters,
    B,
    Denies,
    Machine,
    damage,
    readings,
    remove,
    remove_obstacle,
)

PAUSE = 70.0
"""Seconds between two passes: the rate limit of one write a minute does not hold anything back."""
LONGEST_BACKOFF = 3700.0


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
    """What another writer does to the capacity, before the pass or between its GET and its PATCH."""
    between: bool = False
    annotates: str | None = None
    """What another writer makes of the annotation; "" removes it."""
    node_anew: bool = False
    lost_answer: bool = False
    reason: str = "resync"

    def __repr__(self) -> str:
        changed = [f"{n}={v!r}" for n in self.__slots_names() if (v := getattr(self, n)) != getattr(Step(), n)]
        return f"Step({', '.join(changed)})"

    def __slots_names(self) -> Sequence[str]:
        return list(self.__dataclass_fields__)


letters = st.sampled_from("abc")
names = st.sampled_from(NAMES)
quantities = st.sampled_from([0, 1, 4, 5, 8])
codes = st.one_of(st.sampled_from([401, 403, 404, 409, 410, 413, 422, 429, 500, 503]), st.integers(400, 599))
denials = st.one_of(
    st.builds(Denies, names, codes),
    st.builds(Denies, names, st.sampled_from([401, 403, 413, 422]), st.just("policy")),
    st.builds(Denies, names, st.sampled_from([409, 422]), st.just("opaque")),
)
alterations = st.one_of(
    st.builds(Alters, names, st.sampled_from([None, "3", "1k"])),
    st.builds(Alters, st.just("annotation"), st.sampled_from([None, "", "{}", '{"example.com/a":1}', "garbage"])),
    st.builds(Alters, st.just("condition"), st.sampled_from([None, "altered"])),
)
faults = ["directory", "loop", "pipe", "unwritable", "missing", "restored", "garbage", "name", "text", "float"]
steps = st.builds(
    Step,
    hardware=st.none() | st.dictionaries(letters, st.none() | quantities, min_size=1),
    denies=st.none() | st.lists(denials, max_size=2).map(tuple),
    alters=st.none() | st.lists(alterations, max_size=1).map(tuple),
    record=st.sampled_from(["", "", "", *faults]),
    kill_at=st.none() | st.integers(0, 24),
    writes=st.dictionaries(names, st.sampled_from([None, "0", "4", "7", "1500m"]), max_size=1),
    between=st.booleans(),
    annotates=st.none() | st.sampled_from(["", "garbage", f'{{"{THEIRS}":8,"{A}":4}}', f'{{"{B}":7}}']),
    node_anew=st.sampled_from([False, False, False, True]),
    lost_answer=st.sampled_from([False, False, False, True]),
    reason=st.sampled_from(["resync", "hardware", "config"]),
)


class History:
    """A machine, and what has happened to it."""

    def __init__(self, folder: Path, log: Callable[[str], object]) -> None:
        self._log = log
        self.machine = Machine(folder)
        self.machine.readings = readings(a=None)
        self.server = self.machine.server
        self._kept: bytes | None = None  # the content that a damaged record had
        self._record_lost = False
        self._annotation_lost = False
        self._reasons: dict[str, set[str]] = {}  # capacity key -> why it was denied, at earlier attempts
        self._forged: set[str] = set()  # what another writer has put into the annotation
        self._by_others: dict[str, str | None] = {}  # capacity key -> what another writer made of it

    def take(self, step: Step) -> None:
        """The step, its pass, and the pass after it. Checks what must hold by then."""
        machine, server = self.machine, self.server
        if step.hardware is not None:
            machine.readings = readings(**step.hardware)
        if step.reason == "config" and step.kill_at is None:
            self._reasons.clear()  # each denied change is tried again
        else:
            for denies in server.denies:
                self._reasons.setdefault(denies.name, set()).add(denies.reason())
        server.denies = server.denies if step.denies is None else step.denies
        server.alters = server.alters if step.alters is None else step.alters
        for alters in server.alters:
            if alters.key == "annotation":
                self._annotation_lost = True
                self._forged |= _table(alters.value).keys()
        if step.record:
            self._change_record(step.record)
        if step.node_anew:
            server.register_anew()
        if step.annotates is not None:
            server.annotate(step.annotates or None)
            self._forged |= self._annotated().keys()
            self._annotation_lost = True
        if step.between:
            server.between = lambda: self._others_write(step.writes)
        else:
            self._others_write(step.writes)
        machine.kill_at, server.lose = step.kill_at, step.lost_answer
        self._make_pass(step.reason)
        server.between, server.lose = None, False
        self._make_pass("resync")
        self.check_truth()

    def end(self) -> None:
        """All causes are gone: denials, faults, and what others have written."""
        machine, server = self.machine, self.server
        server.denies = server.alters = ()
        self._change_record("restored")
        if (annotated := self._annotated()).pop(THEIRS, None):
            server.annotate(json.dumps(annotated))
        for name, value in self._by_others.items():
            if server.capacity.get(name) == value:
                server.write(name, None)
        for name in NAMES:  # what is not known as ours any more, and is to change, is left, and reported
            reading = machine.readings.get(name)
            desired = reading.value if isinstance(reading, Quantity) else None
            doubtful = name not in annotated or annotated[name] != desired or name in self._forged
            if self._record_lost and doubtful and (self._annotation_lost or not self._recorded(name)):
                server.write(name, None)
        for _ in range(2):
            machine.uptime += LONGEST_BACKOFF - PAUSE
            self._make_pass("resync")
        condition = server.condition
        assert machine.right(), (server.capacity, server.annotation, condition)
        assert condition.get("status") == "True" or (not condition and not machine.readings), condition

    def check_truth(self) -> None:
        """The condition is not True while something is wrong, unless nobody lets it be written."""
        server = self.server
        assert (server.capacity["cpu"], server.capacity[THEIRS]) == ("8", "8")
        if any(alters.key == "condition" for alters in server.alters):
            return
        condition = server.condition
        # Without anything to publish, the annotation names nothing whatever becomes of it.
        annotation_altered = any(alters.key == "annotation" for alters in server.alters)
        unpublished = {n for n in NAMES if not isinstance(self.machine.readings.get(n), Quantity)}
        left = unpublished & (self._by_others.keys() | self._forgotten())
        assert self.machine.right(left, annotation_altered) or condition.get("status") != "True", (
            server.capacity,
            server.annotation,
            condition,
        )
        altered = {alters.key for alters in server.alters}  # undone by a mutating webhook, a change is never denied
        answering = {denies.name: denies for denies in reversed(server.denies) if denies.name not in altered}
        for name, denies in answering.items():
            reasons = {denies.reason(), *self._reasons.get(name, ())}
            denied = f"denied: {name}: " in condition.get("message", "")
            assert not denied or any(reason in condition["message"] for reason in reasons), condition

    def _forgotten(self) -> set[str]:
        """The keys that nothing names after the record and the annotation were lost: nobody knows whose they are."""
        if not (self._record_lost and self._annotation_lost):
            return set()
        return {name for name in NAMES if name not in self._annotated() and not self._recorded(name)}

    def _make_pass(self, reason: str) -> None:
        machine, before = self.machine, dict(self.server.capacity)
        machine.uptime += PAUSE
        ended = machine.make_pass(reason)
        after = self.server.capacity
        for name in {*before, *after}:
            if before.get(name) != after.get(name) != self._by_others.get(name, ...):
                self._by_others.pop(name, None)
        self._by_others |= {a.key: a.value for a in self.server.alters if a.key in after and after[a.key] == a.value}
        self._log(f"pass ({reason}): {machine.error if ended else f'killed {machine.killed}'}")
        self._log(f"  {self.server.annotation} {after} {self.server.condition.get('message')}")

    def _others_write(self, values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            self.server.write(name, value)
            self._by_others[name] = value

    def _change_record(self, how: str) -> None:
        record = self.machine.record
        if record.is_file() and not record.is_symlink() and _is_json(content := record.read_bytes()):
            self._kept = content
        self._record_lost |= bool(how) and how != "restored"
        if how == "restored":
            if self._kept is not None:
                remove(record)
                record.write_bytes(self._kept)
            elif not record.is_file():
                remove(record)
            remove_obstacle(record)
        elif how == "unwritable":
            record.with_name("published.json.new").mkdir(exist_ok=True)
        elif how in ("garbage", "name", "text", "float"):
            remove(record)
            record.write_text(self._corrupted(how))
            self._kept = None
        elif how:
            damage(record, how)
            self._kept = None if how == "missing" else self._kept

    def _corrupted(self, how: str) -> str:
        text = (self._kept or b"{}").decode()
        if how == "name":
            return text.replace("example.com/a", "example.com/q")
        if how in ("text", "float"):
            document = json.loads(text)
            for table in (document.get("published", {}), document.get("intended", {})):
                table.update({n: str(q) if how == "text" else float(q) for n, q in table.items()})
            return json.dumps(document)
        return "garbage"

    def _annotated(self) -> dict[str, int]:
        return _table(self.server.annotation)

    def _recorded(self, name: str) -> bool:
        if not self.machine.record.is_file():
            return False
        try:
            found = json.loads(self.machine.record.read_text())
            return name in found["published"] or name in found["intended"]
        except (OSError, ValueError, KeyError):
            return False


def _table(annotation: str | None) -> dict[str, int]:
    """What the annotation names; nothing if it cannot be read."""
    try:
        document = json.loads(annotation or "{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def run(history: Sequence[Step], log: Callable[[str], object] = note) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        machine = History(Path(folder), log)
        for step in history:
            log(repr(step))
            machine.take(step)
        machine.end()


DENIED = Denies(A, 403)


@example([Step({"c": 1}), Step({"a": 4, "b": 2, "c": 1}, denies=(DENIED,)), Step({"a": 4, "b": 3, "c": 1})])
@example([Step({"a": 4, "b": 1}), Step({"a": 5, "b": 2}, denies=(Denies(A, 422),))])
@example([Step({"a": 4, "b": 1}), Step({"a": 5, "b": 2}, denies=(Denies(A, 409),))])
@example([Step({"a": 4, "b": 1}), Step({"a": 5, "b": 2}, denies=(Denies(A, 409, "opaque"),))])
@example([Step({"a": 4, "b": 1}), Step({"a": 5, "b": 2}, denies=(Denies(A, 422, "opaque"),))])
@example([Step({"a": 4}), Step({"a": 5, "b": 2}, record="directory")])
@example([Step({"a": 4}), Step({"a": 5, "b": 2}, record="pipe")])
@example([Step({"a": 4}), Step({"a": 8, "b": 4}, alters=(Alters("annotation", None),))])
@example([Step({"a": 4}), Step({"b": 4}, alters=(Alters("annotation", '{"example.com/a":1}'),))])
@example(
    [
        Step({"a": 1, "b": 8}, denies=(DENIED, Denies(B, 409, "opaque"))),
        Step(denies=(Denies(B, 401, "policy"),), lost_answer=True, reason="config"),
    ]
)
@how_hard(suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(steps, min_size=1, max_size=6))
def test_any_history_ends_right(history: list[Step]) -> None:
    run(history)


def test_a_node_created_anew_is_not_rate_limited(tmp_path: Path) -> None:
    """However often that happens: it is another Node, which has not been written yet."""
    machine = Machine(tmp_path)
    machine.readings = readings(a=4)
    for _ in range(8):
        machine.server.register_anew()
        machine.uptime += 20.0
        machine.make_pass("kubelet")
        assert machine.right()
