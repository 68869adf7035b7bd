"""The command line: options, exit statuses, usage errors, and streams that cannot be written."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from capacityd.cli import run
from capacityd.node.file_node import FileNode
from tests import ROOT
from tests.support.nodes import node
from tests.support.terminals import ServiceFiles
from tests.support.tour import MACHINE

TOUR = str(ROOT / "conf/examples/tour/dongles.toml")
BROKEN = '[resources."example.com/dongle"]\nusb = { vndor = "0529" }\n'


@pytest.fixture
def node_file(tmp_path: Path) -> str:
    path = tmp_path / "node.json"
    path.write_text(json.dumps(node()))
    return str(path)


def test_apply_and_withdraw_write_once_and_a_dry_run_writes_nothing(
    node_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run of `withdraw` prints the same changes. A repeated command writes nothing."""
    names = ("example.com/dongle", "example.com/nic-mbps", "example.com/scratch-gib")
    options = ["--machine", str(MACHINE), "--config", TOUR, "--node-file", node_file, "--json"]
    for command, action in (("apply", "set"), ("withdraw", "remove")):
        before = Path(node_file).read_text()
        for dry in [["--dry-run"], []] if command == "withdraw" else [[]]:
            assert Path(node_file).read_text() == before
            assert run([command, *dry, *options]) == 0
            report = json.loads(capsys.readouterr().out)
            assert (report["node"], report["applied"]) == ("n1", not dry)
            assert [(change["name"], change["action"]) for change in report["changes"]] == [(n, action) for n in names]
        published = {*names} & json.loads(Path(node_file).read_text())["status"]["capacity"].keys()
        assert published == ({*names} if command == "apply" else set())
        assert run([command, *options]) == 0
        assert json.loads(capsys.readouterr().out)["applied"] is False


