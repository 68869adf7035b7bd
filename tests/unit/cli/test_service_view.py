"""`config check` warns of files and programs that the service will refuse or cannot see."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path

import pytest

from capacityd.cli import run, service_view
from capacityd.linux.sandbox import Sandbox
from tests.cluster.credentials import Authority, kubeconfig
from tests.support.reachable import make_reachable
from tests.unit.node.test_credentials import config, written

OTHER = 12345  # the uid of another user
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


class Check:
    """Runs `config check` on a configuration."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = folder / "60-x.toml"
        self._capsys = capsys

    def warnings(self, configuration: str) -> list[str]:
        """The warnings. The configuration must have no error."""
        self.path.write_text(configuration)
        assert run(["config", "check", "--config", str(self.path)]) == 0
        return self._capsys.readouterr().err.splitlines()


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    return Check(tmp_path, capsys)


@as_root
def test_config_check_warns_of_programs_and_credentials_that_others_could_change(
    tmp_path: Path, check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho 1\n")
    program.chmod(0o755)
    kubeconfig = written(tmp_path, config(user={"token": "t"}))
    configuration = (
        f'[kubernetes]\nkubeconfig = "{kubeconfig}"\n'
        f'[resources."example.com/a"]\nexec = [{{ command = ["/bin/true"] }}, {{ command = ["{program}"] }}]\n'
        '[resources."example.com/b"]\nstatic = { quantity = 1 }\n'
    )
    assert check.warnings(configuration) == []
    os.chown(program, OTHER, OTHER)
    os.chmod(kubeconfig, 0o666)
    assert check.warnings(configuration) == [
        f'{check.path}: warning: [resources."example.com/a"] exec: the service does not run {program}, because '
        f"{program} does not belong to root (owner uid 12345, mode 0755): chown root {program}",
        f"{kubeconfig}: warning: the kubeconfig {kubeconfig} is not used, because {kubeconfig} is writable by "
        f"everybody (owner root, mode 0666): chmod go-w {kubeconfig}",
    ]
    assert run(["config", "check", "--config", str(check.path), "--json"]) == 0
    files = [warning["file"] for warning in json.loads(capsys.readouterr().out)["warnings"]]
    assert files == [str(check.path), kubeconfig]


@as_root
def test_config_check_warns_of_a_file_that_the_service_may_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: Check
) -> None:
    """Root may read the file in a shell, but the service has fewer rights."""
    monkeypatch.setattr(service_view, "service_sandbox", Sandbox)  # the unit need not be installed here
    make_reachable(tmp_path)
    home = tmp_path / "home"
    home.mkdir(0o700)
    seats = home / "seats"
    seats.write_text("5\n")
    os.chown(home, OTHER, OTHER)
    configuration = f'[resources."example.com/seats"]\nfile = {{ path = "{seats}" }}\n'
    assert check.warnings(configuration) == [
        f'{check.path}: warning: [resources."example.com/seats"] file: the sandbox of capacityd.service hides {seats}: '
        "/usr/share/doc/capacityd/docs/files-and-programs.md says how to show it"
    ]
    home.chmod(0o711)
    assert check.warnings(configuration) == []


@pytest.mark.parametrize(
    ("configuration", "hidden"),
    [
        ('[resources."example.com/a"]\nwhen = { path = "/root/x0" }\nstatic = { quantity = 1 }\n', "/root/x0"),
        ('[service]\ntextfile = "/root/metrics/x.prom"\n', "/root/metrics/x.prom"),
        ('[service]\ntextfile = "/var/lib/prometheus/node-exporter/x.prom"\n', None),
    ],
)
def test_config_check_warns_of_a_path_that_the_sandbox_hides(
    monkeypatch: pytest.MonkeyPatch, check: Check, configuration: str, hidden: str | None
) -> None:
    monkeypatch.setattr(service_view, "service_sandbox", lambda: Sandbox(hidden=("/root",)))
    warnings = check.warnings(configuration)
    assert len(warnings) == (1 if hidden else 0)
    for warning in warnings:
        assert f"the sandbox of capacityd.service hides {hidden}" in warning


