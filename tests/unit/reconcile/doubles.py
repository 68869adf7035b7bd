"""Test doubles for whole passes: a Node on a made-up API server, and a service that makes passes on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from capacityd.model.errors import NodeConflict, NodeError, NodeRejected, NodeUnreachable
from capacityd.model.key import Key
from capacityd.model.node import ANNOTATION, Event, NodeState, Patch
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.documents.node import node_state
from capacityd.node.documents.patch import patched
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.reconcile import Pass, PassEnd
from capacityd.schema.config import Config, Resource, Settings
from tests.support.nodes import node

A, B = "example.com/a", "example.com/b"
EPOCH = 1_700_000_000.0  # 2023-11-14T22:13:20Z
FOUR, ABSENT, UNKNOWN = Quantity(4), Absent("none"), Unknown("busy")


class ServerNode:
    """A Node on a made-up API server, which rejects a patch of an old version.

    A test makes policies, webhooks, other writers and failures act on it.
    """

    def __init__(self) -> None:
        self.document = node()
        self.errors: list[NodeError | None] = []
        """The results of the next requests, in turn: an error, or None for success."""
        self.denies: Callable[[Patch], str] = lambda _: ""
        """An admission policy. It returns why it rejects a patch, or "" to accept it."""
        self.alters: Callable[[dict[str, Any]], None] = lambda _: None
        """A mutating webhook. It changes the patched Node before it is stored."""
        self.before_write: list[Callable[[], None]] = []
        """What other writers do just before the next patches, in turn: one call for each patch."""
        self.loses_responses = False
        """Whether a patch is stored but its response is lost."""
        self.reads = 0
        self.patches: list[Patch] = []
        """The patches that were stored."""
        self.attempts = 0
        """How many patches were sent."""
        self.events: list[Event] = []

    def identify(self) -> str:
        return "n1"

    def read(self) -> NodeState:
        self.reads += 1
        self._fail()
        return self.state

    def write(self, patch: Patch) -> NodeState:
        self.attempts += 1
        self._fail()
        if self.before_write:
            self.before_write.pop(0)()
        if patch.resource_version != self.document["metadata"]["resourceVersion"]:
            raise NodeConflict("the Node has changed")
        if why := self.denies(patch):
            raise NodeRejected(f"refused: {why}", reason=why)
        document = patched(self.document, patch)
        self.alters(document)
        if document != self.document:
            self.change(document)
        self.patches.append(patch)
        if self.loses_responses:
            raise NodeUnreachable("the response was lost")
        return self.state

    def report(self, event: Event, state: NodeState) -> None:
        self.events.append(event)

    def change(self, document: dict[str, Any] | None = None) -> None:
        """Stores another document, or the current one after a change, with a new version."""
        if document is not None:
            self.document = document
        version = int(self.document["metadata"]["resourceVersion"]) + 1
        self.document["metadata"]["resourceVersion"] = str(version)

    def set(self, name: str, capacity: str | None, allocatable: str | None) -> None:
        """Another writer sets both numbers of a resource. None: it removes the number."""
        for place, text in (("capacity", capacity), ("allocatable", allocatable)):
            numbers = self.document["status"][place]
            if text is None:
                numbers.pop(name, None)
            else:
                numbers[name] = text
        self.change()

    def annotate(self, text: str | None) -> None:
        """Another writer sets the annotation. None: it removes the annotation."""
        annotations = self.document["metadata"]["annotations"]
        annotations.pop(ANNOTATION, None)
        if text is not None:
            annotations[ANNOTATION] = text
        self.change()

    @property
    def state(self) -> NodeState:
        return node_state(self.document)

    @property
    def numbers(self) -> dict[str, str | None]:
        """The number of each resource: "4", or "4/3" if capacity and allocatable differ."""
        capacity, allocatable = self.state.capacity, self.state.allocatable
        names = sorted(capacity.keys() | allocatable.keys())
        texts = {name: self.state.stored(Key(name)).text for name in names}  # such as "4 (allocatable 3)"
        return {name: text.replace(" (allocatable ", "/").rstrip(")") for name, text in texts.items()}

    @property
    def condition(self) -> tuple[str, str]:
        """The status and the reason of the only condition."""
        (condition,) = self.state.conditions
        return condition.status, condition.reason

    @property
    def message(self) -> str:
        """The message of the only condition."""
        (condition,) = self.state.conditions
        return condition.message

    def _fail(self) -> None:
        if self.errors and (error := self.errors.pop(0)):
            raise error


class Service:
    """Makes passes. Each pass gets the memory of the pass before."""

    def __init__(self, node: ServerNode | None = None) -> None:
        self.node = node or ServerNode()
        self.memory = Memory()
        self.settings = Settings()
        self.adopt: Collection[str] = ()
        self.labels: Collection[str] = ()
        self.expect: Mapping[str, int] = {}
        self.complete = True  # whether the configuration has been read completely
        self.errors: tuple[str, ...] = ()  # those of the configuration
        self.plugins: Collection[str] | None = ()  # names with a device plugin; None: the list is unreadable
        self.digest = "first"  # the hash of the configuration
        self.lower_after = 10.0
        self.heartbeat_after: float | None = None
        self.may_send_nothing = False  # True: a pass that finds nothing new does not read the Node
        self.resets_limits = False  # True: each pass runs as after a reload

    def make_pass(self, at: float, **readings: Reading) -> PassEnd:
        """Makes a pass at this uptime. A reading a=... is of the resource example.com/a, which is then configured."""
        by_name = {f"example.com/{name}": reading for name, reading in readings.items()}

        def inputs_of(read: Mapping[str, Reading]) -> Inputs:
            return Inputs(
                self._config(read),
                read,
                self.errors,
                now=EPOCH + at,
                uptime=at,
                lower_after=self.lower_after,
                heartbeat_after=self.heartbeat_after,
            )

        end = Pass(
            self.node,
            read_machine=lambda _: by_name,
            inputs_of=inputs_of,
            device_plugins=lambda: self.plugins,
            memory=self.memory,
            writes=not self.settings.observe,
            may_send_nothing=self.may_send_nothing,
            resets_limits=self.resets_limits,
        ).run()
        self.memory = end.memory
        return end

    def restart(self) -> None:
        """Starts the service again, without its memory."""
        self.memory = Memory()

    def _config(self, readings: Mapping[str, Reading]) -> Config:
        resources = tuple(
            Resource(
                name,
                "static",
                (),
                adopt=name in self.adopt,
                label=name in self.labels,
                expect=self.expect.get(name),
            )
            for name in readings
        )
        return Config(resources, self.settings, complete=self.complete, digest=self.digest)
