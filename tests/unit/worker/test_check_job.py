"""Which events start a pass, depending on the resources that the configuration counts."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from capacityd.config import load
from capacityd.discovery.child import DEADLINE, MAX_RUNNING
from capacityd.host.kubelet import CHECKPOINT
from capacityd.model.config import Config
from capacityd.model.reasons import PassReason
from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS
from capacityd.worker.check_job import check, watch_of
from capacityd.worker.runtime_files import read_config
from tests.support.readings import device_detectors, event_sources, resource


def options(**given: str) -> Namespace:
    """The command line of a worker."""
    return Namespace(**{"kubeconfig": None, "node_file": None, **given})


@pytest.mark.parametrize("detector", [detector.name for detector in device_detectors() if not detector.scope])
def test_every_device_detector_has_event_sources(detector: str) -> None:
    """The test of each detector checks which ones."""
    assert event_sources(detector) != (set(), set())


def test_the_files_that_are_watched(tmp_path: Path) -> None:
    """The kubeconfig or its possible paths, the kubelet's checkpoint, and the files that the configuration counts."""
    path = tmp_path / "capacityd.toml"
    path.write_text('[resources."example.com/seats"]\nfile = { path = "/srv/seats" }\n')
    kubelets = {CHECKPOINT: PassReason.PLUGINS}
    counted = {"/srv/seats": PassReason.FILE}
    config = load(str(path)).config
    credentials = dict.fromkeys(KUBECONFIG_PATHS, PassReason.CREDENTIALS)
    assert watch_of(config, options()).files == credentials | kubelets | counted
    assert (
        watch_of(config, options(kubeconfig="/etc/mine")).files
        == {"/etc/mine": PassReason.CREDENTIALS} | kubelets | counted
    )


def test_the_timeout_of_a_worker_includes_those_of_its_detectors() -> None:
    watch = watch_of(Config((resource("usb"), resource("pci"))), options())
    assert watch.allowed == MAX_RUNNING + 2 * DEADLINE


@pytest.mark.parametrize(("reasons", "stays"), [("reload", True), ("boot", False)])
def test_after_a_reload_with_errors_the_previous_configuration_stays(tmp_path: Path, reasons: str, stays: bool) -> None:
    """After a start with errors, no previous configuration is used, because it may be from another boot."""
    path = tmp_path / "capacityd.toml"
    first, second = (f'[resources."example.com/x"]\nstatic = {{ {key} = 3 }}\n' for key in ("quantity", "quantitty"))
    path.write_text(first)
    assert check(options(config=str(path), folder=str(tmp_path), reasons="boot")) == 0
    before = read_config(str(tmp_path))
    path.write_text(second)
    assert check(options(config=str(path), folder=str(tmp_path), reasons=reasons)) == 0
    after = read_config(str(tmp_path))
    assert before
    assert after
    assert (after.restored() == before.restored()) == stays
    assert (after.restored().broken == {}) == stays
    assert "quantitty: unknown key" in after.errors[0]


def test_a_file_that_is_not_read_is_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/50-a.toml").write_text('[resources."example.com/x"]\ndisk = { size = "500GB" }\n')
    (tmp_path / "conf.d/60.conf").touch()
    config = str(tmp_path / "conf.d")
    assert check(options(config=config, folder=str(tmp_path), reasons="start")) == 0
    assert capfd.readouterr().err.splitlines() == [
        f'capacityd: {config}/60.conf: is not read, because its name does not end with ".toml"',
        f'capacityd: {config}/50-a.toml:2: [resources."example.com/x".disk] size: '
        '"500GB" matches only this exact size; for this size or more write ">=500GB"',
    ]
