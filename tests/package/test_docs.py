"""Tries commands and drop-ins from the pages with a real dpkg and systemd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import ROOT
from tests.package.console import UNIT
from tests.package.machine import Machine, machine
from tests.package.packages import Packages
from tests.support.pages import Block, blocks, pages

DROP_INS = [block for page in pages() for block in blocks(page.read_text()) if block.kind == "ini"]
PROGRAM = "#!/bin/sh\nhead -c 0 /dev/ttyUSB0 2>/dev/null && echo 1 || echo 0\n"
CONFIG = '[resources."example.com/opened"]\nexec = { command = ["/usr/local/bin/open"] }\n'


@pytest.fixture(scope="module")
def installed(packages: Packages) -> Iterator[Machine]:
    """A machine with the package, and a device that root may open."""
    with machine("13") as running:
        running.install(packages.current)
        running.run("mknod", "-m", "600", "/dev/ttyUSB0", "c", "10", "200")  # the number of /dev/net/tun
        yield running


def test_what_the_readme_says_works(fresh: Machine, packages: Packages) -> None:
    """The steps are: install, configure, enable and remove."""
    page = list(blocks((ROOT / "README.md").read_text()))
    (toml,) = (block for block in page if block.kind == "toml")
    (enable,) = (block.text for block in page if block.kind == "sh")
    install, *_ = (block.text for block in blocks((ROOT / "docs/install.md").read_text()) if block.kind == "sh")
    operations = blocks((ROOT / "docs/operations.md").read_text())
    (remove,) = (block.text for block in operations if block.kind == "sh" and "apt purge" in block.text)
    fresh.put(packages.current)
    fresh.run("env", "-C", "/root", "sh", "-e", text=install, deadline=300)
    assert (fresh.active, fresh.enabled) == ("inactive", "disabled")
    fresh.write(toml.name, toml.text)
    fresh.run("capacityd", "config", "check")
    fresh.run("sh", "-e", text=enable)
    assert (fresh.active, fresh.enabled) == ("active", "enabled")
    fresh.wait_for_readings({"example.com/dongle": "absent"})
    stop, *_ = remove.splitlines()
    fresh.run("sh", "-e", text=stop)
    assert (fresh.active, fresh.enabled) == ("inactive", "disabled")


@pytest.mark.parametrize("block", DROP_INS, ids=lambda block: block.name)
def test_systemd_understands_a_drop_in(installed: Machine, block: Block) -> None:
    installed.write(block.name, block.text)
    output = installed.run("systemd-analyze", "verify", "--man=no", UNIT)
    installed.run("rm", block.name)
    assert (output.stdout, output.stderr) == ("", "")


def test_a_device_can_be_opened_only_with_the_drop_in(installed: Machine) -> None:
    page = (ROOT / "docs/files-and-programs.md").read_text()
    (drop_in,) = (block for block in blocks(page) if block.name.endswith("devices.conf"))
    installed.write("/usr/local/bin/open", PROGRAM, "755")
    installed.write("/etc/capacityd/conf.d/60-open.toml", CONFIG)
    assert opened(installed) == "0"
    installed.write(drop_in.name, drop_in.text)
    installed.run("systemctl", "daemon-reload")
    assert opened(installed) == "1"


def opened(machine: Machine) -> str:
    """Returns what the program reads in the service's sandbox."""
    return machine.out("capacityd", "probe", "--as-service").splitlines()[-1].split()[1]
