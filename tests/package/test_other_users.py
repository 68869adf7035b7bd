"""On a machine with the service, another user can read no secret of root, and change nothing of the service."""

from __future__ import annotations

import pytest

from tests.package.console import UNIT
from tests.package.machine import Machine
from tests.package.packages import Packages

SECRET = "SECRET-4711"
NUMBER = "8160247135902468"  # a secret that is a valid number, and longer than any time
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


@pytest.fixture
def serving(fresh: Machine, packages: Packages) -> Machine:
    """A machine whose service has read a file, a program's output and a kubeconfig with a secret, all unusable."""
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
    for folder in ("/run/capacityd", "/etc/capacityd", "/etc/capacityd/conf.d"):
        assert serving.run(*AS_USER, f"touch {folder}/x", status=None).returncode
    assert serving.run(*AS_USER, f"systemctl reload {UNIT}", status=None).returncode
    assert serving.active == "active"


THEIRS = "/srv/joe"
RAN = "/run/capacityd/ran"
ATTACKED = (f'["{THEIRS}/count"]', f'["/usr/bin/python3", "{THEIRS}/missing.py"]', '["/srv/shared/count"]')
"""Commands with which root would run a file of another user. tests/unit/linux/test_program_trust.py has more kinds."""
LINKS = {"symbolic": f"{THEIRS}/symbolic", "folder": f"{THEIRS}/folder/secret", "chain": f"{THEIRS}/chain"}
PREPARED = f"""\
set -e
install -d -o 12345 -g 12345 {THEIRS}
cp /srv/count {THEIRS}/count
chown 12345 {THEIRS}/count
install -d -m 1777 /srv/shared
cp /srv/count /srv/shared/count
install -d -o 12345 -g 12345 /var/lib/prometheus
install -d /var/lib/prometheus/node-exporter /srv/metrics
"""
ATTACK = f"""\
cd {THEIRS}
cp count missing.py
ln -s /etc/secret symbolic
ln -s /etc folder
ln -s {THEIRS}/symbolic chain
ln /etc/secret hard
mv /var/lib/prometheus/node-exporter /var/lib/prometheus/away
ln -s /srv/metrics /var/lib/prometheus/node-exporter
echo 99 >/srv/seats
mv {THEIRS}/count /srv/seats
printf '[resources."example.com/seats"]\\nstatic = 99\\n' >/etc/capacityd/conf.d/99.toml
kill -HUP $(systemctl show --property=MainPID --value {UNIT})
python3 -c 'import socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("/run/systemd/notify")
s.send(b"STOPPING=1")'
for file in /run/capacityd/*; do echo 99 >$file; rm -f $file; done
systemctl stop {UNIT} </dev/null
true
"""


def test_an_ordinary_user_cannot_make_root_run_a_program_or_change_a_number(fresh: Machine, packages: Packages) -> None:
    """The user owns a folder and files that root has configured, and the folder of the metrics."""
    fresh.install(packages.current)
    fresh.write("/etc/secret", f"{NUMBER}\n", "600")
    fresh.write("/srv/seats", "7\n")
    fresh.write("/srv/count", f"#!/bin/sh\n: >{RAN}\necho 99\n", "755")
    fresh.run("sh", "-c", PREPARED)
    text = '[service]\ntextfile = "/var/lib/prometheus/node-exporter/x.prom"\n'
    text += '[resources."example.com/seats"]\nfile = { path = "/srv/seats" }\n'
    for number, command in enumerate(ATTACKED):
        text += f'[resources."example.com/run-{number}"]\nexec = {{ command = {command} }}\n'
    for name, path in LINKS.items():
        text += f'[resources."example.com/{name}"]\nfile = {{ path = "{path}" }}\n'
    text += f'[resources."example.com/role"]\nwhen = {{ path = "{LINKS["symbolic"]}" }}\nstatic = {{ quantity = 1 }}\n'
    fresh.run(*AS_USER, ATTACK, status=None)
    fresh.write("/etc/capacityd/conf.d/60-attacked.toml", text)
    fresh.run("systemctl", "enable", "--now", UNIT)
    names = [*(f"run-{number}" for number in range(len(ATTACKED))), *LINKS, "role"]
    unknown = [f"example.com/{name}" for name in names]
    expected = {"example.com/seats": 7, **dict.fromkeys(unknown, "unknown")}
    fresh.wait_for_readings(expected)
    fresh.run(*AS_USER, ATTACK, status=None)
    fresh.run("systemctl", "reload", UNIT)
    fresh.wait_for_readings(expected)
    readings = {row["name"]: row for row in fresh.status()["resources"]}
    assert {readings[name]["cause"] for name in unknown} == {"not_trusted"}
    assert not fresh.exists(RAN)
    assert not fresh.exists("/srv/metrics/x.prom"), "another user's link to the folder is not followed"
    assert NUMBER not in fresh.journal()
    assert fresh.run(*AS_USER, "cat /run/capacityd/state.json").stdout.count(NUMBER) == 0
    assert fresh.active == "active"
