"""The content of the metrics file, according to Prometheus' own parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from capacityd import __version__
from capacityd.model.key import Key
from capacityd.model.node import Condition, ConditionReason, Stored
from capacityd.model.plan import Action, Change, Trouble
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.waits import Wait, WaitReason
from capacityd.schema.config import Config, Resource
from capacityd.worker import metrics
from capacityd.worker.metrics import PassMetrics
from capacityd.worker.pass_memory import Counters
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
    readings=READINGS,
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
    condition=Condition("False", "Denied", "denied: example.com/c: a policy"),
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
FIGURES = PassMetrics(
    CONFIG,
    STATUS,
    Counters(reconciles=5, succeeded=3, writes=2, last_success=999.0),
    durations={A: 0.125, B: 0.5, C: 10.0},
    configuration_errors=2,
)


def series(text: bytes) -> dict[str, float]:
    """Each series as Prometheus writes it, without the Node's name, with its value. The parser rejects invalid text."""
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
    """A metric without a value here would be covered by no test."""
    text = metrics.exposition(FIGURES, 0.25)
    assert [family.name for family in text_string_to_metric_families(text.decode()) if not family.samples] == []
    samples = series(text)
    outcomes = {key for key, value in samples.items() if key.startswith("resource_outcome") and value}
    assert outcomes == {
        f"resource_outcome{{outcome={outcome},resource={name}}}"
        for name, outcome in {A: "quantity", B: "absent", C: "unknown", D: "quantity", E: "absent"}.items()
    }
    gone = "example.com/gone"
    assert {key: value for key, value in samples.items() if not key.startswith("resource_outcome")} == {
        f"resource_quantity{{resource={A}}}": 4.0,
        f"resource_quantity{{resource={D}}}": 0.0,
        f"resource_published{{resource={A}}}": 4.0,
        f"resource_published{{resource={C}}}": 7.0,
        f"resource_published{{resource={gone}}}": 2.0,
        **{f"resource_held_back{{resource={name}}}": float(name == gone) for name in (A, B, C, D, E, gone)},
        **{f"resource_refused{{resource={name}}}": float(name == D) for name in (A, B, C, D, E, gone)},
        **{f"resource_denied{{resource={name}}}": float(name == C) for name in (A, B, C, D, E, gone)},
        f"resource_expected{{resource={A}}}": 4.0,
        f"resource_expected{{resource={B}}}": 2.0,
        "detector_duration_seconds{detector=usb}": 0.5,
        "detector_duration_seconds{detector=file}": 10.0,
        "detector_success{detector=usb}": 1.0,
        "detector_success{detector=file}": 0.0,
        "detector_success{detector=pci}": 1.0,
        "detector_success{detector=disk}": 1.0,
        "observe{}": 0.0,
        "configuration_info{hash=0a1b2c3d}": 1.0,
        "condition{reason=Denied,status=False}": 1.0,
        f"build_info{{version={__version__}}}": 1.0,
        "last_reconcile_timestamp_seconds{}": 1000.5,
        "last_success_timestamp_seconds{}": 999.0,
        "last_write_timestamp_seconds{}": 900.0,
        "last_reconcile_duration_seconds{}": 0.25,
        "resync_period_seconds{}": 3600.0,
        "configuration_errors{}": 2.0,
        "reconciles_total{}": 5.0,
        "reconcile_errors_total{}": 2.0,
        "writes_total{}": 2.0,
    }


def test_each_series_has_the_name_of_the_node_once_it_is_known() -> None:
    def names(figures: PassMetrics) -> set[str | None]:
        families = text_string_to_metric_families(metrics.exposition(figures, 0.25).decode())
        return {sample.labels.get(NODE) for family in families for sample in family.samples}

    assert names(FIGURES) == {"n1"}
    assert names(replace(FIGURES, status=PassStatus(1.0))) == {None}


def test_before_the_node_was_reached_there_is_no_success() -> None:
    first_pass = PassMetrics(Config(), PassStatus(1.0, readings=READINGS), Counters(reconciles=1))
    samples = series(metrics.exposition(first_pass, 0.1))
    assert "last_reconcile_timestamp_seconds{}" in samples
    assert "last_write_timestamp_seconds{}" not in samples
    assert samples["last_success_timestamp_seconds{}"] == 0, "before any pass"
    assert not any(key.startswith(("configuration_info", "condition", "detector")) for key in samples)
    assert samples["reconcile_errors_total{}"] == 1


@pytest.mark.parametrize("order", [1, -1])
def test_one_unknown_resource_is_enough_for_a_detector_to_fail(order: int) -> None:
    resources = (Resource(A, "usb", ()), Resource(C, "usb", ()))
    config = Config(resources[::order])
    figures = PassMetrics(config, STATUS, Counters(), durations={A: 3.0, C: 2.0})
    samples = series(metrics.exposition(figures, 0.1))
    assert samples["detector_success{detector=usb}"] == 0
    assert samples["detector_duration_seconds{detector=usb}"] == 3
