"""The judge takes observations one after the other, and raises BrokenPromise at the first broken promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatchmethod
from math import inf

from tests.support.judge import node_view as view
from tests.support.judge import promises
from tests.support.judge.admitted import ADMITTED, Admitted
from tests.support.judge.faults import Fault, What, faults
from tests.support.judge.ghosts import Ghosts
from tests.support.judge.observations import (
    Asks,
    BacksUp,
    Begins,
    Booted,
    Configured,
    Document,
    Ends,
    Forgets,
    Hears,
    Looks,
    MachineHas,
    NodeIs,
    Observation,
    PassReads,
    PluginsAre,
    Remembers,
    Requests,
    Restores,
    Sees,
    Shows,
    Trouble,
    Writer,
)
from tests.support.judge.promises import Breach


class BrokenPromise(AssertionError):
    """A promise is broken. name: the promise's function."""

    def __init__(self, name: str, breach: Breach, after: float, allowed: float) -> None:
        lasted = f", for {after:.1f} s (at most {allowed:.1f})" if after else ""
        super().__init__(f"{name}: {breach.detail}{lasted}")
        self.name = name


class Judge:
    """Judges one capacityd and its Node.

    admitted: the exceptions that excuse a breach. secrets: texts that not all users may read.
    """

    def __init__(self, admitted: Sequence[Admitted] = ADMITTED, secrets: Iterable[str] = ()) -> None:
        self.ghosts = Ghosts()
        self.used: set[str] = set()
        """The names of the exceptions that have excused a breach."""
        self.broken: BrokenPromise | None = None
        """The first broken promise. It is kept, because a caller of observe() may have swallowed the error."""
        self._admitted = admitted
        self._secrets = frozenset(secrets)
        self._asked: Document | None = None
        self._true_since: dict[Fault, float] = {}
        """Since when the condition has been True in spite of each present fault."""
        self._last_seen: dict[Fault, float] = {}
        self._began: dict[Fault, float] = {}
        self._wrong_since: dict[Fault | None, float] = {}
        """Since when each present fault has existed. None stands for a condition that is not True without a fault."""

    def observe(self, observation: Observation) -> None:
        """Takes an observation. Raises BrokenPromise if a promise is broken, now or earlier."""
        if self.broken:
            raise self.broken
        self._time_passes(observation.at)
        self._last_seen |= dict.fromkeys(self._true_since, self.ghosts.at)
        self._take(observation)
        if not isinstance(observation, Looks):
            self._note_faults()

    @singledispatchmethod
    def _take(self, observation: Looks) -> None:
        """Nothing but time has passed."""

    @_take.register
    def _(self, booted: Booted) -> None:
        ghosts = self.ghosts
        ghosts.booted_at = ghosts.changed_at = booted.at
        ghosts.passes_with_write, ghosts.lower_since = [], {}

    @_take.register
    def _(self, configured: Configured) -> None:
        self.ghosts.configuration, self.ghosts.changed_at = configured.configuration, configured.at
        self.ghosts.passes_with_write = []  # a reload is a person's intent

    @_take.register
    def _(self, has: MachineHas) -> None:
        if self.ghosts.readings != has.readings:
            self.ghosts.readings, self.ghosts.changed_at = dict(has.readings), has.at

    @_take.register
    def _(self, reads: PassReads) -> None:
        self._asked = None
        self.ghosts.read(reads.at, dict(reads.readings))

    @_take.register
    def _(self, sees: Sees) -> None:
        self.ghosts.see(sees.node)

    @_take.register
    def _(self, change: NodeIs) -> None:
        asked = self._asked or change.node  # without a PATCH that was seen, the stored Node counts as asked for
        self.ghosts.change(change, asked if change.by is Writer.CAPACITYD else None)

    @_take.register
    def _(self, _saves: BacksUp) -> None:
        self.ghosts.back_up()

    @_take.register
    def _(self, restores: Restores) -> None:
        self.ghosts.restore(restores.node)

    @_take.register
    def _(self, begins: Begins) -> None:
        self.ghosts.begin(begins.trouble, begins.entries)

    @_take.register
    def _(self, ends: Ends) -> None:
        self.ghosts.end(ends.trouble)

    @_take.register
    def _(self, hears: Hears) -> None:
        self.ghosts.heard_at = hears.at

    @_take.register
    def _(self, _forgets: Forgets) -> None:
        self.ghosts.forget()

    @_take.register
    def _(self, _remembers: Remembers) -> None:
        self.ghosts.remember()

    @_take.register
    def _(self, shows: Shows) -> None:
        self._report(promises.secret, promises.secret(self.ghosts, shows.text, self._secrets))

    @_take.register
    def _(self, plugins: PluginsAre) -> None:
        ghosts = self.ghosts
        ghosts.changed_at = ghosts.at
        if plugins.names is None:
            ghosts.begin(Trouble.PLUGINS, frozenset())
            return
        ghosts.end(Trouble.PLUGINS)
        ghosts.plugins = plugins.names
        ghosts.ours -= plugins.names

    @_take.register
    def _(self, asks: Asks) -> None:
        """Judges a PATCH, whatever the API server does with it."""
        ghosts, before, after = self.ghosts, asks.before, asks.after
        ghosts.ask()
        self._asked = after
        self._report(promises.observes, promises.observes(ghosts))
        self._report(promises.untouched, promises.untouched(ghosts, before, after))
        self._report(promises.seen, promises.seen(ghosts, before, after))
        self._report(promises.unknown_keeps, promises.unknown_keeps(ghosts, before, after))
        self._report(promises.holds, promises.holds(ghosts, before, after))
        self._report(promises.true_when_written, promises.true_when_written(ghosts, asks))
        self._report(promises.few_writes, promises.few_writes(ghosts))

    @_take.register
    def _(self, request: Requests) -> None:
        ghosts = self.ghosts
        if not ghosts.requests or ghosts.requests[-1] < ghosts.began_pass_at:
            ghosts.requests = [*ghosts.requests[-1:], ghosts.at]
            self._report(promises.quiet, promises.quiet(ghosts))

    def _time_passes(self, at: float) -> None:
        """Judges the promises with a time limit."""
        ghosts = self.ghosts
        ghosts.at = max(ghosts.at, at)
        self._report(promises.true_only_while_right, promises.true_only_while_right(ghosts, self._true_since))
        self._report(promises.right_in_time, promises.right_in_time(ghosts, self._wrong_since))

    def _note_faults(self) -> None:
        """Notes since when each fault exists, and since when the condition has been True in spite of it."""
        ghosts, configuration = self.ghosts, self.ghosts.configuration
        found = faults(ghosts, ghosts.node, ghosts.readings)
        keeps_condition = configuration.condition and not configuration.observe
        says_true = keeps_condition and view.is_true(ghosts.node)
        if says_true and Trouble.API not in ghosts.troubles:
            self._true_since = {fault: self._since(fault) for fault in found}
            self._last_seen |= dict.fromkeys(found, ghosts.at)
        else:
            self._true_since, self._last_seen, self._began = {}, {}, {}
        wrong: set[Fault | None] = {fault for fault in found if not fault.is_lasting}
        may_be_true = keeps_condition and configuration.may_remove and ghosts.node is not None
        if not found and may_be_true and not says_true:
            wrong.add(None)
        if configuration.observe:
            wrong.clear()
        self._wrong_since = {fault: self._wrong_since.get(fault, ghosts.at) for fault in wrong}

    def _since(self, fault: Fault) -> float:
        """Since when the condition has been True in spite of a fault. A short repair in between does not count.

        A further reduction counts from its own beginning, because it must wait for `lower_after` again.
        """
        at = self.ghosts.at
        is_next_reduction = fault.what is What.LOWER and fault not in self._true_since
        if is_next_reduction or at - self._last_seen.get(fault, -inf) > promises.LASTS:
            self._began[fault] = at
        return self._began[fault]

    def _report(self, promise: Callable[..., object], breaches: Iterable[Breach]) -> None:
        """Raises BrokenPromise for the first breach that nothing excuses."""
        for breach in breaches:
            lasted = self.ghosts.at - breach.since
            if lasted <= breach.lasts and (lasted or breach.lasts):
                continue
            allowed = breach.lasts + self._excused(promise.__name__, breach)
            if lasted > allowed or allowed == 0.0:
                self.broken = self.broken or BrokenPromise(promise.__name__, breach, lasted, allowed)
                raise self.broken

    def _excused(self, promise: str, breach: Breach) -> float:
        """The additional seconds for which the admitted exceptions excuse a breach."""
        seconds = 0.0
        for admitted in self._admitted:
            if promise in admitted.promises and (more := admitted.excuses(self.ghosts, breach)):
                self.used.add(admitted.name)
                seconds += more
                if more == inf:
                    break
        return seconds
