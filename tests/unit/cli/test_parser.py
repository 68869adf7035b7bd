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
from tests.support.terminals import ServiceFiles, executed
from tests.support.tour import MACHINE

TOUR = str(ROOT / "conf/examples/tour/dongles.toml")
ON_MACHINE = ("--machine", str(MACHINE))


@pytest.fixture
def node_file(tmp_path: Path) -> Path:
    path = tmp_path / "node.json"
    path.write_text(json.dumps(node()))
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "c.toml"


def test_apply_and_withdraw_write_once_and_a_dry_run_writes_nothing(node_file: Path) -> None:
    """A dry run of `withdraw` prints the same changes. A repeated `withdraw` writes nothing."""
    names = ["example.com/dongle", "example.com/nic-mbps", "example.com/scratch-gib"]
    options = (*ON_MACHINE, f"--config={TOUR}", f"--node-file={node_file}", "--json")
    for command, action, published in (
        ("apply", "set", names),
        ("withdraw --dry-run", "remove", names),
        ("withdraw", "remove", []),
    ):
        status, out, _ = executed(run, *command.split(), *options)
        report = json.loads(out)
        assert (status, report["node"]) == (0, "n1")
        assert report["applied"] is (command != "withdraw --dry-run")
        assert [(change["name"], change["action"]) for change in report["changes"]] == [(n, action) for n in names]
        stored = json.loads(node_file.read_text())["status"]["capacity"]
        assert [name for name in names if name in stored] == published
    assert json.loads(executed(run, "withdraw", *options)[1])["applied"] is False


def test_refused_and_unknown_exit_with_status_4(node_file: Path, config: Path) -> None:
    document = json.dumps(node(capacity={"example.com/dongle": "0"}))
    node_file.write_text(document)
    config.write_text('[resources."example.com/dongle"]\nusb = { vendor = "0529" }\n')
    status, out, _ = executed(run, "apply", *ON_MACHINE, f"--config={config}", f"--node-file={node_file}")
    assert status == 4
    assert "adopt = true" in out
    assert json.loads(node_file.read_text())["status"]["capacity"] == json.loads(document)["status"]["capacity"]
    config.write_text('[resources."example.com/seats"]\nfile = { path = "/nowhere/seats" }\n')
    status, out, _ = executed(run, "probe", f"--config={config}")
    assert status == 4
    assert "/nowhere/seats does not exist" in out


def test_a_configuration_with_errors_exits_with_status_2(node_file: Path, config: Path) -> None:
    before = node_file.read_text()
    config.write_text('[resources."example.com/dongle"]\nusb = { vndor = "0529" }\n')
    message = 'unknown key; did you mean "vendor"?'
    of_node = f"--node-file={node_file}"
    for command in (("probe",), ("plan", of_node), ("apply", of_node), ("config", "check"), ("config", "show")):
        status, out, err = executed(run, *command, f"--config={config}")
        assert (status, out) == (2, "")
        assert message in err
        assert err.startswith(f"{config}:2: " if command == ("config", "check") else "capacityd: ")
    assert node_file.read_text() == before
    status, out, _ = executed(run, "config", "check", "--json", f"--config={config}")
    table = 'resources."example.com/dongle".usb'
    error = {"file": str(config), "line": 2, "table": table, "key": "vndor", "message": message}
    assert (status, json.loads(out)) == (2, {"files": [str(config)], "skipped": [], "errors": [error], "warnings": []})


def test_a_recording_is_never_applied_to_a_real_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is the same, whether the service runs or not."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    for files in (ServiceFiles(), ServiceFiles(service=None)):
        with files.written(tmp_path):
            for command in ("apply", "withdraw", "run"):
                status, _, err = executed(run, command, *ON_MACHINE, f"--config={TOUR}")
                assert status == 2
                assert "--machine selects another machine" in err


@pytest.mark.parametrize("option", ["machine", "node-file"])
@pytest.mark.parametrize("content", ["no JSON", "[]", None])
def test_a_file_that_is_no_recording_or_no_node_exits_with_status_2(tmp_path: Path, option: str, content: str) -> None:
    if content is not None:
        (tmp_path / "x").write_text(content)
    assert run(["plan", f"--{option}={tmp_path}/x", "--config", TOUR]) == 2


def test_observe_forbids_apply(node_file: Path, config: Path) -> None:
    config.write_text(f"{Path(TOUR).read_text()}[kubernetes]\nobserve = true\n")
    options = (*ON_MACHINE, f"--config={config}", f"--node-file={node_file}")
    before = node_file.read_text()
    status, _, err = executed(run, "apply", *options)
    assert status == 2
    assert "observe = true" in err
    assert node_file.read_text() == before
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
def test_a_usage_error_is_explained_and_exits_with_status_2(command: str, message: str) -> None:
    status, out, err = executed(run, *command.split())
    assert (status, out) == (2, "")
    assert message in err


