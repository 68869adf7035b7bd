"""On a machine with the service, another user can read no secret of root, and change nothing of the service."""

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
    "record -",
    "run",
)
FILES = "/run/capacityd/* /var/lib/prometheus/node-exporter/* /etc/capacityd/conf.d/*"
# Each line tries to change something of the service, and prints what has succeeded.
ATTACK = f"""\
for folder in /run/capacityd /etc/capacityd /etc/capacityd/conf.d; do touch $folder/x && echo $folder; done
for file in {FILES}; do
    [ -e $file ] || continue
    (echo 99 >$file) && echo written $file
    rm -f $file && echo removed $file
done
kill -HUP $(systemctl show --property=MainPID --value {UNIT}) && echo kill
python3 -c 'import socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("/run/systemd/notify")
s.send(b"STOPPING=1")'
for verb in reload restart stop; do systemctl --no-ask-password $verb {UNIT} && echo $verb; done
true
"""


@pytest.fixture
def serving(fresh: Machine, packages: Packages) -> Machine:
    """A machine whose service has read a file, a program's output and a kubeconfig: all invalid, each with a secret."""
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
        serving.run(*AS_USER, f"journalctl --unit={UNIT}", status=None),
    ]
    assert "example.com/program" in shown[0].stdout
    assert [result.args for result in shown if SECRET in result.stdout + result.stderr] == []
    assert SECRET not in serving.journal()
    before = serving.main_pid
    assert serving.run(*AS_USER, ATTACK).stdout == ""
    assert (serving.active, serving.main_pid) == ("active", before)
