"""What another user reads and writes where the service runs: no secret of root, and nothing of the service."""

from __future__ import annotations

import pytest

from tests.package.console import UNIT
from tests.package.machine import Machine
from tests.package.packages import Packages

SECRET = "SECRET-4711"
PROGRAM = f"#!/bin/sh\necho {SECRET}\necho {SECRET} >&2\nexit 3\n"
CONFIG = f"""\
[service]
textfile = "/var/lib/prometheus/node-exporter/capacityd.prom"
[resources."example.com/file"]
file = {{ path = "/etc/secret" }}
[resources."example.com/program"]
exec = {{ command = ["/usr/local/bin/count", "{SECRET}"] }}
"""
KUBECONFIG = f"""\
apiVersion: v1
kind: Config
clusters: [{{name: a, cluster: {{server: "https://127.0.0.1:1/{SECRET}"}}}}]
users: [{{name: a, user: {{token: {SECRET}}}}}]
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
current-context: a
"""
AS_USER = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "env", "HOME=/tmp", "sh", "-c")
COMMANDS = (
    "status",
    "status --json",
    "probe --explain",
    "probe --json",
    "plan",
    "apply",
    "withdraw",
    "config check",
    "config show",
    "devices --json",
    "template aws",
    "fleet",
    "record -",
    "run",
)
FILES = "/run/capacityd/* /var/lib/capacityd/* /var/lib/prometheus/node-exporter/* /etc/capacityd/conf.d/*"


@pytest.fixture
def serving(fresh: Machine, packages: Packages) -> Machine:
    """A machine whose service has read, and could not use, a file, a program and a kubeconfig with a secret."""
    fresh.install(packages.current)
    fresh.run("mkdir", "-p", "/var/lib/prometheus/node-exporter")
    fresh.write("/usr/local/bin/count", PROGRAM, "700")
    fresh.write("/etc/secret", f"{SECRET}\n", "600")
    fresh.write("/etc/kubernetes/kubelet.conf", KUBECONFIG, "600")
    fresh.write("/etc/capacityd/conf.d/60-secret.toml", CONFIG, "600")
    fresh.run("systemctl", "enable", "--now", UNIT)
    fresh.wait_for_readings({"example.com/file": "unknown", "example.com/program": "unknown"})
    return fresh


def test_another_user_reads_no_secret_and_writes_nothing(serving: Machine) -> None:
    assert serving.run("capacityd", "probe", "--explain", status=4).stdout.count(SECRET) > 1, "root sees it"
    shown = [serving.run(*AS_USER, f"capacityd {command}", status=None) for command in COMMANDS]
    shown += [
        serving.run(*AS_USER, f"cat {FILES}", status=None),
        serving.run(*AS_USER, f"systemctl status {UNIT}", status=None),
    ]
    shown.append(serving.run(*AS_USER, f"journalctl --unit={UNIT}", status=None))
    assert "example.com/program" in shown[0].stdout
    assert [result.args for result in shown if SECRET in result.stdout + result.stderr] == []
    assert SECRET not in serving.journal()
    for folder in ("/run/capacityd", "/var/lib/capacityd", "/etc/capacityd", "/etc/capacityd/conf.d"):
        assert serving.run(*AS_USER, f"touch {folder}/x", status=None).returncode
    assert serving.run(*AS_USER, f"systemctl reload {UNIT}", status=None).returncode
    assert serving.active == "active"
