"""Which events start a pass, depending on the resources that the configuration counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacityd.config import load
from capacityd.discovery.child import MAX_BLOCKED, MAX_BUSY
from capacityd.host.system_disks import NODE_FOLDERS, OS_FOLDERS, OS_TREES
from capacityd.model.device_plugins import CHECKPOINT
from capacityd.model.event_filters import (
    ALL_EVENTS,
    NO_EVENTS,
    AddressPattern,
    EventFilters,
    LinkFilter,
    MountFilter,
    Pattern,
)
from capacityd.model.options import Selection, WorkerOptions
from capacityd.model.reasons import PassReason
from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS
from capacityd.schema.config import Config
from capacityd.worker import check_job
from capacityd.worker.check_job import check, service_config
from capacityd.worker.runtime_files import read_config
from tests.support.reachable import make_reachable
from tests.support.readings import device_detector, device_detectors, event_sources, resource


@pytest.mark.parametrize(
    "detector", [detector.name for detector in device_detectors() if not detector.required_subsystem]
)
def test_every_device_detector_has_event_sources(detector: str) -> None:
    """The test of each detector checks which ones."""
    assert event_sources(detector) != (set(), set())


def test_the_watched_files_are_those_that_credentials_plugins_and_resources_name(tmp_path: Path) -> None:
    """The kubeconfig or its possible paths, the kubelet's checkpoint, and the files that the configuration counts."""
    path = tmp_path / "capacityd.toml"
    path.write_text('[resources."example.com/seats"]\nfile = { path = "/srv/seats" }\n')
    kubelets = {CHECKPOINT: PassReason.PLUGINS}
    counted = {"/srv/seats": PassReason.FILE}
    config = load(str(path)).config
    credentials = dict.fromkeys(KUBECONFIG_PATHS, PassReason.CREDENTIALS)
    assert service_config(config, Selection()).files == credentials | kubelets | counted
    assert (
        service_config(config, Selection(kubeconfig="/etc/mine")).files
        == {"/etc/mine": PassReason.CREDENTIALS} | kubelets | counted
    )


def test_the_timeout_of_a_worker_includes_those_of_its_detectors() -> None:
    config = service_config(Config((resource("usb"), resource("pci"))), Selection())
    assert config.detectors_timeout == MAX_BUSY + 2 * MAX_BLOCKED


@pytest.mark.parametrize(("reason", "stays"), [(PassReason.CONFIG, True), (PassReason.BOOT, False)])
def test_after_a_reload_with_errors_the_previous_configuration_stays(
    tmp_path: Path, reason: PassReason, stays: bool
) -> None:
    """After a start with errors, no previous configuration is used, because it may be from another boot."""
    make_reachable(tmp_path)
    path = tmp_path / "capacityd.toml"
    first, second = (f'[resources."example.com/x"]\nstatic = {{ {key} = 3 }}\n' for key in ("quantity", "quantitty"))
    path.write_text(first)
    assert check(WorkerOptions(str(tmp_path), Selection(config=str(path))), {PassReason.BOOT}) == 0
    before = read_config(str(tmp_path))
    path.write_text(second)
    assert check(WorkerOptions(str(tmp_path), Selection(config=str(path))), {reason}) == 0
    after = read_config(str(tmp_path))
    assert before
    assert after
    assert (after.config == before.config) == stays
    assert (after.config.broken == {}) == stays
    assert "quantitty: unknown key" in after.errors[0]


def test_the_files_are_those_of_the_last_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`status` compares them with those that are there."""
    make_reachable(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text("# nothing")
    check(WorkerOptions(str(tmp_path), Selection(config="c.toml")), {PassReason.BOOT})
    _, result = json.loads(capsys.readouterr().out)
    assert result["files"]["path"] == str(tmp_path / "c.toml")
    assert [*result["files"]["stamps"]] == [str(tmp_path / "c.toml")]


def test_a_file_that_is_not_read_is_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_reachable(tmp_path)
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/50-a.toml").write_text('[resources."example.com/x"]\ndisk = { size = "500GB" }\n')
    (tmp_path / "conf.d/60.conf").touch()
    config = str(tmp_path / "conf.d")
    assert check(WorkerOptions(str(tmp_path), Selection(config=config)), {PassReason.START}) == 0
    assert capfd.readouterr().err.splitlines() == [
        f'capacityd: {config}/60.conf: is not read, because its name does not end with ".toml"',
        f'capacityd: {config}/50-a.toml:2: [resources."example.com/x".disk] size: '
        '"500GB" matches only this exact size; for this size or more write ">=500GB"',
    ]


PORTS = LinkFilter()
SYSTEM = MountFilter(system_disks=True, system_points=frozenset({*OS_FOLDERS, *NODE_FOLDERS}), system_trees=OS_TREES)


def filters(*resources: tuple[str, Mapping[str, object]], **more: Any) -> EventFilters:
    """The filters of a configuration with these detectors and tables."""
    return service_config(
        Config(tuple(resource(name, table, **more) for name, table in resources)), Selection()
    ).filters


def test_only_what_a_resource_can_match_concerns_it() -> None:
    assert filters(("nic", {})) == replace(NO_EVENTS, links=PORTS)
    assert filters(("nic", {"system": False})) == replace(NO_EVENTS, links=LinkFilter(system=True))
    assert filters(("nic", {}), excepts=({"system": True},)).links == LinkFilter(system=True)
    bonds = LinkFilter((Pattern("bond", "up*"), Pattern("bond", "x")))
    assert filters(("nic", {"kind": ["bond", "physical"], "name": ["up*", "x"]})).links == bonds
    assert filters(("disk", {})) == filters(("memory", {})) == filters(("usb", {})) == NO_EVENTS
    assert filters(("disk", {"system": False})).mounts == SYSTEM
    assert filters(("filesystem", {})).mounts == MountFilter((Pattern("local"),))
    shm = {"kind": "memory", "mount": "/dev/shm"}
    assert filters(("filesystem", shm)).mounts == MountFilter((Pattern("memory", "/dev/shm"),))
    assert filters(("address", {})) == replace(NO_EVENTS, links=PORTS, addresses=(AddressPattern(),))
    vips = {"address": ["192.0.2.0/24", "2001:db8::/32"], "interface": "vip*"}
    patterns = (AddressPattern("192.0.2.0/24", "vip*"), AddressPattern("2001:db8::/32", "vip*"))
    assert filters(("address", {"scope": ["global", "link"]})).addresses == (AddressPattern(link_local=True),)
    links = LinkFilter((Pattern(name="vip*"),))
    assert filters(("address", vips)) == replace(NO_EVENTS, links=links, addresses=patterns)
    assert filters(("udev", {"subsystem": "net"})) == replace(NO_EVENTS, udev_software_links=True)
    assert filters(("udev", {"subsystem": "tty"})) == NO_EVENTS


def test_what_concerns_one_resource_concerns_the_configuration() -> None:
    both = filters(
        ("nic", {"kind": "vlan"}), ("disk", {"system": False}), ("filesystem", {}), ("udev", {"subsystem": "net"})
    )
    mounts = replace(SYSTEM, counted=(Pattern("local"),))
    assert both == EventFilters(mounts, LinkFilter((Pattern("vlan"),)), (), udev_software_links=True)


def test_a_detector_without_filters_is_concerned_by_all_events_of_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    detector = replace(device_detector("nic"), filters=device_detector("usb").filters)
    monkeypatch.setattr(check_job, "load_detector", lambda _: detector)
    expected = replace(NO_EVENTS, links=ALL_EVENTS.links, udev_software_links=True)
    assert filters(("nic", {})) == expected
