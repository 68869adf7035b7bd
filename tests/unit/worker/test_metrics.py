"""The content of the metrics file, according to Prometheus' own parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from capacityd import __version__
from capacityd.model.key import Key
from capacityd.model.node import Condition, ConditionReason, Stored
from capacityd.model.plan import Action, Change, Trouble
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait, WaitReason
from capacityd.schema.config import Config, Resource
from capacityd.worker import metrics
from capacityd.worker.pass_state import PassStatus

NODE = "capacityd_node"
A, B, C, D, E = (f"example.com/{letter}" for letter in "abcde")
READINGS: Mapping[str, Reading] = {
    A: Quantity(4),
    B: Absent("none"),
    C: Unknown("no"),
    D: Quantity(0),
    E: Absent("elsewhere", applies=False),
}
STATUS = PassStatus(
    1000.5,
    (PassReason.START, PassReason.FILE),
    READINGS,
    observe=True,
    error="nobody there",
    configuration="0a1b",
    expect={A: 4},
    waits=(
        Wait(1010.0, WaitReason.LOWER_AFTER, Key("example.com/gone")),
        Wait(1060.0, WaitReason.DENIED, Key(C)),
        Wait(1015.0, WaitReason.RATE_LIMIT),
    ),
    node="n1",
    changes=tuple(
        Change(Key(name), Action.KEEP, Stored(str(number), str(number)), number, number, "as published")
        for name, number in ((A, 4), (C, 7), ("example.com/gone", 2))
    ),
    troubles=(
        Trouble(ConditionReason.REFUSED, "another writer's", Key(D)),
        Trouble(ConditionReason.DENIED, "a policy", Key(C)),
    ),
    condition=Condition("False", "Denied", "denied: example.com/c: a policy", 1.0, "2026-11-24T20:00:00Z"),
    succeeded_at=999.0,
    read_at=900.0,
    written_at=900.0,
)
CONFIG = Config(
    (
        Resource(A, "usb", (), expect=4),
        Resource(B, "usb", (), expect=2),
        Resource(C, "file", ()),
        Resource(D, "pci", ()),
        Resource(E, "disk", (), expect=1),
    ),
    digest="0a1b2c3d",
)


def series(text: bytes) -> dict[str, float]:
    """The value of each series, such as "condition{reason=Denied}". The parser rejects invalid text.

    The prefix "capacityd_" and the label with the Node's name are left out.
    """
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(text.decode()):
        assert family.documentation
        assert family.type in ("gauge", "counter")
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()) if name != NODE)
            key = f"{sample.name.removeprefix('capacityd_')}{{{labels}}}"
            assert key not in values
            values[key] = sample.value
    return values


def test_every_metric_has_its_series() -> None:
    """CONFIG and STATUS give each metric a value, so that the test covers all metrics."""
    text = metrics.metrics_text(CONFIG, STATUS)
    assert [family.name for family in text_string_to_metric_families(text.decode()) if not family.samples] == []
    assert series(text) == {
        f"resource_published{{resource={A}}}": 4.0,
        f"resource_published{{resource={C}}}": 7.0,
        "resource_published{resource=example.com/gone}": 2.0,
        f"resource_expected{{resource={A}}}": 4.0,
        f"resource_expected{{resource={B}}}": 2.0,
        f"resource_trouble{{reason=Denied,resource={C}}}": 1.0,
        f"resource_trouble{{reason=Refused,resource={D}}}": 1.0,
        f"resource_trouble{{reason=Unknown,resource={C}}}": 1.0,
        "observe{}": 0.0,
        "configuration_info{hash=0a1b2c3d}": 1.0,
        "condition{reason=Denied,status=False}": 1.0,
        f"build_info{{version={__version__}}}": 1.0,
        "last_reconcile_timestamp_seconds{}": 1000.5,
        "last_success_timestamp_seconds{}": 999.0,
        "resync_period_seconds{}": 3600.0,
    }


def test_before_the_node_was_reached_there_is_no_success() -> None:
    samples = series(metrics.metrics_text(Config(), PassStatus(1.0, readings=READINGS)))
    assert "last_reconcile_timestamp_seconds{}" in samples
    assert samples["last_success_timestamp_seconds{}"] == 0, "no pass has succeeded"
    assert not any(key.startswith(("configuration_info", "condition")) for key in samples)


def test_a_reading_that_is_known_again_is_no_trouble_before_the_next_plan() -> None:
    """A pass that can't read the Node keeps the troubles of the last plan, among them A's "unknown"."""
    troubles = (Trouble(ConditionReason.UNKNOWN, "no", Key(A)), Trouble(ConditionReason.DENIED, "a policy", Key(B)))
    samples = series(metrics.metrics_text(CONFIG, replace(STATUS, readings={A: Quantity(4)}, troubles=troubles)))
    found = {key for key in samples if key.startswith("resource_trouble")}
    assert found == {f"resource_trouble{{reason=Denied,resource={B}}}"}
