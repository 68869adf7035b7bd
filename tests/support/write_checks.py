"""Checks of each write to a Node: what it touches, its guards, how often and how soon it comes.

The limits are those of docs/explanation.md and docs/limits.md. The checks use only time and what others can see.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from capacityd.model.label import is_label, label_of, resource_of
from capacityd.model.messages import PassResult
from capacityd.model.node import ANNOTATION, CONDITION, CONFIGURATION_ANNOTATION, stored_number
from capacityd.model.plan import MachineRecord
from capacityd.model.quantity import name_problem, parse_quantity, whole_quantity
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import RetryCause
from tests.support.denials import stored_of
from tests.support.model_server import LABELS, NAMES, ModelServer, our_conditions, record_of

if TYPE_CHECKING:
    from tests.support.model_machine import Machine

WRITES, PER_WRITE = 6, 60.0
"""A value that keeps changing is written WRITES times, then every PER_WRITE seconds. So is the condition."""
PER_REJECTION = 40.0
"""Seconds between two attempts while the API server rejects the writes, at least."""
BOOTING = 180.0
"""Seconds of uptime during which a lower quantity must last longer before it is published."""
ROUNDING = 0.01  # seconds


class WriteChecks:
    """Checks each pass of a machine and each write, and raises AssertionError for a wrong one."""

    def __init__(self, machine: Machine, server: ModelServer) -> None:
        self._machine, self._server = machine, server
        self.unknown_since: dict[str, float] = {}
        """Name -> the time since which each pass has found it unknown."""
        self._lower_since: dict[str, float] = {}  # name -> the time since which each pass has found it lower
        self._written: dict[str, list[float]] = {}  # name -> the times of its writes; "": writes that change no name
        self._node_uid = ""  # of the Node that was last written
        # About the current pass:
        self._readings: Mapping[str, Reading] = {}
        self._own: MachineRecord | None = None  # the machine record when the pass began
        self._names: set[str] = set()  # the names that the pass tried to write

    def forget(self) -> None:
        """The machine has lost the service's state in /run."""
        self.unknown_since, self._lower_since, self._written = {}, {}, {}

    def times_written(self, name: str, seconds: float) -> int:
        """How often this name was written within this number of seconds."""
        return sum(self._machine.uptime - at < seconds for at in self._written.get(name, ()))

    @property
    def lower_after(self) -> float:
        """Seconds for which a lower quantity must last before it is published."""
        settings = self._machine.configured.settings
        booting = self._machine.uptime < BOOTING
        return max(settings.lower_after, settings.lower_after_boot if booting else 0.0)

    # A pass

    def begin_pass(self) -> None:
        self._readings, self._own, self._names = self._machine.probe(), self._machine.own_record, set()
        self._note_lower()

    def end_pass(self, result: PassResult | None) -> None:
        uptime = self._machine.uptime
        if result or self._machine.killed == "after state.json":
            unknown = [name for name, reading in self._readings.items() if isinstance(reading, Unknown)]
            self.unknown_since = {name: self.unknown_since.get(name, uptime) for name in unknown}
        if not result or (result.failure and result.failure.cause is RetryCause.UNREACHABLE):
            return  # nobody knows which writes were carried out
        if uid := self._server.document and self._server.document["metadata"]["uid"]:
            self._written = self._written if uid == self._node_uid else {}
            self._node_uid = uid
        rejected = result.failure is not None and result.failure.cause is RetryCause.REJECTED
        for name in self._names - {""} or self._names:  # the condition is limited only while no number changes
            times = self._written[name] = [*self._written.get(name, ())[-20:], uptime]
            for number, at in enumerate(times):
                most = WRITES + (uptime - at) / (PER_REJECTION if rejected else PER_WRITE)
                assert len(times) - number <= most, f"{name or 'the condition'} was written too often: {times}"

    def _note_lower(self) -> None:
        record, capacity = self._server.record(), self._server.capacity
        lower: dict[str, float] = {}
        for name in NAMES:
            reading = self._readings.get(name)
            if isinstance(reading, Quantity):
                before = record[name] if name in record else whole_quantity(capacity.get(name, "0")) or 0
                if reading.value >= before:
                    continue
            elif isinstance(reading, Unknown):
                continue
            lower[name] = self._lower_since.get(name, self._machine.uptime)
        self._lower_since = lower

    # A write

    def check_write(self, before: dict[str, Any], after: dict[str, Any], patch: Sequence[Mapping[str, object]]) -> None:
        """Checks a write of the worker before admission, which may still deny it."""
        config, plugins = self._machine.configured, self._machine.known_plugins
        assert not config.settings.observe
        check_guards(patch)
        check_unread(after, patch, keeps_condition=config.settings.condition)
        _check_rest(before, after)
        every = (*NAMES, *LABELS)
        limited = {name for name in every if self.times_written(name, WRITES * PER_WRITE) >= WRITES}
        check_true(before, after, {name: reading for name, reading in self._readings.items() if name not in limited})
        old, new = stored_of(before), stored_of(after)
        if not self._readings and any(name in new for name in _record(after)):
            assert not _becomes_true(before, after), "nothing configures what is published"
        own = _about(self._own, before)
        # The first attempt of a pass has recorded what it found: the annotation's content, or an intended quantity.
        kept = kept_quantities(self._machine.own_record, before) | kept_quantities(own, before)
        record = kept | _record(before) | agreed_quantities(own, before)
        record_after = _record(after)
        adopt = {name for r in config.resources if r.adopt for name in (r.name, label_of(r.name))}
        for name in record_after.keys() - _record(before).keys() - self._server.ever_published - adopt:
            assert name not in old, f"{name}, another writer's key, was taken over"
        allocatable = before["status"]["allocatable"], after["status"]["allocatable"]
        changed, allocated = changed_names(old, new), changed_names(*allocatable)
        for name in changed | allocated:
            assert name in every, f"{name} is neither an extended resource of ours nor its label"
            assert name not in (plugins or ()), f"{name} is a device plugin's"
            followed = new if is_label(name) else allocatable[1]
            assert new.get(name) == followed.get(name), f"{name}: allocatable differs from capacity"
            self._check_label(name, new.get(name), record_after)
        for name in allocated:
            assert name in record or name in record_after, f"allocatable of {name}, which is not published, was changed"
        for name in changed:
            check_change(
                name,
                old.get(name),
                new.get(name),
                record.get(name),
                self._reading(name, record_after),
                own,
                plugins,
                adopt,
            )
            assert new.get(name) == (str(record_after[name]) if name in record_after else None)
            self._check_lower(name, old.get(name), new.get(name), record.get(name))
        for name, number in record_after.items():
            if number not in (record.get(name), _record(before).get(name)):
                assert whole_quantity(new.get(name, "")) == number, f"{name}: the record differs from capacity"
        self._names |= (changed | allocated) or {""}

    def _reading(self, name: str, record_after: Mapping[str, int]) -> Reading | None:
        """What decides about a name: about a label, the published quantity, and whether the resource is unknown."""
        resource = resource_of(name)
        if not is_label(name) or isinstance(self._readings.get(resource), Unknown):
            return self._readings.get(resource)
        return Quantity(record_after[resource]) if resource in record_after else Absent("not published")

    def _check_label(self, name: str, new: str | None, record_after: Mapping[str, int]) -> None:
        """A label that is written is configured, and has the published number. While the resource is unknown, a label
        may only come back."""
        resource = resource_of(name)
        if not is_label(name) or new is None or isinstance(self._readings.get(resource), Unknown):
            return
        assert name in self._machine.configured.labels(), f"{name} is not configured"
        assert new == str(record_after.get(resource)) == str(record_after.get(name)), f"{name} is {new}"

    def _check_lower(self, name: str, old: str | None, new: str | None, recorded: int | None) -> None:
        if old is None or is_label(name) or self._server.annotated_by_others:
            return
        less = whole_quantity(new or "0") or 0
        if less < (whole_quantity(old) or 0) and (recorded is None or less < recorded or new is None):
            lower_for = self._machine.uptime - self._lower_since[name]
            assert lower_for >= self.lower_after - ROUNDING, f"{name} was lowered early"
            assert not self._machine.record_unreadable, f"{name} was lowered while the record could not be read"


