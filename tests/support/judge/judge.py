"""The judge is told what happens, step by step, and raises BrokenPromise at the first broken promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf

from capacityd.model.reading import Reading
from tests.support.judge import node_view as view
from tests.support.judge import promises
from tests.support.judge.admitted import ADMITTED, Admitted
from tests.support.judge.faults import Fault, FaultKind, faults
from tests.support.judge.memory import Memory
from tests.support.judge.promises import Breach
from tests.support.judge.surroundings import Configuration, Document, Trouble, Writer


class BrokenPromise(AssertionError):
    """A promise is broken. name: the promise's function."""

    def __init__(self, name: str, breach: Breach, lasted: float, allowed: float) -> None:
        duration = f", for {lasted:.1f} s (at most {allowed:.1f})" if lasted else ""
        super().__init__(f"{name}: {breach.detail}{duration}")
        self.name = name


class Judge:
    """Judges one capacityd and its Node.

    Each public method tells the judge what has happened at a time. The time is in seconds, on a clock that nobody sets
    and that no reboot resets. A method raises BrokenPromise if a promise is broken, now or earlier.

    admitted: the exceptions that excuse a breach. secrets: texts that not all users may read.
    """

    def __init__(self, admitted: Sequence[Admitted] = ADMITTED, secrets: Iterable[str] = ()) -> None:
        self.memory = Memory()
        self.broken: BrokenPromise | None = None
        """The first broken promise. It is kept, because the caller of a method may have swallowed the error."""
        self._admitted = admitted
        self._secrets = frozenset(secrets)
        self._intended: Document | None = None
        """The Node to which the last PATCH of the pass should lead."""
        self._true_since: dict[Fault, float] = {}
        """Since when the condition has been True in spite of each present fault."""
        self._last_seen: dict[Fault, float] = {}
        """When each fault was last seen beside a condition that is True."""
        self._began: dict[Fault, float] = {}
        """Like _true_since, but also for a fault that has just been repaired, because the fault may soon return."""
        self._wrong_since: dict[Fault | None, float] = {}
        """Since when each present fault has existed. None stands for: no fault, but the condition is not True."""

    # The machine and the Node

    def time_passes(self, at: float) -> None:
        """Time has passed, and nothing else has happened."""
        if self.broken:
            raise self.broken
        memory = self.memory
        memory.at = max(memory.at, at)
        self._check(promises.true_only_while_right, self._true_since)
        self._check(promises.right_in_time, self._wrong_since)
        self._last_seen |= dict.fromkeys(self._true_since, memory.at)

    def machine_boots(self, at: float) -> None:
        """The machine boots."""
        with self._happening(at) as memory:
            memory.booted_at = memory.changed_at = at
            memory.passes_with_write, memory.lower_since = [], {}

    def configuration_becomes(self, at: float, configuration: Configuration) -> None:
        """A configuration comes into effect."""
        with self._happening(at) as memory:
            memory.configuration, memory.changed_at = configuration, at
            memory.passes_with_write = []  # a reload lifts the limit on writes

    def readings_become(self, at: float, readings: Mapping[str, Reading]) -> None:
        """The machine has these true readings from now on, whether capacityd knows them or not."""
        with self._happening(at) as memory:
            if memory.readings != readings:
                memory.readings, memory.changed_at = dict(readings), at

    def plugins_become(self, at: float, names: frozenset[str] | None) -> None:
        """Device plugins have registered these names. None: the list of names can't be read."""
        with self._happening(at) as memory:
            memory.changed_at = memory.at
            if names is None:
                memory.begin(Trouble.PLUGINS, frozenset())
                return
            memory.end(Trouble.PLUGINS)
            memory.plugins = names
            memory.ours -= names

    def node_becomes(self, at: float, node: Document | None, by: Writer) -> None:
        """The Node has changed. None: the Node does not exist."""
        with self._happening(at) as memory:
            intended = self._intended or node  # if no PATCH was seen, the stored Node counts as intended
            memory.change(node, by, intended if by is Writer.CAPACITYD else None)

    def cluster_is_backed_up(self, at: float) -> None:
        """The cluster's state is saved."""
        with self._happening(at) as memory:
            memory.back_up()

    def cluster_is_restored(self, at: float, node: Document | None) -> None:
        """The Node and the owners of its keys become what they were when the cluster was backed up."""
        with self._happening(at) as memory:
            memory.restore(node)

    def trouble_begins(self, at: float, trouble: Trouble, entries: frozenset[str] = frozenset()) -> None:
        """A trouble begins, or concerns other entries than before. No entries: the trouble concerns everything."""
        with self._happening(at) as memory:
            memory.begin(trouble, entries)

    def trouble_ends(self, at: float, trouble: Trouble) -> None:
        """A trouble ends."""
        with self._happening(at) as memory:
            memory.end(trouble)

    # capacityd

    def service_hears(self, at: float) -> None:
        """The service receives an event."""
        with self._happening(at) as memory:
            memory.heard_at = at

    def pass_reads(self, at: float, readings: Mapping[str, Reading]) -> None:
        """A pass reads the machine, and gets these readings."""
        with self._happening(at) as memory:
            self._intended = None
            memory.read(at, dict(readings))

    def pass_requests(self, at: float) -> None:
        """A pass sends a request of any kind."""
        with self._happening(at) as memory:
            if not memory.requests or memory.requests[-1] < memory.pass_began_at:
                memory.requests = [*memory.requests[-1:], memory.at]
                self._check(promises.quiet)

    def pass_sees(self, at: float, node: Document | None) -> None:
        """A pass gets the Node in this state: by a GET, or in the answer to a PATCH."""
        with self._happening(at) as memory:
            memory.see(node)

    def pass_patches(self, at: float, before: Document, after: Document, is_part: bool = False) -> None:
        """A pass sends a PATCH that turns `before` into `after`, unless the API server denies or alters the PATCH.

        is_part: whether the PATCH repeats a part of a denied one, and leaves the condition to a later PATCH.
        """
        with self._happening(at) as memory:
            memory.note_patch()
            self._intended = after
            self._check(promises.observes)
            self._check(promises.untouched, before, after)
            self._check(promises.seen, before, after)
            self._check(promises.unknown_keeps, before, after)
            self._check(promises.holds, before, after)
            if not is_part:
                self._check(promises.true_when_written, before, after)
            self._check(promises.few_writes)

    def pass_succeeds(self, at: float) -> None:
        """A pass has succeeded. From now on capacityd remembers the keys in the annotation."""
        with self._happening(at) as memory:
            memory.remember()

    def capacityd_forgets(self, at: float) -> None:
        """capacityd forgets everything: it starts, a pass was killed, or a PATCH has no answer."""
        with self._happening(at) as memory:
            memory.forget()

    def capacityd_shows(self, at: float, text: str) -> None:
        """capacityd shows this text to all users."""
        with self._happening(at):
            self._check(promises.secret, text, self._secrets)

    @contextmanager
    def _happening(self, at: float) -> Iterator[Memory]:
        """Judges the time until this moment. At the end of the context, notes what is wrong with the Node."""
        self.time_passes(at)
        yield self.memory
        self._note_faults()

    def _note_faults(self) -> None:
        """Notes since when each fault has existed, and since when the condition has been True in spite of it."""
        memory, configuration = self.memory, self.memory.configuration
        found = faults(memory, memory.node, memory.readings)
        keeps_condition = configuration.condition and not configuration.observe
        says_true = keeps_condition and view.is_true(memory.node)
        if says_true and Trouble.API not in memory.troubles:
            self._true_since = {fault: self._since(fault) for fault in found}
            self._last_seen |= dict.fromkeys(found, memory.at)
        else:
            self._true_since, self._last_seen, self._began = {}, {}, {}
        wrong: set[Fault | None] = {fault for fault in found if not fault.is_lasting}
        may_be_true = keeps_condition and configuration.may_remove and memory.node is not None
        if not found and may_be_true and not says_true:
            wrong.add(None)
        if configuration.observe:
            wrong.clear()
        self._wrong_since = {fault: self._wrong_since.get(fault, memory.at) for fault in wrong}

    def _since(self, fault: Fault) -> float:
        """Since when the condition has been True in spite of a fault. A short repair in between does not count.

        A further reduction counts from its own beginning, because it must wait for `lower_after` again.
        """
        at = self.memory.at
        is_next_reduction = fault.kind is FaultKind.LOWER and fault not in self._true_since
        if is_next_reduction or at - self._last_seen.get(fault, -inf) > promises.SHORTEST_REPAIR:
            self._began[fault] = at
        return self._began[fault]

    def _check(self, promise: Callable[..., Iterable[Breach]], *details: object) -> None:
        """Raises BrokenPromise for the first breach of this promise that nothing excuses."""
        for breach in promise(self.memory, *details):
            lasted = self.memory.at - breach.since
            if breach.lasts and lasted <= breach.lasts:
                continue
            allowed = breach.lasts + self._excused(promise.__name__, breach)
            is_forbidden_act = allowed == 0.0  # an act lasts 0 s
            if is_forbidden_act or lasted > allowed:
                self.broken = self.broken or BrokenPromise(promise.__name__, breach, lasted, allowed)
                raise self.broken

    def _excused(self, promise: str, breach: Breach) -> float:
        """The additional seconds for which the admitted exceptions excuse a breach."""
        excuses = (admitted.excuses for admitted in self._admitted if promise in admitted.promises)
        return sum(excuse(self.memory, breach) for excuse in excuses)
