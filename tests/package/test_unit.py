"""What the unit needs of a system."""

from __future__ import annotations

import sys

from tests.cluster.processes import PATIENCE, wait_until
from tests.package import no_user_namespaces
from tests.package.console import UNIT
from tests.package.machine import Machine, machine
from tests.package.packages import Packages
from tests.package.service import drop_in, enable, quiet


def test_the_service_needs_no_user_namespaces(release: str, packages: Packages) -> None:
    """Debian's hardening-runtime and others switch them off."""
    with machine(release, sys.executable, no_user_namespaces.__file__) as hardened:
        hardened.install(packages.current)
        enable(hardened)
        quiet(hardened)
        drop_in(hardened, "zz-last", "[Service]\nExecStartPre=\nPrivateUsers=yes\n")
        hardened.run("systemctl", "restart", UNIT, status=1)
        wait_until(lambda: "status=217/USER" in hardened.journal(), PATIENCE, "PrivateUsers= needs user namespaces")

        def named() -> bool:
            return "sandbox (exit status 217," in hardened.run("capacityd", "status", status=1).stdout

        wait_until(named, PATIENCE, "status names the cause")


def test_the_service_does_not_start_the_network(fresh: Machine, packages: Packages) -> None:
    """network-online.target waits for all interfaces, for two minutes if one has no cable."""
    fresh.install(packages.current)
    enable(fresh)
    assert fresh.run("systemctl", "is-active", "network-online.target", status=3).stdout == "inactive\n"
    assert "network-online.target" in fresh.shown("After"), "but it starts later, if another unit requires it"
    assert fresh.run("systemd-analyze", "verify", "--man=no", UNIT).stderr == ""