def test_a_runtime_directory_that_cannot_be_written_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/proc/none")
    status, _, err = executed(run, "run")
    assert status == 1
    assert "the folder /proc/none cannot be written: No such file or directory; " in err


@pytest.mark.parametrize(("command", "harmless"), [("apply", "plan"), ("withdraw", "withdraw --dry-run")])
def test_while_the_service_runs_a_command_writes_nothing(node_file: Path, command: str, harmless: str) -> None:
    service_runs = mock.patch("capacityd.worker.runtime_files.running_service", return_value=mock.Mock(pid=1))
    node_in_file = mock.patch("capacityd.cli.commands.publish.node_of", return_value=FileNode(str(node_file)))
    with service_runs, node_in_file:
        status, _, err = executed(run, command, f"--config={TOUR}")
        assert status == 2
        assert "`systemctl stop capacityd` ends it" in err
        assert ("systemctl reload capacityd" in err) == (command == "apply")
        assert f"`capacityd {harmless}` shows what would be" in err
        assert run([*harmless.split(), *ON_MACHINE, "--config", TOUR]) == 0


@pytest.mark.parametrize(
    ("expect", "quantity", "is_below"),
    [(4, "4", False), (5, "4", True), (5, "absent", True), (1, "does not apply", False)],
)
def test_less_than_expected_is_shown_and_is_no_failure_of_a_plan(
    node_file: Path, config: Path, expect: int, quantity: str, is_below: bool
) -> None:
    """`probe` exits with status 4. `plan` and `apply` exit with 0, because they can publish the number."""
    vendor = "0529" if quantity == "4" else "ffff"
    when = 'when = { arch = "another" }' if quantity == "does not apply" else ""
    config.write_text(f'[resources."example.com/x"]\nusb = {{ vendor = "{vendor}" }}\nexpect = {expect}\n{when}\n')
    options = (*ON_MACHINE, f"--config={config}", f"--node-file={node_file}")
    probe_status = 4 if is_below else 0

    for explain in ((), ("--explain",)):
        status, out, _ = executed(run, "probe", *explain, *options)
        assert status == probe_status
        assert (f"less than the expected {expect}" in out) is is_below
    status, out, err = executed(run, "probe", "--json", *options)
    assert status == probe_status
    assert (f"less than the expected {expect}\n" in err) is is_below
    (resource,) = json.loads(out)["resources"]
    assert (resource["expect"], resource["below_expect"]) == (expect, is_below)

    for command in ("plan", "apply"):
        status, out, _ = executed(run, command, *options)
        assert status == 0
        assert (f" of {expect}, less than expected\n" in out) is is_below
    status, _, err = executed(run, "plan", "--json", *options)
    assert status == 0
    assert ("example.com/x: below expected: " in err) is is_below


def test_names_of_devices_are_escaped(tmp_path: Path) -> None:
    recording = json.loads(MACHINE.read_text())
    (path,) = [p for p in recording["files"] if p.endswith("/1-2/product")]
    recording["properties"] = {}  # the hardware database would name the device
    recording["files"][path] = "Mouse\x1b]0;owned\x07\u202e\n"
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps(recording))
    for options in ((), ("--json",), ("--toml",)):
        status, out, _ = executed(run, "devices", *options, f"--machine={machine}")  # fails if it is not printable
        assert status == 0
        assert "owned" in out


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
    assert done.stdout.strip() in ("0", "141")  # 141: SIGPIPE has ended the command


@pytest.mark.slow
@pytest.mark.parametrize("command", ["devices", "record - --keep-serials", "--help"])
def test_an_output_that_cannot_be_written_exits_with_status_1(command: str) -> None:
    def done(redirection: str) -> subprocess.CompletedProcess[str]:
        return in_a_shell(f"{sys.executable} -m capacityd {command} --machine {MACHINE} {redirection}")

    full = done(">/dev/full")
    message = "capacityd: could not write standard output: No space left on device\n"
    assert full.returncode == 1
    assert full.stderr.endswith(message)
    assert full.stderr.count("\n") == 1
    closed = done("<&- >&-")
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, "", "")


def test_an_error_for_a_closed_standard_error_does_not_get_into_the_output() -> None:
    done = in_a_shell(f"{sys.executable} -m capacityd devices scsi 2>&-")
    assert (done.returncode, done.stdout) == (2, "")


def in_a_shell(script: str) -> subprocess.CompletedProcess[str]:
    """Runs the script in bash, where capacityd can be imported."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "agent")}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=environment)
