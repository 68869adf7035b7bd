"""Generates the tables of the metrics, and of the kinds of journal entries.

A kind of entry without a text here is a KeyError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from capacityd.linux.systemd import EntryKind
from capacityd.model.gauge import Gauge
from capacityd.schema.config import Config
from capacityd.worker import metrics
from capacityd.worker.pass_state import PassStatus
from kubectl_capacityd.fleet import metrics as fleet_metrics
from kubectl_capacityd.fleet.assess import FleetReport

_ENTRIES = {
    EntryKind.CHANGED: (
        "a number on the Node was changed. REASON is what the pass has found: a new key, another reading or "
        "configuration than the published one, another number on the Node, which is restored, or an absent resource"
    ),
    EntryKind.CONDITION: (
        "something has become wrong with a resource or the Node, or is right again; CONDITION_REASON is its "
        "[reason](#condition-reasons)"
    ),
    EntryKind.CONFIGURATION_REJECTED: "the configuration has an error",
    EntryKind.DEGRADED: (
        "an error prevents passes, or an event source or the file of metrics is lost; or that has ended"
    ),
}


def metrics_of_nodes() -> Iterator[str]:
    yield "A pass writes these metrics. Each series has the name of the Node as the label `capacityd_node`."
    yield _table(metrics.gauges(Config(), PassStatus()))


def metrics_of_fleet() -> Iterator[str]:
    yield "`fleet --textfile` writes these metrics. With `--context`, each series has the label `context`."
    yield _table(fleet_metrics.gauges(FleetReport(0, (), ())))


def entries() -> Iterator[str]:
    yield "A journal entry that a rule may select has a MESSAGE_ID:"
    rows = (f"| `{kind.value}` | {_ENTRIES[kind]} |" for kind in EntryKind)
    yield "\n".join(["| MESSAGE_ID | the entry |", "|---|---|", *rows])


def _table(gauges: Iterable[Gauge]) -> str:
    rows = (
        f"| `{gauge.name}` | {', '.join(f'`{label}`' for label in gauge.label_names)} | {gauge.about} |"
        for gauge in gauges
    )
    return "\n".join(["| metric | labels | meaning |", "|---|---|---|", *rows])
