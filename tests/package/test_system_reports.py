"""What people met with services on strange systems, under a real systemd. tests/reports.md lists the reports."""

from __future__ import annotations

from tests.cluster.processes import PATIENCE, wait_until
from tests.package.console import UNIT
from tests.package.machine import Machine
from tests.package.packages import Packages
from tests.package.service import drop_in, enable, published, quiet

HOMES = ("ln -s /mnt/none /home", "mkdir -p /srv/home; ln -s /srv/home /home", "true")
COUNT = """\
#!/usr/bin/python3
import os
print(sum(os.stat(f"/proc/{pid}").st_uid == 65534 for pid in os.listdir("/proc") if pid.isdigit()))
"""


def test_a_strange_system(fresh: Machine, packages: Packages) -> None:
    """Folders that are links, a first boot that applies presets, restarts in a row, processes of other users."""
    fresh.install(packages.current)
    enable(fresh)
    for home in HOMES:
        fresh.run("sh", "-ec", f"rm -rf /home; {home}")
        fresh.run("systemctl", "restart", UNIT)
    fresh.run("systemctl", "preset-all", "--preset-mode=enable-only")  # as PID 1 does without /etc/machine-id
    assert fresh.enabled == "enabled"
    for _ in range(7):  # as needrestart does for each package
        fresh.run("systemctl", "restart", UNIT)
    quiet(fresh)

    fresh.write("/usr/local/bin/count", COUNT, "755")
    daemons = '[resources."example.com/daemons"]\nexec = { command = ["/usr/local/bin/count"] }\n'
    fresh.write("/etc/capacityd/conf.d/70-daemons.toml", daemons)
    fresh.run("systemd-run", "--unit=daemon", "--uid=nobody", "sleep", "infinity")
    fresh.run("systemctl", "reload", UNIT)
    wait_until(lambda: published(fresh, "example.com/daemons") == "1", PATIENCE, "it sees the process of another user")


def test_a_state_directory_that_is_a_link(fresh: Machine, packages: Packages) -> None:
    """systemd does not follow it. What else prevents the directory, such as a read-only /var, has the same effect."""
    fresh.install(packages.current)
    enable(fresh)
    drop_in(fresh, "zz-last", "[Service]\nExecStartPre=\n")
    fresh.run("systemctl", "stop", UNIT)
    fresh.run("sh", "-ec", "mv /var/lib/capacityd /srv/state; ln -s /srv/state /var/lib/capacityd")
    fresh.run("systemctl", "start", UNIT, status=1)

    def named() -> bool:
        return "(exit status 238," in fresh.run("capacityd", "status", status=1).stdout

    wait_until(named, PATIENCE, "status names the cause")
    assert "/var/lib: Too many levels of symbolic links" in fresh.journal()
    fresh.run(
        "sh", "-ec", "rm /var/lib/capacityd; mkdir /var/lib/capacityd; mount --bind /srv/state /var/lib/capacityd"
    )
    wait_until(lambda: fresh.active == "active", PATIENCE, "a bind mount works")
