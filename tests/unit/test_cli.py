"""The command line: options anywhere, results and messages apart, exit statuses, nothing raw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capacityd.cli import run
from tests import ROOT
from tests.unit.nodes import node
from tests.unit.tour import MACHINE

TOUR = str(ROOT / "docs/tour/dongles.toml")
BROKEN = '[resources."example.com/dongle"]\nusb = { vndor = "0529" }\n'


@pytest.fixture
def node_file(tmp_path: Path) -> str:
    path = tmp_path / "node.json"
    path.write_text(json.dumps(node()))
    return str(path)


@pytest.mark.parametrize("before", [True, False])
def test_options_stand_before_or_after_the_command(before: bool, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--machine", str(MACHINE), "--config", TOUR, "--json"]
    assert run([*options, "probe"] if before else ["probe", *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {r["name"]: r["quantity"] for r in found["resources"]} == {
        "example.com/dongle": 4,
        "example.com/nic-mbps": 10000,
        "example.com/scratch-gib": 1609,
    }


def test_apply_json_and_exit_statuses(node_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--machine", str(MACHINE), "--config", TOUR, "--node-file", node_file, "--json"]
    before = Path(node_file).read_text()
    assert run(["apply", "--dry-run", *options]) == 0
    assert json.loads(capsys.readouterr().out)["applied"] is False
    assert Path(node_file).read_text() == before
    assert run(["apply", *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["node"], found["applied"], {c["action"] for c in found["changes"]}) == ("n1", True, {"set"})
    assert run(["apply", *options]) == 0
    assert json.loads(capsys.readouterr().out)["applied"] is False


def test_refused_and_unknown_are_status_4(node_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(node_file).write_text(json.dumps(node(capacity={"example.com/dongle": "0"})))
    assert run(["apply", "--machine", str(MACHINE), "--config", TOUR, "--node-file", node_file]) == 4
    assert "adopt = true" in capsys.readouterr().out
    assert json.loads(Path(node_file).read_text())["status"]["capacity"]["example.com/dongle"] == "0"
    config = tmp_path / "c.toml"
    config.write_text('[resources."example.com/seats"]\nfile = { path = "/nowhere/seats" }\n')
    assert run(["probe", "--config", str(config)]) == 4
    assert "/nowhere/seats does not exist" in capsys.readouterr().out


def test_a_bad_configuration_is_status_2_and_nothing_happens(
    node_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, before = tmp_path / "c.toml", Path(node_file).read_text()
    config.write_text(BROKEN)
    for command in (["probe"], ["plan"], ["apply"], ["config", "check"], ["config", "show"]):
        where = ["--node-file", node_file] if command[0] in ("plan", "apply") else []
        assert run([*command, *where, "--config", str(config)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert 'did you mean "vendor"' in captured.err
    assert Path(node_file).read_text() == before


def test_another_machine_never_writes_to_a_real_node(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("apply", "withdraw", "run"):
        assert run([command, "--machine", str(MACHINE), "--config", TOUR]) == 2
        assert "--machine" in capsys.readouterr().err


def test_a_configuration_that_observes_is_never_applied(
    node_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f"{Path(TOUR).read_text()}[kubernetes]\nobserve = true\n")
    options = ["--machine", str(MACHINE), "--config", str(config), "--node-file", node_file]
    before = Path(node_file).read_text()
    assert run(["apply", *options]) == 2
    assert "observe = true" in capsys.readouterr().err
    assert Path(node_file).read_text() == before
    assert run(["apply", "--dry-run", *options]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["devices", "scsi"], 'no detector "scsi"'),
        (["devices", "exec"], "no devices to list"),
        (["probe", "--machine", "/nowhere"], "/nowhere: could not be read"),
        (["probe", "--config", "/nowhere"], "/nowhere"),
        (["apply", "--wait", "soon"], "--wait must be a duration"),
        (["apply", "--wait", "30s", "--dry-run"], "--wait is for a Node whose kubelet runs"),
        (["plan", "--node-file", "n.json", "--node-name", "n1"], "takes the place of the API server"),
    ],
)
def test_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "--config" not in arguments and arguments[0] != "devices":
        arguments = [*arguments, "--config", TOUR]
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_nothing_a_device_says_reaches_the_terminal_raw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = json.loads(MACHINE.read_text())
    (path,) = [p for p in recording["files"] if p.endswith("/1-2/product")]
    del recording["hardware_names"]
    recording["files"][path] = "Mouse\x1b]0;owned\x07\u202e\n"
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps(recording))
    for arguments in (["devices"], ["devices", "--json"]):
        assert run([*arguments, "--machine", str(machine)]) == 0
        out = capsys.readouterr().out
        assert "owned" in out
        assert all(c.isprintable() or c == "\n" for c in out)


def test_a_line_of_devices_matches_exactly_its_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["devices", "--json", "--machine", str(MACHINE)]) == 0
    devices = json.loads(capsys.readouterr().out)["devices"]
    assert len(devices) > 10
    for device in devices:
        config = tmp_path / "c.toml"
        config.write_text(f'[resources."example.com/x"]\n{device["line"]}\n')
        assert run(["probe", "--json", "--machine", str(MACHINE), "--config", str(config)]) == 0
        (resource,) = json.loads(capsys.readouterr().out)["resources"]
        assert [e["device"] for e in resource["evidence"]] == [device["device"]], device["line"]


def test_probe_never_imports_kubernetes() -> None:
    script = f"""
import sys
from capacityd.cli import run
assert run(["probe", "--machine", {str(MACHINE)!r}, "--config", {TOUR!r}]) == 0
print(sorted(m for m in sys.modules if m.split(".")[0] in ("kubernetes", "urllib3", "yaml", "jsonpatch")))
"""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'agent')!r})\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def in_a_shell(script: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "agent")}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=environment)


def test_a_closed_pipe_is_no_error() -> None:
    done = in_a_shell(f"{sys.executable} -m capacityd devices --machine {MACHINE} | true; echo ${{PIPESTATUS[0]}}")
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "141")


@pytest.mark.parametrize("command", ["devices", "record -", "config schema"])
def test_streams_that_can_not_be_written(command: str) -> None:
    def done(where: str) -> subprocess.CompletedProcess[str]:
        return in_a_shell(f"{sys.executable} -m capacityd {command} --machine {MACHINE} {where}")

    full = done(">/dev/full")
    message = "capacityd: standard output could not be written: No space left on device\n"
    assert (full.returncode, full.stderr.endswith(message), full.stderr.count("\n")) == (1, True, 1)
    closed = done("<&- >&-")
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, "", "")
    assert done("2>&-").stdout == done("").stdout
