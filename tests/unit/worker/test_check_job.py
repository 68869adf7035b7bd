"""The job that checks the configuration: what it logs, and which events it tells the service to watch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from capacityd.config import load
from capacityd.discovery.child import MAX_BLOCKED, MAX_BUSY
from capacityd.model.device_plugins import CHECKPOINT
from capacityd.model.options import Selection
from capacityd.model.reasons import PassReason
from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS
from capacityd.schema.config import Config
from capacityd.worker import journal
from capacityd.worker.check_job import check, service_config
from capacityd.worker.runtime_files import read_config
from tests.support.reachable import make_reachable
from tests.support.readings import device_detectors, event_sources, resource


@pytest.mark.parametrize("detector", [d.name for d in device_detectors() if not d.find_in_subsystems])
def test_every_device_detector_has_event_sources(detector: str) -> None:
    """The detector's own tests check which ones. The events of the others depend on the configured subsystems."""
    assert event_sources(detector) != (set(), set())


def test_the_watched_files(tmp_path: Path) -> None:
    """They are the kubeconfig or its possible paths, the kubelet's checkpoint, and the files of resources."""
    path = tmp_path / "capacityd.toml"
    path.write_text('[resources."example.com/seats"]\nfile = { path = "/srv/seats" }\nwhen = { path = "/etc/model" }\n')
    checkpoint = {CHECKPOINT: PassReason.NODE}
    resource_files = {"/etc/model": PassReason.FILE, "/srv/seats": PassReason.FILE}
    config = load(str(path)).config
    credentials = dict.fromkeys(KUBECONFIG_PATHS, PassReason.CONFIG)
    assert service_config(config, Selection()).files == credentials | checkpoint | resource_files
    assert (
        service_config(config, Selection(kubeconfig="/etc/mine")).files
        == {"/etc/mine": PassReason.CONFIG} | checkpoint | resource_files
    )


def test_the_timeout_of_a_worker_includes_the_timeouts_of_its_detectors() -> None:
    config = service_config(Config((resource("usb"), resource("pci"))), Selection())
    assert config.detectors_timeout == MAX_BUSY + 2 * MAX_BLOCKED


@pytest.mark.parametrize(("reason", "stays"), [(PassReason.CONFIG, True), (PassReason.START, False)])
def test_after_a_reload_with_errors_the_previous_configuration_stays(
    tmp_path: Path, reason: PassReason, stays: bool
) -> None:
    """After a start with errors, no previous configuration is used, because it may be from another boot."""
    make_reachable(tmp_path)
    path = tmp_path / "capacityd.toml"
    # The invalid configuration has a misspelt key.
    valid, invalid = (f'[resources."example.com/x"]\nstatic = {{ {key} = 3 }}\n' for key in ("quantity", "quantitty"))
    path.write_text(valid)
    assert check(str(tmp_path), Selection(config=str(path)), {PassReason.START}) == 0
    before = read_config(str(tmp_path))
    path.write_text(invalid)
    assert check(str(tmp_path), Selection(config=str(path)), {reason}) == 0
    after = read_config(str(tmp_path))
    assert before
    assert after
    assert (after.config == before.config) == stays
    assert (after.config.broken == {}) == stays
    assert "quantitty: unknown key" in after.errors[0]


def test_a_reload_logs_the_hash_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_reachable(tmp_path)
    path = tmp_path / "capacityd.toml"
    logged: list[journal.JournalEntry] = []
    monkeypatch.setattr(journal, "log_entries", logged.extend)
    hashes = []
    for number, reason in ((3, PassReason.START), (3, PassReason.CONFIG), (4, PassReason.CONFIG)):
        path.write_text(f'[resources."example.com/x"]\nstatic = {{ quantity = {number} }}\n')
        hashes.append(load(str(path)).config.digest)
        assert check(str(tmp_path), Selection(config=str(path)), {reason}) == 0
    assert [entry.fields for entry in logged] == [{"OLD": hashes[0], "NEW": hashes[2]}]
    assert logged[0].message == f"the configuration changed: hash {hashes[0]} → {hashes[2]}"


def test_a_check_reports_the_configuration_files_that_it_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`status` compares them with the files that exist later."""
    make_reachable(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text("# nothing")
    check(str(tmp_path), Selection(config="c.toml"), {PassReason.START})
    _, result = json.loads(capsys.readouterr().out)
    assert result["files"]["path"] == str(tmp_path / "c.toml")
    assert [*result["files"]["stamps"]] == [str(tmp_path / "c.toml")]


def test_a_probable_mistake_is_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_reachable(tmp_path)
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/50-a.toml").write_text('[resources."example.com/x"]\ndisk = { size = "500GB" }\n')
    config = str(tmp_path / "conf.d")
    assert check(str(tmp_path), Selection(config=config), {PassReason.START}) == 0
    assert capfd.readouterr().err.splitlines() == [
        f'capacityd: {config}/50-a.toml:2: [resources."example.com/x"] disk: size '
        '"500GB" matches only this exact size; for this size or more write ">=500GB"',
    ]


# A detector, its table, its "except" table, and the kinds of kernel events that the service then watches.
EVENT_KINDS: list[tuple[str, Mapping[str, object], Mapping[str, object], set[str]]] = [
    ("nic", {}, {}, {"links"}),
    ("nic", {"system": False}, {}, {"links", "routes"}),
    ("nic", {}, {"system": True}, {"links", "routes"}),
    ("address", {}, {}, {"links", "addresses"}),
    ("address", {"system": True}, {}, {"links", "addresses", "routes"}),
    ("disk", {}, {}, set()),
    ("disk", {"system": False}, {}, {"mounts", "swaps"}),
    ("filesystem", {}, {}, {"mounts"}),
    ("memory", {}, {}, {"swaps"}),
    ("usb", {}, {}, set()),
]


@pytest.mark.parametrize(("detector", "table", "excepted", "event_kinds"), EVENT_KINDS)
def test_only_kinds_of_events_that_can_change_the_reading_are_watched(
    detector: str, table: Mapping[str, object], excepted: Mapping[str, object], event_kinds: set[str]
) -> None:
    configured = resource(detector, table, excepts=(excepted,) if excepted else ())
    assert {kind.value for kind in service_config(Config((configured,)), Selection()).kernel} == event_kinds
