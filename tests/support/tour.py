"""The documentation's machines, and the output of its commands; python -m tests.support.tour rewrites both."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from capacityd.cli import run
from tests import ROOT
from tests.support.docmachines import MACHINES
from tests.support.machines import (
    Recording,
    bare,
    disk,
    memory,
    merge,
    mounts,
    nvme,
    pci_nic,
    processors,
    routes,
    usb_device,
    usb_hub,
    usb_root,
)
from tests.support.pages import on_cluster, pages, play

MACHINE = ROOT / "docs/tour/machine.json"
_OF_MACHINES = ("devices", "probe", "plan", "apply", "withdraw")
_OF_NODES = ("plan", "apply", "withdraw")
_OF_CONFIGURATIONS = ("probe", "plan", "apply", "withdraw", "config")


def _named(maker: str, model: str) -> dict[str, str]:
    return {"ID_VENDOR_FROM_DATABASE": maker, "ID_MODEL_FROM_DATABASE": model}


_I210 = _named("Intel Corporation", "I210 Gigabit Network Connection")
_X710 = _named("Intel Corporation", "Ethernet Controller X710 for 10GbE SFP+")
_NAMES = {  # entries of udev's hardware database
    "usb:v0529p0001": _named("Aladdin Knowledge Systems", "HASP copy protection dongle"),
    "usb:v05E3p0610": _named("Genesys Logic, Inc.", "Hub"),
    "usb:v046DpC077": _named("Logitech, Inc.", "Mouse"),
    "pci:v00008086d00001533": _I210,
    "pci:v00008086d00001572": _X710,
    "pci:v00008086d00001533sv000010DEsd00001533bc02sc00i00": _I210,
    "pci:v00008086d00001572sv000010DEsd00001533bc02sc00i00": _X710,
}


def recording() -> Recording:
    """Four dongles at a hub, a mouse; a 1G NIC with the default route, a 10G NIC; an NVMe disk, a SATA disk."""
    dongles = [
        usb_device(f"1-1.{n}", "0529", "0001", None, "SafeNet", "Sentinel HL", "ff0000", [("ffffff", "usbfs")], n + 2)
        for n in range(1, 5)
    ]
    return merge(
        bare(),
        usb_root(1),
        usb_hub("1-1", 2),
        *dongles,
        usb_device("1-2", "046d", "c077", None, "Logitech", "USB Optical Mouse", "000000", [("030102", "usbhid")], 9),
        pci_nic("eno1", "0000:02:00.0", "8086", "1533", "igb", [10**7, 10**8, 10**9], speed="1000"),
        pci_nic("ens1f0", "0000:5f:00.0", "8086", "1572", "i40e", [10**9, 10**10], speed="10000", number=3),
        routes("eno1"),
        nvme("nvme0n1", size=1_920_383_410_176),
        disk("sda", size=480_103_981_056, partitions=["sda1", "sda2"]),
        mounts(("/", "8:2", "ext4", "/dev/sda2"), ("/boot/efi", "8:1", "vfat", "/dev/sda1")),
        processors(cores=16, threads=32, sockets=1, max_frequency=3_500_000_000),
        memory(size=134_883_692_544),
        {"hostname": "n1", "arch": "x86_64", "hardware_names": _NAMES},
    )


def recordings() -> dict[str, Recording]:
    """By path below docs."""
    return {"tour/machine.json": recording()} | {f"machines/{name}.json": made() for name, made in MACHINES.items()}


def as_file(machine: Recording) -> str:
    """Returns the content of a recording's file."""
    return json.dumps(machine, indent=1, sort_keys=True) + "\n"


class RecordedWorld:
    """Recorded machines and Nodes in files. A folder takes the place of the root directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._machine = self._node = ""
        self._status = 0
        shutil.copytree(ROOT / "docs", folder / "docs")
        shutil.copytree(ROOT / "conf", folder / "conf")
        (folder / "build").mkdir()
        shutil.copy(ROOT / "docs/tour/node.json", folder / "build/node.json")

    def directive(self, *words: str) -> None:
        match words:
            case ["machine", machine]:
                self._machine = machine
            case ["node", node]:
                self._node = "build/of-page.json"
                shutil.copy(ROOT / node, self._folder / self._node)
            case ["remove", "files"]:
                shutil.rmtree(self._folder / "etc")
            case _:
                raise ValueError(f"<!-- docs: {' '.join(words)} --> is unknown here")

    def file(self, name: str, text: str) -> None:
        path = self._folder / name.removeprefix("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, command: str, shown: str) -> str:
        words = [word for word in shlex.split(command) if word != "sudo"]
        if words == ["echo", "$?"]:
            return f"{self._status}\n"
        if words[0] != "capacityd":
            raise ValueError(f'"{command}" cannot run on a recording: use <!-- docs: cluster --> or a block of sh')
        with _inside(self._folder):
            return re.sub(
                r"(?<![\w/])etc/capacityd", "/etc/capacityd", self._output([*words[1:], *self._options(words)])
            )

    def _options(self, words: list[str]) -> list[str]:
        """Returns the options for the machine, the configuration and the Node of the page."""
        found: list[str] = []
        if self._machine and words[1] in _OF_MACHINES and "--machine" not in words:
            found += ["--machine", self._machine]
        if words[1] in _OF_CONFIGURATIONS and "--config" not in words and (self._folder / "etc/capacityd").exists():
            found += ["--config", "etc/capacityd/conf.d"]
        if self._node and words[1] in _OF_NODES and "--node-file" not in words:
            found += ["--node-file", self._node]
        return found

    def _output(self, arguments: list[str]) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                self._status = run(arguments)
            except SystemExit as e:  # by argparse
                self._status = int(e.code or 0)
        return out.getvalue()


def printed(text: str, folder: Path) -> str:
    """Returns the page with its commands' output. folder: an empty folder to work in."""
    return play(text, RecordedWorld(folder))


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before, columns = Path.cwd(), os.environ.get("COLUMNS")
    os.chdir(folder)
    os.environ["COLUMNS"] = "120"
    try:
        yield
    finally:
        os.chdir(before)
        del os.environ["COLUMNS"]
        if columns is not None:
            os.environ["COLUMNS"] = columns


def main() -> None:
    """Rewrites the machines, and the output on all pages that need no cluster (for those: make docs-cluster)."""
    for name, made in recordings().items():
        (ROOT / "docs" / name).parent.mkdir(exist_ok=True)
        (ROOT / "docs" / name).write_text(as_file(made))
    for page in pages():
        text = page.read_text()
        if not on_cluster(text):
            with tempfile.TemporaryDirectory() as folder:
                page.write_text(printed(text, Path(folder)))


if __name__ == "__main__":
    main()
