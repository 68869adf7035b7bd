"""Unusual systems on which people reported problems of other services, under a real systemd (tests/reports.md)."""

from __future__ import annotations

from tests.cluster.processes import PATIENCE, wait_until
from tests.package.console import UNIT
from tests.package.machine import Machine
from tests.package.packages import Packages
from tests.package.service import assert_no_warnings, publish_seats, published

CHANGES_OF_FOLDERS = (
    "rm -rf /home; ln -s /mnt/none /home",
    "rm -rf /home; mkdir -p /srv/home; ln -s /srv/home /home",
    "rm -rf /home",
    "mv /root /srv/root; ln -s /srv/root /root",
    "umount /tmp; rmdir /tmp; ln -s /var/tmp /tmp",
)
# Counts the processes of the user nobody.
COUNT = """\
#!/usr/bin/python3
import os
print(sum(os.stat(f"/proc/{pid}").st_uid == 65534 for pid in os.listdir("/proc") if pid.isdigit()))
"""


def test_a_strange_system(fresh: Machine, packages: Packages) -> None:
    """Folders are links, the first boot applies presets, the service restarts often, other users have processes."""
    fresh.install(packages.current)
    publish_seats(fresh)
    for change in CHANGES_OF_FOLDERS:
        fresh.run("sh", "-ec", change)
        fresh.run("systemctl", "restart", UNIT)
    fresh.run("systemctl", "reset-failed", "tmp.mount", status=None)  # on Debian 12, it fails: /tmp is a link
    fresh.run("systemctl", "preset-all", "--preset-mode=enable-only")  # as PID 1 does without /etc/machine-id
    assert fresh.enabled == "enabled"
    assert_no_warnings(fresh)
    for _ in range(7):  # faster than needrestart, because systemd counts the starts of ten seconds
        fresh.run("systemctl", "start", "--no-block", UNIT)
        fresh.run("systemctl", "stop", UNIT)
    fresh.run("systemctl", "start", UNIT)

    fresh.write("/usr/local/bin/count", COUNT, "755")
    daemons = '[resources."example.com/daemons"]\nexec = { command = ["/usr/local/bin/count"] }\n'
    fresh.write("/etc/capacityd/conf.d/70-daemons.toml", daemons)
    fresh.run("systemd-run", "--unit=daemon", "--uid=nobody", "sleep", "infinity")
    fresh.run("systemctl", "reload", UNIT)
    wait_until(lambda: published(fresh, "example.com/daemons") == "1", PATIENCE, "it sees the process of another user")


def test_metrics_in_a_folder_behind_a_link(fresh: Machine, packages: Packages) -> None:
    fresh.run("sh", "-ec", "mkdir -p /srv/prometheus/node-exporter; ln -s /srv/prometheus /var/lib/prometheus")
    fresh.install(packages.current)
    file = "/var/lib/prometheus/node-exporter/capacityd.prom"
    fresh.write("/etc/capacityd/conf.d/70-metrics.toml", f'[service]\ntextfile = "{file}"\n')
    publish_seats(fresh)
    wait_until(lambda: fresh.exists("/srv/prometheus/node-exporter/capacityd.prom"), PATIENCE, "the file is written")
    assert_no_warnings(fresh)

    # The sandbox has the folder that there was when the service started.
    fresh.run("sh", "-ec", "rm -r /srv/prometheus/node-exporter; mkdir /srv/prometheus/node-exporter")
    fresh.write("/srv/seats", "8\n")
    advice = "makes the folder read-only until the service is restarted"
    wait_until(lambda: advice in fresh.run("capacityd", "status", status=None).stdout, PATIENCE, "status says so")
    fresh.run("systemctl", "restart", UNIT)
    wait_until(lambda: fresh.exists("/srv/prometheus/node-exporter/capacityd.prom"), PATIENCE, "it is written again")


def test_an_image_without_a_running_systemd(fresh: Machine, packages: Packages) -> None:
    """First systemd does not run, as in a container. Then systemctl is missing too."""
    deb = fresh.put(packages.current)
    for hidden in ("/run/systemd", "/usr/bin/systemctl"):
        fresh.run("mv", hidden, f"{hidden}.hidden")
        for action in ("--install", "--install", "--remove", "--purge"):
            fresh.dpkg(action, deb if action == "--install" else "capacityd")
    fresh.dpkg("--install", deb)
    checked = fresh.out("capacityd", "config", "check").splitlines()
    assert (checked[0], checked[-1]) == ("no errors: 0 resources from 0 files", "  /etc/capacityd/conf.d: no file")
    fresh.run("sh", "-ec", "mv /usr/bin/systemctl.hidden /usr/bin/systemctl; mv /run/systemd.hidden /run/systemd")


def test_a_strict_umask_and_a_masked_unit(fresh: Machine, packages: Packages) -> None:
    """A hardened system has the umask 077. An administrator masks a unit that must not run."""
    older, current = map(fresh.put, (packages.older, packages.current))
    fresh.run("sh", "-ec", 'umask 077; dpkg --install "$0"', older)
    publish_seats(fresh)
    checked = fresh.out("runuser", "-u", "nobody", "--", "capacityd", "config", "check")
    assert checked.startswith("no errors: 1 resource")
    before = fresh.main_pid
    fresh.run("systemctl", "mask", UNIT)
    fresh.dpkg("--install", current)
    assert (fresh.main_pid, fresh.enabled) == (before, "masked")
    for action in ("--remove", "--install", "--purge", "--install"):
        fresh.dpkg(action, current if action == "--install" else "capacityd")
    assert (fresh.active, fresh.enabled) == ("inactive", "masked")


def test_a_journal_that_stops(fresh: Machine, packages: Packages) -> None:
    """The service continues, and logs again when the journal runs again."""
    fresh.install(packages.current)
    publish_seats(fresh)
    before = fresh.main_pid
    units = ("systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald.service")
    fresh.run("systemctl", "stop", *units)
    fresh.write("/srv/seats", "8\n")
    wait_until(lambda: published(fresh, "example.com/seats") == "8", PATIENCE, "it works without a journal")
    fresh.run("systemctl", "start", *units)
    fresh.write("/srv/seats", "9\n")
    wait_until(lambda: "example.com/seats: 8 → 9" in fresh.journal(), PATIENCE, "it logs again")
    assert fresh.main_pid == before
