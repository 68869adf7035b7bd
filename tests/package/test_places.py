"""Installations in places other than the running machine, and on machines without documentation."""

from __future__ import annotations

import re

from tests import ROOT
from tests.package.machine import Machine
from tests.package.packages import Packages
from tests.package.service import publish_seats
from tests.support.pages import blocks

# The same settings as in Ubuntu's minimal and Debian's slim images.
_MINIMAL = """\
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
"""
_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_a_minimal_image_has_what_the_pages_use(fresh: Machine, packages: Packages) -> None:
    """dpkg installs no documentation there, also during an upgrade."""
    fresh.write("/etc/dpkg/dpkg.cfg.d/excludes", _MINIMAL)
    for package in (packages.older, packages.current):
        fresh.install(package)
    assert not fresh.exists("/usr/share/doc/capacityd/README.md")
    used = {path for page in _PAGES for path in re.findall(r"/usr/share/capacityd[\w./-]*[\w-]", page.read_text())}
    assert "/usr/share/capacityd/examples/kubernetes" in used
    for path in used:
        assert fresh.exists(path), path
    operations = blocks((ROOT / "docs/operations.md").read_text())
    (copy,) = (line for block in operations for line in block.text.splitlines() if line.startswith("cp -r /usr/share"))
    fresh.run("sh", "-ec", f"cd /srv; {copy}")
    assert fresh.exists("/srv/capacityd/kubernetes/kustomization.yaml")


def test_an_installation_into_an_image_does_not_change_the_machine_that_builds_it(
    fresh: Machine, packages: Packages
) -> None:
    """The machine installs the package into an image, and removes it there."""
    fresh.install(packages.current)
    publish_seats(fresh)
    fresh.write("/var/lib/prometheus/node-exporter/capacityd.prom", "# HELP capacityd_resource_published x\n")
    ours = ("/usr/share/capacityd", "/var/lib/prometheus", "/etc/systemd/system")
    list_files = ("find", *ours, "-printf", "%p %C@ %i\n")  # path, time of the last change, inode
    before, pid = {*fresh.out(*list_files).splitlines()}, fresh.main_pid
    make_image = (
        "mkdir -p /image/var/lib/dpkg/info /image/var/lib/dpkg/updates /image/var/lib/dpkg/triggers; "
        ": >/image/var/lib/dpkg/status; : >/image/var/lib/dpkg/available"
    )
    fresh.run("sh", "-ec", make_image)
    image = ("--root=/image", "--force-script-chrootless", "--force-depends")
    fresh.dpkg(*image, "--install", fresh.put(packages.current))
    assert fresh.out("readlink", "/image/usr/share/doc/capacityd/examples") == "../../capacityd/examples"
    assert fresh.exists("/image/usr/share/capacityd/capacityd/__init__.py")
    for path in ("/image/run/capacityd", "/image/var/lib/prometheus/node-exporter"):
        fresh.write(f"{path}/capacityd.prom", "# HELP capacityd_resource_published x\n")
    fresh.write("/image/usr/share/capacityd/capacityd/__pycache__/x.pyc", "")
    fresh.dpkg(*image, "--purge", "capacityd")
    assert fresh.out("sh", "-c", "find /image -name '*capacityd*' -not -path '/image/var/lib/dpkg/*'") == ""
    assert fresh.main_pid == pid
    assert {*fresh.out(*list_files).splitlines()} == before
    assert fresh.exists("/run/capacityd/state.json")
