"""The state of a unit, from the output of systemctl. systemctl is a double here; tests/package uses the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.cli.output.problems import start_advice
from capacityd.linux.unit import UnitState, assignments, unit_state
from tests import ROOT

PRINTED = (
    "LoadState={}\nUnitFileState={}\nActiveState={}\nSubState={}\nExecMainCode={}\nExecMainStatus={}\nWantedBy={}\n"
)


@pytest.mark.parametrize(
    ("values", "expected", "advice"),
    [
        ("loaded enabled failed failed 1 5", UnitState(True, True, 5), "it fails to start (exit status 5): "),
        ("loaded enabled activating auto-restart 1 217", UnitState(True, True, 217), "cannot start it in its sandbox"),
        (
            "loaded enabled activating auto-restart 1 226",
            UnitState(True, True, 226),
            "(exit status 226, see systemd.exec(5))",
        ),
        (
            "loaded enabled activating auto-restart 1 238",
            UnitState(True, True, 238),
            "`journalctl -u capacityd` says what",
        ),
        ("loaded enabled activating auto-restart 1 1", UnitState(True, True, 1), "fails to start"),
        (
            "loaded enabled activating auto-restart 2 9",
            UnitState(True, True, 9, signal=9),
            "it was killed by signal 9, and systemd starts it again",
        ),
        ("loaded enabled inactive dead 1 0", UnitState(True, False, 0), "`systemctl start capacityd`"),
        ("loaded disabled inactive dead 1 0", UnitState(False, False, 0), "`systemctl enable --now capacityd`"),
        (
            "masked masked inactive dead 1 0",
            UnitState(False, False, 0, masked=True),
            "run `systemctl unmask capacityd`, then `systemctl enable --now capacityd`",
        ),
        ("loaded disabled active running 1 0", UnitState(False, False, 0, active=True), ""),
        ("loaded disabled active running 1 0 multi-user.target", UnitState(True, False, 0, active=True), ""),
        ("loaded enabled-runtime active running 1 0 multi-user.target", UnitState(False, False, 0, active=True), ""),
        ("loaded enabled reloading reload 1 0", UnitState(True, False, 0, active=True), ""),
        ("not-found - inactive dead 1 0", None, "`systemctl enable --now capacityd`"),
    ],
)
def test_the_state_of_a_unit_has_its_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: str, expected: UnitState | None, advice: str
) -> None:
    program = tmp_path / "systemctl"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{PRINTED.format(*values.split(), '')}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    state = unit_state("capacityd.service")
    assert state == expected
    assert advice in start_advice(state)


@pytest.mark.parametrize("script", ["exit 1", "", "echo LoadState", None], ids=["fails", "silent", "odd", "none"])
def test_without_systemd_the_state_of_a_unit_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    if script is not None:
        (tmp_path / "systemctl").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert unit_state("capacityd.service") is None


def test_the_unit_waits_for_no_server_of_home() -> None:
    """A bind mount of /home waits for the server of an automount; the other settings do not."""
    lines = (ROOT / "packaging/systemd/capacityd.service").read_text().splitlines()
    settings = [(name, value) for _, name, value in assignments(lines)]
    assert ("ReadOnlyPaths", "-/home -/run/user") in settings
    assert ("TemporaryFileSystem", "/root:ro") in settings
    assert [name for name, _ in settings if name.startswith("Bind")] == []
