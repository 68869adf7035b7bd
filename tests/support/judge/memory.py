"""The judge's memory of what has happened: who wrote each value, what capacityd owns, and since when.

The program under test cannot see this memory. An entry is a resource, or its label (node_view).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from tests.support.judge import node_view as view
from tests.support.judge.surroundings import Configuration, Document, Trouble, Writer

KEPT = 20
"""How many times of each kind are remembered: more than any promise looks at."""
BOOT_SECONDS = 180.0
"""Seconds after a boot during which lower_after_boot counts."""

_OF_THE_NODE = ("ours", "published", "written_by", "annotated_by_others")
"""The attributes that belong to a state of the Node, and so return with a backup of the cluster."""


@dataclass(frozen=True, slots=True)
class Span:
    """When a trouble began and ended, and the entries that it concerned. No entries: it concerned everything."""

    began: float
    ended: float
    entries: frozenset[str]

    def concerns(self, entry: str) -> bool:
        """Whether the trouble concerns an entry or its resource. "" stands for any entry."""
        about = {entry, view.resource_of(entry)}
        return not self.entries or not entry or not self.entries.isdisjoint(about)


@dataclass
class Memory:
    """What the judge remembers. Times are in seconds. "Ours" means: capacityd's."""

    at: float = 0.0
    booted_at: float = -inf
    configuration: Configuration = field(default_factory=Configuration)
    readings: dict[str, Reading] = field(default_factory=dict)
    """The true readings of the machine."""
    pass_readings: dict[str, Reading] = field(default_factory=dict)
    """The readings that the last pass got."""
    node: Document | None = None
    seen_nodes: list[Document | None] = field(default_factory=list)
    """The states of the Node that capacityd has seen, the last one at the end."""
    ours: set[str] = field(default_factory=set)
    """The entries that capacityd has created or adopted on this Node, and has not given up."""
    published: dict[str, int] = field(default_factory=dict)
    """The number that capacityd wrote last, by entry."""
    written_by: dict[str, Writer] = field(default_factory=dict)
    """Who wrote the present value, by entry."""
    forgotten: set[str] = field(default_factory=set)
    """Our entries that capacityd has forgotten, and has not found again in the annotation."""
    orphaned: set[str] = field(default_factory=set)
    """Our entries that were at some time both forgotten and missing in the annotation."""
    annotated_by_others: set[str] = field(default_factory=set)
    """The entries that another writer has put into the annotation of this Node."""
    remembers: bool = False
    """Whether capacityd remembers what it has published on this Node."""
    believed: set[str] = field(default_factory=set)
    """Entries that another writer has put into the annotation, and that capacityd has read there as its own."""
    lower_since: dict[str, float] = field(default_factory=dict)
    """Since when every pass has read less than the published number, by entry."""
    plugins: frozenset[str] = frozenset()
    """The names that device plugins have registered."""
    troubles: dict[Trouble, Span] = field(default_factory=dict)
    """The present troubles."""
    ended: dict[Trouble, Span] = field(default_factory=dict)
    """The last span of each trouble that has ended."""
    noticed: dict[str, float] = field(default_factory=dict)
    """When capacityd last noticed a change that no event had reported, by entry."""
    changed_at: float = -inf
    """When the machine, the configuration, or the Node (by another writer) last changed."""
    overwritten: list[float] = field(default_factory=list)
    """The last times at which others have changed the Node."""
    heard_at: float = -inf
    """When the service last received an event."""
    pass_began_at: float = -inf
    passes: list[float] = field(default_factory=list)
    """The times at which the last passes have read the machine."""
    passes_with_write: list[float] = field(default_factory=list)
    """The times of the last passes that wrote the Node."""
    requests: list[float] = field(default_factory=list)
    """The times of the last passes that sent a request."""
    _backup: dict[str, Any] = field(default_factory=dict)

    def lower_after(self, at: float) -> float:
        """The seconds for which a reading must stay lower before the number may fall."""
        configuration = self.configuration
        is_boot = at - self.booted_at < BOOT_SECONDS
        return max(configuration.lower_after, configuration.lower_after_boot if is_boot else 0.0)

    def is_configured(self, entry: str) -> bool:
        """Whether the configuration has an entry."""
        resource = self.configuration.resources.get(view.resource_of(entry))
        return resource is not None and (resource.label or not view.is_label(entry))

    def is_named(self, resource: str) -> bool:
        """Whether the configuration has a resource, with or without an error."""
        return self.is_configured(resource) or resource in self.configuration.broken

    def is_adopted(self, entry: str) -> bool:
        """Whether the configuration takes an entry over from another writer."""
        return self.is_configured(entry) and self.configuration.resources[view.resource_of(entry)].adopt

    def reading(self, entry: str, readings: dict[str, Reading]) -> Reading:
        """The reading that decides about an entry.

        A resource with an error in the configuration is unknown. So is one that an unreadable file may configure.
        """
        resource, configuration = view.resource_of(entry), self.configuration
        if resource in configuration.broken:
            return Unknown("an error in the configuration")
        if self.is_configured(entry):
            return readings.get(resource, Absent("no reading"))
        return Absent("not configured") if configuration.may_remove else Unknown("perhaps configured")

    def is_of_plugin(self, entry: str) -> bool:
        """Whether a device plugin has registered an entry."""
        return entry in self.plugins

    def may_write(self, entry: str) -> bool:
        """Whether capacityd may change a key that has a value: the key is ours, or the configuration adopts it."""
        return not self.is_of_plugin(entry) and (entry in self.ours or self.is_adopted(entry))

    def after(self, before: Document, after: Document) -> Memory:
        """The judge's memory as it would be if a PATCH turned the Node from `before` into `after`."""
        memory = replace(
            self,
            ours={*self.ours},
            published={**self.published},
            forgotten={*self.forgotten},
            orphaned={*self.orphaned},
            annotated_by_others={*self.annotated_by_others},
            believed={*self.believed},
        )
        memory._note_published(before, after)
        return memory

    # Changes

    def read(self, at: float, readings: dict[str, Reading]) -> None:
        """A pass reads the machine."""
        self.pass_readings, self.pass_began_at = readings, at
        self.passes = [*self.passes, at][-KEPT:]
        del self.seen_nodes[:-2]
        self._note_lower()

    def see(self, node: Document | None) -> None:
        """capacityd gets the Node."""
        self.seen_nodes.append(node)
        remembered = self.ours if self.remembers else set()
        self.believed |= self.annotated_by_others - remembered

    def begin(self, trouble: Trouble, entries: frozenset[str]) -> None:
        known = self.troubles.get(trouble)
        if known and trouble is Trouble.SOURCES:
            self.noticed |= dict.fromkeys(known.entries - entries, self.at)  # these changes are no longer missed
        self.troubles[trouble] = Span(known.began if known else self.at, inf, entries)

    def end(self, trouble: Trouble) -> None:
        if known := self.troubles.pop(trouble, None):
            self.ended[trouble] = replace(known, ended=self.at)
            if trouble is Trouble.SOURCES:
                self.noticed |= dict.fromkeys(known.entries, self.at)

    def is_recent(self, trouble: Trouble, *, within: float) -> bool:
        """Whether the trouble is present, or has ended at most this number of seconds ago."""
        if trouble in self.troubles:
            return True
        return trouble in self.ended and self.at - self.ended[trouble].ended <= within

    def spans(self, entry: str) -> list[Span]:
        """The ended troubles that concern an entry. "" stands for any entry."""
        return [span for span in self.ended.values() if span.concerns(entry)]

    def forget(self) -> None:
        """capacityd forgets everything, including the times of its writes and of lower readings."""
        self.remembers = False
        self.forgotten |= self.ours
        self.passes_with_write, self.lower_since = [], {}
        self._note_orphans()

    def remember(self) -> None:
        """capacityd remembers what the annotation lists."""
        if self.seen_nodes and not self.configuration.observe:
            self.remembers = True
            self.forgotten -= view.published(self.seen_nodes[-1]).keys()

    def note_patch(self) -> None:
        """Notes that capacityd sends a PATCH. All PATCHes of one pass count as one write.

        While the API server fails, no PATCH counts: nobody knows whether it was stored, so capacityd may repeat it.
        """
        times = self.passes_with_write
        if Trouble.API not in self.troubles and (not times or times[-1] < self.pass_began_at):
            times.append(self.at)
            del times[:-KEPT]

    def change(self, node: Document | None, by: Writer, intended: Document | None) -> None:
        """The Node changes. intended: the Node that capacityd's PATCH should lead to. None: another writer's change."""
        before = self.node
        if view.uid(node) != view.uid(before):
            self._new_node(node)
        old, new = view.stored(before), view.stored(node)
        for name in changed(old, new):
            altered = intended is not None and view.stored(intended).get(name) != new.get(name)
            self.written_by[name] = Writer.OTHER if altered else by
        self.node = node
        if intended is not None:
            ours = {*self.ours}
            self._note_published(before, intended)
            self._note_altered(ours, view.stored(intended), new)
            self._note_annotated_by_others(intended)  # a webhook may have added keys to the annotation
        else:
            self.changed_at = self.at
            self.overwritten = [*self.overwritten, self.at][-KEPT:]
            self._note_annotated_by_others(before)
        self._note_orphans()

    def back_up(self) -> None:
        """The cluster is backed up."""
        self._backup = {name: copy.deepcopy(getattr(self, name)) for name in _OF_THE_NODE}

    def restore(self, node: Document | None) -> None:
        """The cluster is restored."""
        self.node, self.changed_at = node, self.at
        for name, value in copy.deepcopy(self._backup).items():
            setattr(self, name, value)
        self._note_orphans()

    def _new_node(self, node: Document | None) -> None:
        """Nothing on a new Node is ours."""
        self.ours, self.published, self.lower_since = set(), {}, {}
        self.forgotten, self.orphaned = set(), set()
        self.annotated_by_others, self.written_by = {*view.published(node)}, {}
        self.remembers, self.believed = False, set()
        self.passes_with_write = []

    def _note_published(self, before: Document | None, intended: Document) -> None:
        """capacityd's PATCH turns one Node into another. Notes which entries become ours, and which are given up."""
        old, new, listed = view.stored(before), view.stored(intended), view.published(intended)
        for name, quantity in listed.items():
            is_created = name not in old and name in new
            if is_created or self.is_adopted(name):
                self.ours.add(name)
            self.published[name] = quantity
            if name in new:
                self.forgotten.discard(name)
                self.orphaned.discard(name)
        for name in self.ours - listed.keys():
            is_of_others = self.written_by.get(name, Writer.CAPACITYD) is not Writer.CAPACITYD
            is_left_to_others = is_of_others and old.get(name) == new.get(name)
            if name not in new or is_left_to_others or self.is_of_plugin(name):
                self._give_up(name)
        by_others = (self.believed | self.annotated_by_others) & view.published(before).keys()
        for name in (self.orphaned | by_others) - listed.keys():
            self._give_up(name)
        self._note_lower()

    def _note_altered(self, ours: set[str], intended: dict[str, str], stored: dict[str, str]) -> None:
        """A webhook has altered a PATCH. An altered entry stays ours, with the number that is stored."""
        for name in (ours | self.ours) & changed(intended, stored) & stored.keys():
            self.ours.add(name)
            self.published[name] = view.number(name, stored[name]) or 0

    def _give_up(self, name: str) -> None:
        """The entry is no longer capacityd's."""
        for names in (self.ours, self.forgotten, self.orphaned, self.annotated_by_others, self.believed):
            names.discard(name)
        self.published.pop(name, None)

    def _note_annotated_by_others(self, expected: Document | None) -> None:
        """Notes the entries that another writer has put into the annotation. expected: the Node without them."""
        expected_numbers = view.published(expected)
        for name, quantity in view.published(self.node).items():
            if expected_numbers.get(name) != quantity:
                self.annotated_by_others.add(name)

    def _note_orphans(self) -> None:
        self.orphaned |= self.forgotten - view.published(self.node).keys()

    def _note_lower(self) -> None:
        """Notes for which entries the last pass has read less than the published number."""
        self.lower_since = {
            name: self.lower_since.get(name, self.pass_began_at)
            for name, quantity in self.published.items()
            if is_lower(self.reading(name, self.pass_readings), quantity)
        }


def is_lower(reading: Reading, quantity: int) -> bool:
    """Whether a reading is less than a published quantity. Absent is less, unknown is not."""
    if isinstance(reading, Quantity):
        return reading.value < quantity
    return isinstance(reading, Absent)


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """The entries whose texts differ."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