def agreed_quantities(own: MachineRecord | None, node: Mapping[str, Any]) -> dict[str, int]:
    """The quantities on the Node that the machine record of this Node confirms, whatever the annotation lists."""
    own = _about(own, node)
    numbers = {name: stored_number(name, text) for name, text in stored_of(node).items()}
    return {n: q for n, q in numbers.items() if own and q is not None and own.confirms(n, q)}


def kept_quantities(own: MachineRecord | None, node: Mapping[str, Any]) -> dict[str, int]:
    """The quantities that the machine record lists for this Node, except those that somebody else claims.

    Others claim a key if the annotation is readable and omits it, and the key's value is not zero.
    """
    own = _about(own, node)
    if own is None:
        return {}
    names, stored = readable_names(_annotation(node)), stored_of(node)
    return {
        name: quantity
        for name, quantity in own.published.items()
        if names is None or name in names or name not in stored or (stored[name] == "0" and not is_label(name))
    }


def _about(record: MachineRecord | None, node: Mapping[str, Any]) -> MachineRecord | None:
    """The machine record, if it is about this Node. Whatever another record contains, nothing on this Node is ours."""
    return record if record and record.node_uid == node["metadata"]["uid"] else None


def readable_names(annotation: str | None) -> Collection[str] | None:
    """The names in an annotation; None if the annotation is missing or unreadable."""
    try:
        content = json.loads(annotation or "")
    except ValueError:
        return None
    return content.keys() if isinstance(content, dict) else None


def changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def check_true(before: dict[str, Any], after: dict[str, Any], readings: Mapping[str, Reading]) -> None:
    """The condition only becomes True if no resource is unknown, and all quantities are published and allocatable.

    No write leaves it True beside a published quantity that is not on the Node, unless a reduction is due.
    """
    record, capacity, allocatable = _record(after), after["status"]["capacity"], after["status"]["allocatable"]
    is_true = next(iter(our_conditions(after)), {}).get("status") == "True"
    lower = {name for name, reading in readings.items() if is_reduction(name, reading, after)}
    for name, quantity in record.items() if is_true and before != after else ():
        if isinstance(readings.get(name), Quantity) and name not in lower:
            assert whole_quantity(capacity.get(name, "")) == quantity, f"{name} is not published"
            assert (whole_quantity(allocatable.get(name, "")) or 0) >= quantity, f"{name} is not allocatable"
    if not _becomes_true(before, after):
        return
    for name, quantity in record.items():
        if is_label(name):
            assert stored_of(after).get(name) == str(quantity), f"{name} differs from what is published"
        else:
            assert (whole_quantity(allocatable[name]) or 0) >= quantity, f"{name} is not allocatable"
    for name, reading in readings.items():
        assert not isinstance(reading, Unknown), f"{name} is unknown"
        published = name in record and whole_quantity(capacity.get(name, "")) == record[name]
        assert published or name in lower or not isinstance(reading, Quantity), f"{name} is not published"


def is_reduction(name: str, reading: Reading | None, node: Mapping[str, Any]) -> bool:
    """Whether a reading is lower than all that the Node says of it: what was published, and its present values. Until
    the reduction has lasted, this stays as it is, even if another writer has changed it."""
    recorded = _record(node).get(name)
    stored = [node["status"][part].get(name) for part in ("capacity", "allocatable")]
    if not isinstance(reading, Quantity) or recorded is None or None in stored:
        return False
    return reading.value < recorded and all(_is_below(reading.value, quantity) for quantity in stored)


def _is_below(number: int, quantity: str) -> bool:
    """Whether a number is below a stored quantity, which need not be a whole number."""
    numerator, denominator = parse_quantity(quantity)
    return number * denominator < numerator