@pytest.mark.parametrize(
    ("command", "warned"),
    [
        ('["/bin/sh", "-c", "ls /dev/ttyUSB* | wc -l"]', True),
        ('["/bin/bash", "-euc", "echo 1"]', True),
        ('["/usr/bin/python3", "-c", "print(1)"]', True),
        ('["/usr/bin/timeout", "5", "sh", "-c", "echo 1"]', True),
        ('["/bin/grep", "-c", "x", "/etc/passwd"]', False),
        ('["/bin/sh", "/bin/true"]', False),
        ('["/usr/bin/timeout", "5", "/bin/grep", "-c", "sh", "/etc/passwd"]', False),
    ],
)
def test_config_check_warns_of_a_text_that_a_shell_runs(check: Check, command: str, warned: bool) -> None:
    warnings = check.warnings(f'[resources."example.com/a"]\nexec = {{ command = {command} }}\n')
    assert ("capacityd probe --as-service" in "".join(warnings)) is warned


@pytest.mark.parametrize(("argument", "warned"), [("/dev/nvidia*", True), ("*.lic", False), ("/etc/passwd", False)])
def test_config_check_warns_of_a_pattern_that_no_shell_expands(check: Check, argument: str, warned: bool) -> None:
    warnings = check.warnings(f'[resources."example.com/a"]\nexec = {{ command = ["/bin/ls", "{argument}"] }}\n')
    assert (f'no shell expands "{argument}": use a script' in "".join(warnings)) is warned


def test_config_check_does_not_wait_for_a_path_that_hangs(monkeypatch: pytest.MonkeyPatch, check: Check) -> None:
    """The path may be on a network file system whose server is away. The other paths are checked."""

    def hides(_: Sandbox, path: str) -> bool:
        if path == "/srv/hanging":
            time.sleep(3600)
        return path == "/srv/hidden"

    monkeypatch.setattr(Sandbox, "hides", hides)
    monkeypatch.setattr(service_view, "load", lambda *_, **__: time.sleep(3600))
    monkeypatch.setattr(service_view, "_TIMEOUT", 0.2)
    hanging, hidden, kubeconfig = check.warnings(
        '[resources."example.com/hanging"]\nfile = { path = "/srv/hanging" }\n'
        '[resources."example.com/hidden"]\nfile = { path = "/srv/hidden" }\n'
        '[kubernetes]\nkubeconfig = "/srv/kubeconfig"\nnode_name = "n1"\n'
    )
    assert '[resources."example.com/hanging"] file: a look at its path did not end within 0.2 s' in hanging
    assert "hides /srv/hidden" in hidden
    assert kubeconfig.startswith("/srv/kubeconfig: warning: a look at its path did not end within 0.2 s")


def web_token(claims: object) -> str:
    """A JSON Web Token with these claims: HEADER.CLAIMS.SIGNATURE, each part in base64."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in ({}, claims, {})]
    return ".".join(part.rstrip("=") for part in parts)


CREDENTIALS: dict[str, tuple[dict[str, str], bool]] = {
    "a kubelet's certificate": ({"client-certificate": "client.pem", "client-key": "client.pem"}, True),
    "a token that is bound to the Node": ({"token": web_token({"kubernetes.io": {"node": {"name": "n1"}}})}, True),
    "a token of a ServiceAccount": ({"token": web_token({"kubernetes.io": {"namespace": "default"}})}, False),
    "another token": ({"token": "abc.def"}, False),
    "a token that acts as a kubelet": ({"token": "secret", "as": "system:node:n1"}, True),
    "a token that acts as a person": ({"token": "secret", "as": "jane"}, False),
}
"""What a kubeconfig has -> its user, and whether the user names the Node n1."""


@pytest.mark.skipif(os.geteuid() != 0, reason="the service trusts only root's credentials")
@pytest.mark.parametrize(("user", "names_node"), CREDENTIALS.values(), ids=CREDENTIALS)
def test_config_check_refuses_a_node_name_that_the_credentials_exclude(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], user: dict[str, str], names_node: bool
) -> None:
    make_reachable(tmp_path)
    authority = Authority.create(tmp_path / "authority")
    authority.client("system:node:n1", ["system:nodes"], tmp_path / "client.pem")
    credentials, path = tmp_path / "kubelet.conf", tmp_path / "60-x.toml"
    credentials.write_text(kubeconfig("https://127.0.0.1:6443", authority.ca_file, user))
    for name, is_refused in (("n1", False), ("other", names_node)):
        path.write_text(f'[kubernetes]\nkubeconfig = "{credentials}"\nnode_name = "{name}"\n')
        assert run(["config", "check", "--config", str(path)]) == (2 if is_refused else 0)
        why = f'node_name: "other", but the credentials in {credentials} are those of Node "n1": remove node_name'
        assert (why in capsys.readouterr().err) == is_refused