def test_refused_and_unknown_exit_with_status_4(
    node_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(node_file).write_text(json.dumps(node(capacity={"example.com/dongle": "0"})))
    assert run(["apply", "--machine", str(MACHINE), "--config", TOUR, "--node-file", node_file]) == 4
    assert "adopt = true" in capsys.readouterr().out
    assert json.loads(Path(node_file).read_text())["status"]["capacity"]["example.com/dongle"] == "0"
    config = tmp_path / "c.toml"
    config.write_text('[resources."example.com/seats"]\nfile = { path = "/nowhere/seats" }\n')
    assert run(["probe", "--config", str(config)]) == 4
    assert "/nowhere/seats does not exist" in capsys.readouterr().out


def test_a_configuration_with_errors_exits_with_status_2(
    node_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, before = tmp_path / "c.toml", Path(node_file).read_text()
    config.write_text(BROKEN)
    message = 'unknown key; did you mean "vendor"?'
    for command in (["probe"], ["plan"], ["apply"], ["config", "check"], ["config", "show"]):
        where = ["--node-file", node_file] if command[0] in ("plan", "apply") else []
        assert run([*command, *where, "--config", str(config)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert message in captured.err
        assert captured.err.startswith(f"{config}:2: " if command == ["config", "check"] else "capacityd: ")
    assert Path(node_file).read_text() == before
    assert run(["config", "check", "--json", "--config", str(config)]) == 2
    error = {"file": str(config), "line": 2, "table": 'resources."example.com/dongle".usb', "key": "vndor"}
    output = json.loads(capsys.readouterr().out)
    assert output == {
        "files": [str(config)],
        "skipped": [],
        "errors": [error | {"message": message}],
        "warnings": [],
    }


def test_a_recording_is_never_applied_to_a_real_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is the same, whether the service runs or not."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    for files in (ServiceFiles(), ServiceFiles(service=None)):
        with files.written(tmp_path):
            for command in ("apply", "withdraw", "run"):
                assert run([command, "--machine", str(MACHINE), "--config", TOUR]) == 2
                assert "--machine selects another machine" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["machine", "node-file"])
@pytest.mark.parametrize("content", ["no JSON", "[]", None])
def test_a_file_that_is_no_recording_or_no_node_exits_with_status_2(tmp_path: Path, option: str, content: str) -> None:
    if content is not None:
        (tmp_path / "x").write_text(content)
    assert run(["plan", f"--{option}={tmp_path}/x", "--config", TOUR]) == 2


def test_observe_forbids_apply(node_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f"{Path(TOUR).read_text()}[kubernetes]\nobserve = true\n")
    options = ["--machine", str(MACHINE), "--config", str(config), "--node-file", node_file]
    before = Path(node_file).read_text()
    assert run(["apply", *options]) == 2
    assert "observe = true" in capsys.readouterr().err
    assert Path(node_file).read_text() == before
    assert run(["plan", *options]) == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("prob", 'error: unknown command "prob"; did you mean "probe"?'),
        ("x", 'error: unknown command "x"; must be one of devices, '),
        ("plan --kubconfig x", 'unrecognized arguments: --kubconfig x; did you mean "--kubeconfig"?'),
        ("withdraw --dryrun", 'unrecognized arguments: --dryrun; did you mean "--dry-run"?'),
        ("--config x plan", "capacityd: error: unrecognized arguments: --config; the options of a command stand after"),
        ("probe example.com/x", "capacityd probe: error: unrecognized arguments: example.com/x"),
        ("config x", "argument check|show: invalid choice: 'x'"),
        ("devices scsi", 'unknown detector "scsi"; must be one of address, cpu, disk, filesystem, memory, nic, '),
        ("devices exec", 'the detector "exec" has no devices'),
        ("devices --toml --json", "argument --json: not allowed with argument --toml"),
        ("plan --json --patch", "argument --patch: not allowed with argument --json"),
        ("probe --machine /nowhere", "/nowhere: could not be read: No such file"),
        ("probe --config /nowhere", "/nowhere"),
        ("probe --as-service --machine x.json", "--as-service reads this machine: it cannot be combined with"),
        ("plan --node-file n.json --kubeconfig k", "replaces the API server"),
        ("plan --config= --json", "argument --config: the value is empty; is a variable unset?"),
        ("status --machine x.json", "unrecognized arguments: --machine x.json"),
    ],
)
def test_a_usage_error_is_explained_and_exits_with_status_2(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        exit_status: object = run(command.split())
    except SystemExit as e:  # argparse exits this way
        exit_status = e.code
    assert exit_status == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_runtime_directory_that_cannot_be_written_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/proc/none")
    assert run(["run"]) == 1
    assert "the folder /proc/none cannot be written: No such file or directory; " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["apply", "withdraw"])
def test_while_the_service_runs_a_command_writes_nothing(
    node_file: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    running = mock.patch("capacityd.worker.runtime_files.running", return_value=mock.Mock(pid=1))
    cluster = mock.patch("capacityd.cli.commands.publish.node_of", return_value=FileNode(node_file))
    with running, cluster:
        assert run([command, "--config", TOUR]) == 2
        error = capsys.readouterr().err
        assert "`systemctl stop capacityd` ends it" in error
        assert ("systemctl reload capacityd" in error) == (command == "apply")
        harmless = ["plan"] if command == "apply" else ["withdraw", "--dry-run"]
        assert f"`capacityd {' '.join(harmless)}` shows what would be" in error
        assert run([*harmless, "--machine", str(MACHINE), "--config", TOUR]) == 0


@pytest.mark.parametrize(
    ("expect", "quantity", "status"), [(4, "4", 0), (5, "4", 4), (5, "absent", 4), (1, "does not apply", 0)]
)
def test_less_than_expected_is_shown_and_is_no_failure_of_a_plan(
    node_file: str, tmp_path: Path, expect: int, quantity: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """`probe` exits with status 4. `plan` and `apply` exit with 0, because they can publish the number."""
    vendor = "0529" if quantity == "4" else "ffff"
    when = 'when = { arch = "another" }' if quantity == "does not apply" else ""
    config = tmp_path / "c.toml"
    config.write_text(f'[resources."example.com/x"]\nusb = {{ vendor = "{vendor}" }}\nexpect = {expect}\n{when}\n')
    options = ["--machine", str(MACHINE), "--config", str(config), "--node-file", node_file]
    reported = status == 4

    for explain in ([], ["--explain"]):
        assert run(["probe", *explain, *options]) == status
        assert (f"less than the expected {expect}" in capsys.readouterr().out) == reported

    assert run(["probe", "--json", *options]) == status
    output, error = capsys.readouterr()
    assert (f"less than the expected {expect}\n" in error) == reported, "also with --json"
    (resource,) = json.loads(output)["resources"]
    assert (resource["expect"], resource["below_expect"]) == (expect, reported)

    for command in ("plan", "apply"):
        assert run([command, *options]) == 0
        assert (f" of {expect}, less than expected\n" in capsys.readouterr().out) == reported
    assert run(["plan", "--json", *options]) == 0
    assert ("example.com/x: below expected: " in capsys.readouterr().err) == reported


def test_names_of_devices_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = json.loads(MACHINE.read_text())
    (path,) = [p for p in recording["files"] if p.endswith("/1-2/product")]
    recording["properties"] = {}  # the hardware database would name the device
    recording["files"][path] = "Mouse\x1b]0;owned\x07\u202e\n"
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps(recording))
    for arguments in (["devices"], ["devices", "--json"]):
        assert run([*arguments, "--machine", str(machine)]) == 0
        output = capsys.readouterr().out
        assert "owned" in output
        assert all(c.isprintable() or c == "\n" for c in output)


def test_commands_import_no_library_that_they_do_not_need() -> None:
    """`probe` does not import the Kubernetes client. No command imports systemd-python, which is hard to build."""
    script = f"""
import sys
from importlib import import_module
from capacityd.cli import run
from capacityd.cli.parser import COMMANDS, MODULES
sys.modules["systemd"] = None
assert run(["probe", "--machine", {str(MACHINE)!r}, "--config", {TOUR!r}]) == 0
print(sorted(m for m in sys.modules if m.split(".")[0] in ("kubernetes", "urllib3", "yaml")))
for command in COMMANDS:
    import_module(f"capacityd.cli.commands.{{MODULES.get(command, command)}}")
"""
    done = in_a_shell(f"{sys.executable} -c {shlex.quote(script)}")
    assert (done.stdout.splitlines()[-1], done.stderr) == ("[]", "")


@pytest.mark.parametrize("command", ["devices", "--help", "probe --help", "--version"])
def test_a_closed_pipe_is_no_error(command: str) -> None:
    done = in_a_shell(f"{sys.executable} -m capacityd {command} --machine {MACHINE} | true; echo ${{PIPESTATUS[0]}}")
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "141")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["devices", "record - --keep-serials", "--help"])
def test_an_output_that_cannot_be_written_exits_with_status_1(command: str) -> None:
    def done(redirection: str) -> subprocess.CompletedProcess[str]:
        return in_a_shell(f"{sys.executable} -m capacityd {command} --machine {MACHINE} {redirection}")

    full = done(">/dev/full")
    message = "capacityd: could not write standard output: No space left on device\n"
    assert (full.returncode, full.stderr.endswith(message), full.stderr.count("\n")) == (1, True, 1)
    closed = done("<&- >&-")
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, "", "")


def test_an_error_for_a_closed_standard_error_does_not_get_into_the_output() -> None:
    done = in_a_shell(f"{sys.executable} -m capacityd devices scsi 2>&-")
    assert (done.returncode, done.stdout) == (2, "")


def in_a_shell(script: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "agent")}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=environment)
