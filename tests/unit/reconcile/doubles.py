"""A Node in memory, and a service that makes one pass after another on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from capacityd.model.errors import NodeError, NodeUnreachable, StateError
from capacityd.model.node import Event, Node, NodeState
from capacityd.model.plan import MachineRecord, Plan
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.model.watch import WatchedNode
from capacityd.node.documents.node import node_state
from capacityd.reconcile.apply import RecordFile
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.reconcile import Access, reconcile
from capacityd.reconcile.result import ReconcileResult
from capacityd.schema.config import Config, Resource, Settings
from tests.support.nodes import apply_patch, node

A, B = "example.com/a", "example.com/b"
EPOCH = 1_700_000_000.0
FOUR, ABSENT, UNKNOWN = Quantity(4), Absent("none"), Unknown("busy")


class MemoryNode:
    """A Node in memory. lose: how many responses to writes get lost; drop: how many writes never arrive.

    errors: the exceptions of the next requests, in turn; None: the request succeeds. lags: the allocatable values that
    the kubelet sets before each read. between: called once, just before a write.
    """

    name = "n1"

    def __init__(self, *errors: NodeError | None) -> None:
        self.document = node()
        self.errors = list(errors)
        self.event_error: NodeError | None = None
        self.reads = self.writes = self.lose = self.drop = 0
        self.events: list[str] = []
        self.lags: dict[str, str] = {}
        self.between: Callable[[], None] | None = None

    def read(self) -> NodeState:
        self.reads += 1
        self._fail()
        self.document["status"]["allocatable"] |= self.lags
        return self.state()

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        self._fail()
        if self.drop:
            self.drop -= 1
            raise NodeUnreachable("it was lost")
        if self.between:
            self.between()
            self.between = None
        self.document = apply_patch(self.document, patch)
        self.writes += 1
        if self.lose:
            self.lose -= 1
            raise NodeUnreachable("the answer was lost")
        return self.state()

    def report(self, event: Event, state: NodeState) -> None:
        self.events.append(event.message)
        if self.event_error:
            raise self.event_error

    @property
    def our_condition(self) -> tuple[str, str, str]:
        """The status, reason and message of capacityd's condition."""
        condition = self.state().condition
        assert condition is not None
        return condition.status, condition.reason, condition.message

    def _fail(self) -> None:
        if self.errors and (error := self.errors.pop(0)):
            raise error

    def check(self, state: NodeState) -> None:
        """Accepts every Node."""

    def state(self) -> NodeState:
        return node_state(self.document)


class WithoutConditions(MemoryNode):
    """A Node on an API server whose webhook removes all conditions from writes. removes: whether it does so now."""

    removes = True

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        super().write(patch)
        if self.removes:
            self.document["status"]["conditions"] = []
        return self.state()


def held(result: ReconcileResult) -> dict[str, float]:
    """Name -> seconds for which its change will still be held back."""
    return {wait.name: wait.until - result.uptime for wait in result.waits if wait.holds_change}


class Service:
    """Makes one pass after another. Each gets the state that the previous pass returned."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.node = MemoryNode()
        self.memory = Memory()
        self.watched = False  # whether each pass knows the Node as it is
        self.watched_state: NodeState | None = None  # what each pass takes for the Node
        self.error: NodeError | None = None
        self.opened = 0
        self.adopt: Collection[str] = ()
        self.complete = True
        self.plugins: Collection[str] | None = ()
        self.record: MachineRecord | None = None
        self.save_error = self.full = ""
        self.configuration_errors: tuple[str, ...] = ()
        self.expect: dict[str, int] = {}
        self.digest = "first"

    def reconcile(self, at: float, reasons: Collection[str] = ("boot",), **readings: Reading) -> ReconcileResult:
        """Makes a pass at this uptime. a, b: the readings of the two resources."""
        read: Mapping[str, Reading] = {f"example.com/{name}": reading for name, reading in readings.items()}
        resources = tuple(
            Resource(name, "static", (), adopt=name in self.adopt, expect=self.expect.get(name)) for name in read
        )
        config = Config(resources, self.settings, complete=self.complete, digest=self.digest)
        facts = Facts(
            read,
            config,
            now=EPOCH + at,
            uptime=at,
            reasons=frozenset(map(PassReason, reasons)),
            watched=self._watched_node(at),
            machine_record=self.record,
            configuration_errors=self.configuration_errors,
            save_error=self.save_error,
            memory=self.memory,
        )
        access = Access(self._open, self._plugins, RecordFile(self._intend, self._replace))
        result = reconcile(facts, access)
        plan = result.outcome.plan if result.outcome else None
        if plan and plan.write.recorded is not None and not self.settings.observe:
            uid = plan.confirmed_record.node_uid
            self.record = MachineRecord(plan.write.recorded, reported=plan.write.reported, node_uid=uid)
        self.memory = result.memory
        return result

    def _watched_node(self, at: float) -> WatchedNode | None:
        state = self.node.state() if self.watched else self.watched_state
        return WatchedNode(state, "n1", at) if state else None

    def _replace(self, record: MachineRecord | None) -> None:
        self.record = record

    def _intend(self, record: MachineRecord | None, plan: Plan) -> MachineRecord | None:
        if self.full:
            raise StateError(self.full)
        if plan.write.recorded is not None:
            self.record = record = replace(plan.confirmed_record, intended=plan.write.recorded)
        return record

    def _plugins(self) -> Collection[str] | None:
        return self.plugins

    def _open(self) -> Node:
        self.opened += 1
        if self.error:
            raise self.error
        return self.node

    @property
    def condition(self) -> str:
        return self.node.our_condition[0]

    @property
    def capacity(self) -> dict[str, str]:
        capacity: dict[str, str] = self.node.document["status"]["capacity"]
        return capacity

    @property
    def allocatable(self) -> dict[str, str]:
        allocatable: dict[str, str] = self.node.document["status"]["allocatable"]
        return allocatable
