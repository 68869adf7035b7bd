"""The metrics file: its content, according to Prometheus' own parser. An error with the file is only logged."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from capacityd import __version__
from capacityd.model.config import Config, Resource, Settings
from capacityd.model.messages import MetricsResult
from capacityd.model.plan import Action, Change, Health
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.waits import Wait, WaitReason
from capacityd.node.documents.node import node_state
from capacityd.worker import metrics
from capacityd.worker.metrics import PassMetrics
from capacityd.worker.pass_state import Counters, PassStatus
from tests.support.nodes import node

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
        Wait(1010.0, WaitReason.LOWER_AFTER, "example.com/gone"),
        Wait(1060.0, WaitReason.DENIED, C),
        Wait(1015.0, WaitReason.RATE_LIMIT),
    ),
    changes=(Change(A, Action.KEEP, "4", "4", "as published"), Change(D, Action.REFUSE, "1", "1", "another writer's")),
    health=Health(denied={C: "a policy"}),
    read_at=900.0,
    written_at=900.0,
)
_DOCUMENT = node(annotated={A: 4, C: 7, "example.com/gone": 2}, condition="False")
_DOCUMENT["status"]["conditions"][0]["reason"] = "Denied"
LAST_SEEN = node_state(_DOCUMENT)
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
    LAST_SEEN,
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


def test_every_series() -> None:
    """A metric without a value here would be covered by no test."""
    text = metrics.text(FIGURES, 0.25)
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
        families = text_string_to_metric_families(metrics.text(figures, 0.25).decode())
        return {sample.labels.get(NODE) for family in families for sample in family.samples}

    assert names(FIGURES) == {LAST_SEEN.name}
    assert names(replace(FIGURES, node=None)) == {None}


def test_before_the_node_was_reached_there_is_no_success() -> None:
    first_pass = PassMetrics(Config(), PassStatus(1.0, readings=READINGS), None, Counters(reconciles=1))
    samples = series(metrics.text(first_pass, 0.1))
    assert "last_reconcile_timestamp_seconds{}" in samples
    assert "last_write_timestamp_seconds{}" not in samples
    assert samples["last_success_timestamp_seconds{}"] == 0, "before any pass"
    assert not any(key.startswith(("configuration_info", "condition", "detector")) for key in samples)
    assert samples["reconcile_errors_total{}"] == 1


@pytest.mark.parametrize("order", [1, -1])
def test_one_unknown_resource_is_enough_for_a_detector_to_fail(order: int) -> None:
    resources = (Resource(A, "usb", ()), Resource(C, "usb", ()))
    config = Config(resources[::order])
    figures = PassMetrics(config, STATUS, LAST_SEEN, Counters(), durations={A: 3.0, C: 2.0})
    samples = series(metrics.text(figures, 0.1))
    assert samples["detector_success{detector=usb}"] == 0
    assert samples["detector_duration_seconds{detector=usb}"] == 3


def config(textfile: Path | None, observe: bool = False) -> Config:
    return Config(settings=Settings(textfile=str(textfile) if textfile else None, observe=observe))


class Passes:
    """Passes that end one after another. Each gets the counters of the previous pass."""

    def __init__(self) -> None:
        self.counters = Counters()

    def end(
        self, textfile: Path | None, status: PassStatus = STATUS, *, succeeded: bool = True, lost: int = 0
    ) -> MetricsResult | None:
        configured = config(textfile, status.observe)
        previous = self.counters.path
        self.counters = metrics.count_pass(self.counters, configured, status, lost, succeeded=succeeded)
        figures = replace(FIGURES, config=configured, status=status, counters=self.counters)
        return metrics.replace_textfile(previous, figures, 0.1)


@pytest.fixture
def passes() -> Passes:
    return Passes()


@pytest.mark.parametrize(
    ("observe", "action", "advances"),
    [
        *((True, action, False) for action in (Action.SET, Action.REMOVE, Action.HOLD)),
        *((True, action, True) for action in (Action.KEEP, Action.REFUSE)),
        *((False, action, True) for action in (Action.SET, Action.REMOVE, Action.HOLD, Action.KEEP, Action.REFUSE)),
    ],
)
def test_the_last_success_stays_while_observe_mode_withholds_a_change(
    passes: Passes, tmp_path: Path, observe: bool, action: Action, advances: bool
) -> None:
    """The pass is not counted as failed either, because the service does what it is configured to do."""
    path = tmp_path / "x.prom"
    changes = Change(A, Action.KEEP, "1", "1", "why"), Change(B, action, "1", "2", "why")
    passes.end(path, PassStatus(1000.0, observe=observe, changes=changes, read_at=1000.0))
    samples = series(path.read_bytes())
    assert (samples["last_success_timestamp_seconds{}"] > 0) == advances
    assert samples["observe{}"] == observe
    assert samples["reconcile_errors_total{}"] == 0


def test_the_file_is_complete_and_readable_and_its_counters_continue(passes: Passes, tmp_path: Path) -> None:
    path = tmp_path / "x.prom"
    before = os.umask(0o077)
    try:
        assert passes.end(path, replace(STATUS, written_at=STATUS.at)) == MetricsResult(str(path))
        assert passes.end(path, succeeded=False) == MetricsResult(str(path))
        assert passes.end(path, lost=1) == MetricsResult(str(path))
    finally:
        os.umask(before)
    samples = series(path.read_bytes())
    counted = {name: samples[f"{name}_total{{}}"] for name in ("reconciles", "reconcile_errors", "writes")}
    assert counted == {"reconciles": 4, "reconcile_errors": 2, "writes": 1}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["x.prom"]


def test_without_a_textfile_nothing_is_counted_and_the_previous_one_is_removed(passes: Passes, tmp_path: Path) -> None:
    assert passes.end(None) is None
    assert passes.counters == Counters()
    first, second = tmp_path / "1.prom", tmp_path / "2.prom"
    passes.end(first)
    passes.end(second)
    assert not first.exists()
    assert second.exists()
    passes.end(None)
    assert not second.exists()
    assert passes.counters == Counters()


@pytest.mark.parametrize(
    ("where", "expected", "advice"),
    [
        ("absent/x.prom", "No such file or directory", "create the folder"),
        ("file/x.prom", "Not a directory", ""),
        ("folder/x.prom", "Is a directory", ""),
    ],
)
def test_a_file_that_cannot_be_written_is_an_error_with_advice(
    passes: Passes, tmp_path: Path, where: str, expected: str, advice: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder/x.prom.new").mkdir(parents=True)
    path = tmp_path / where
    for _ in range(2):
        written = passes.end(path)
        assert written
        assert written.error == f"{path} could not be written: {expected}"
        assert written.advice.startswith(advice)
    assert passes.counters.reconciles == 2, "it goes on counting"


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_link_that_the_owner_of_the_folder_has_made_is_not_written(
    passes: Passes, tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    """The content, the permissions and the owner of the file behind the link stay."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret").chmod(0o600)
    link(tmp_path / "x.prom.new", tmp_path / "secret")
    written = passes.end(tmp_path / "x.prom")
    assert written
    assert not written.error
    assert (tmp_path / "x.prom").read_text().startswith("# HELP")
    assert ((tmp_path / "secret").read_text(), (tmp_path / "secret").stat().st_mode & 0o777) == ("secret", 0o600)
    assert sorted(os.listdir(tmp_path)) == ["secret", "x.prom"]


def test_without_the_library_the_message_names_the_package(
    passes: Passes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    written = passes.end(tmp_path / "x.prom")
    assert written
    assert written.error
    assert written.advice == "it needs the package python3-prometheus-client"