def _becomes_true(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether this write sets the condition to True, or refreshes it as True."""
    was, written = (next(iter(our_conditions(node)), None) for node in (before, after))
    return written is not None and written != was and written["status"] == "True"


def check_change(
    name: str,
    old: str | None,
    new: str | None,
    recorded: int | None,
    reading: Reading | None,
    machine: MachineRecord | None,
    plugins: Collection[str] | None,
    adopt: Collection[str],
) -> None:
    """Checks a changed key: capacityd owns it or may create it, and an unknown reading never lowers it.

    recorded: the quantity in the Node's annotation. machine: the machine record.
    """
    assert not name_problem(resource_of(name))
    assert name not in (plugins or ()), f"{name} is a device plugin's"
    ours = recorded is not None and (machine is None or machine.has(name))
    adopted = (plugins is not None or is_label(name)) and name in adopt
    if plugins is None and recorded is not None and old is not None and not is_label(name):
        assert whole_quantity(old) == recorded, f"{name}, which may be a device plugin's by now, was changed"
    assert ours or (isinstance(reading, Quantity) and (old is None or adopted))
    if new is None or isinstance(reading, Unknown):
        assert recorded is not None
        confirmed = reading is not None if machine is None else machine.confirms(name, recorded)
        assert confirmed, f"{name}: only the Node's record names it as ours"
    if new is None:
        left = (recorded,) if is_label(name) else (recorded, 0)
        assert stored_number(name, old) in left, f"{name}: another's value was removed"
    if isinstance(reading, Unknown):
        lost = old is None or (whole_quantity(old) == 0 != recorded and not is_label(name))
        assert lost, f"{name}: unknown was published as less"
        assert new == str(recorded)


def check_guards(patch: Sequence[Mapping[str, object]]) -> None:
    """Checks a patch: it first tests all that it touches, and it touches nothing else of the Node."""
    kinds, tested = [o["op"] for o in patch], {o["path"] for o in patch if o["op"] == "test"}
    assert kinds == sorted(kinds, key=lambda op: op != "test"), "all tests come first"
    assert not patch or patch[0]["path"] == "/metadata/uid"
    for operation in patch:
        path = str(operation["path"])
        ours = "/metadata/uid", "/metadata/annotations", "/metadata/labels", "/status/capacity", "/status/allocatable"
        if operation["op"] == "test" and path == "/metadata/resourceVersion":
            continue
        assert path.startswith((*ours, "/status/conditions"))
        assert path in tested or path == "/status/conditions/-"


def check_unread(after: dict[str, Any], patch: Sequence[Mapping[str, object]], *, keeps_condition: bool) -> None:
    """Checks the guards that a patch needs because the Node was not read just before.

    No other writer has added a condition of capacityd's type. A condition that is True after the patch is right for the
    published quantities as they are then. keeps_condition: as configured; if not, only another agent sets a condition.
    """
    tested = {o["path"] for o in patch if o["op"] == "test"}
    if any(o["path"] == "/status/conditions/-" for o in patch):
        assert "/metadata/resourceVersion" in tested, "nothing guards the new condition"
    conditions = our_conditions(after)
    assert len(conditions) <= 1, "there are two conditions of capacityd's type"
    if patch and keeps_condition and conditions and conditions[0]["status"] == "True":
        for name in _record(after):
            parents = ("/metadata/labels",) if is_label(name) else ("/status/capacity", "/status/allocatable")
            for parent in parents:
                path = f"{parent}/{resource_of(name).replace('/', '~1')}"
                assert path in tested or parent in tested, f"True, but nothing guards {path}"


def _check_rest(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Only capacity, allocatable, labels of resources, and capacityd's annotation and condition may differ."""

    def rest(node: dict[str, Any]) -> object:
        annotations = {
            k: v for k, v in node["metadata"]["annotations"].items() if k not in (ANNOTATION, CONFIGURATION_ANNOTATION)
        }
        status = {k: v for k, v in node["status"].items() if k not in ("capacity", "allocatable")}
        status["conditions"] = [c for c in status["conditions"] if c["type"] != CONDITION]
        labels = {k: v for k, v in (node["metadata"].get("labels") or {}).items() if k not in NAMES}
        metadata = {**node["metadata"], "annotations": annotations, "labels": labels}
        return {**node, "metadata": metadata, "status": status}

    assert rest(before) == rest(after)


def _annotation(node: Mapping[str, Any]) -> str | None:
    text: str | None = node["metadata"].get("annotations", {}).get(ANNOTATION)
    return text


def _record(node: Mapping[str, Any]) -> dict[str, int]:
    return record_of(_annotation(node))
