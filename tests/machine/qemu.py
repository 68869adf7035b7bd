"""A virtual machine with any hardware that QEMU emulates. Tests run commands in it, and control it by QEMU's monitor.

It has a PCI Express bus (q35) with an xHCI controller, a slot "slot1" for devices that are plugged in while it runs,
and a NIC "system" to the host, whose loopback is 10.0.2.2 in the guest. The image never changes: the machine's writes
survive reboots, but not the end of the machine. Commands go through QEMU's guest agent and need no network.
"""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cluster.processes import PATIENCE, Daemon, wait_until, workspace
from tests.machine.wire import Wire, WireError
from tests.package.console import Console

BOOT = 600  # seconds: emulation is slow on a busy machine
_AGENT_PORT = "agent"  # the id of the virtio serial port of the guest agent
# Code that QEMU translated during one boot makes the next boot three times as slow. QEMU drops the code when this
# buffer is full, so keep the buffer small.
_ACCELERATOR = "tcg,thread=multi,tb-size=128"
# An emulated CPU needs no mitigations. Each of Debian's 32 serial ports would cost udev and systemd time.
# On a busy machine, a service may need longer than systemd's 90 seconds to start.
_KERNEL = "console=ttyS0 quiet net.ifnames=1 mitigations=off 8250.nr_uarts=1 systemd.default_timeout_start_sec=900"
# This test takes longest, so other tests must not delay it. With autogroups, Linux shares the CPU by session first, and
# nice has no effect between sessions. So _prefer_session() sets the session's share as well.
_NICE = ("nice", "-n", "-5")
_PAUSE = 0.5  # seconds between two requests that ask the guest agent whether a command has ended


class VirtualMachine(Console):
    """Created by virtual_machine(), which ends it. monitor: QEMU's monitor, which takes any QMP command."""

    def __init__(self, daemon: Daemon, monitor: Wire, agent: Wire, console: Path) -> None:
        self.monitor = monitor
        self._reachable = False
        self._daemon = daemon
        self._agent = agent
        self._console = console
        self._boot_position = 0  # the position in the messages of the monitor at which this boot has begun

    def wait_booted(self) -> None:
        """Waits until all services of the boot have started."""
        if not self._reachable:
            self._wait_commands_can_run()
        self.run("systemctl", "is-system-running", "--wait", status=None, deadline=BOOT)
        state = self.run("systemctl", "is-system-running", status=None).stdout.strip()
        assert state == "running", f"{state}\n{self.out('systemctl', '--failed')}"

    def execute(self, command: list[str], text: str, deadline: float) -> subprocess.CompletedProcess[str]:
        started = self._agent.ask(
            "guest-exec",
            path=f"/usr/bin/{command[0]}",
            arg=command[1:],
            input_data=base64.b64encode(text.encode()).decode(),
            capture_output=True,
        )
        ended = {}

        def has_ended() -> bool:
            ended.update(self._agent.ask("guest-exec-status", pid=started["pid"]))
            return bool(ended["exited"])

        # Under emulation, a command may take 60 times as long.
        wait_until(has_ended, max(deadline, BOOT), f"{' '.join(command)} ends", _PAUSE)
        out, err = (base64.b64decode(ended.get(name, "")).decode(errors="replace") for name in ("out-data", "err-data"))
        return subprocess.CompletedProcess(command, ended.get("exitcode", -ended.get("signal", 0)), out, err)

    def plug(self, driver: str, name: str, **settings: Any) -> None:
        """Plugs in a USB device or (with bus="slot1") a PCI device."""
        self.monitor.ask("device_add", driver=driver, id=name, **settings)

    def unplug(self, name: str) -> None:
        """Unplugs a device, and waits until it is gone."""
        position = self.monitor.position()
        self.monitor.ask("device_del", id=name)
        self.monitor.wait_event("DEVICE_DELETED", position, device=name)

    def set_link(self, name: str, up: bool) -> None:
        """Plugs in (up) or unplugs a NIC's cable."""
        self.monitor.ask("set_link", name=name, up=up)

    def resize(self, drive: str, size: int) -> None:
        """Gives a drive this many bytes."""
        self.monitor.ask("block_resize", device=drive, size=size)

    def reboot(self) -> None:
        """Reboots as an administrator does, and waits until commands can run. wait_booted() waits longer."""
        self._boot_position = self.monitor.position()
        self._agent.ask("guest-exec", path="/usr/bin/systemctl", arg=["reboot"])
        self.monitor.wait_event("RESET", self._boot_position)
        self._boot_position = self.monitor.position()
        self._wait_commands_can_run()

    def _wait_commands_can_run(self) -> None:
        """Waits until commands can run. Other parts of the machine may not be up yet."""
        try:
            self.monitor.wait_event("VSERPORT_CHANGE", self._boot_position, open=True, id=_AGENT_PORT)
        except WireError as e:
            console = self._console.read_text(errors="replace")
            raise WireError(f"{e}; the end of the console:\n{console[-3000:]}{self._daemon.output()}") from None
        self._reachable = True


def nic(name: str, **settings: object) -> list[str]:
    """QEMU's arguments for a NIC with a carrier, but no host at the other end. settings: those of virtio-net-pci."""
    options = "".join(f",{key}={value}" for key, value in settings.items())
    return [*peer(name), "-device", f"virtio-net-pci,netdev={name}-peer,id={name}{options}"]


def peer(name: str) -> list[str]:
    """QEMU's arguments for the other end of a NIC. plug() can add the NIC later, with netdev="NAME-peer".

    It sends frames to a port at which nobody listens.
    """
    return ["-netdev", f"socket,id={name}-peer,udp=127.0.0.1:9,localaddr=127.0.0.1:0"]


def drive(name: str, size: int, folder: Path) -> list[str]:
    """QEMU's arguments for an empty medium of this many bytes, for a device with drive=NAME."""
    file = folder / name
    with open(file, "wb") as f:
        os.truncate(f.fileno(), size)
    return ["-drive", f"file={file},if=none,id={name},format=raw,cache=unsafe"]


@contextmanager
def virtual_machine(disk: Path, tree: Path, hardware: Sequence[str], options: str) -> Iterator[VirtualMachine]:
    """A machine that has just been switched on. It stops when the context ends.

    tree: the tree of the image, which contains the kernel. hardware: QEMU's arguments. options: added to the kernel's
    command line.
    """
    with workspace() as folder:
        command = _command(folder, disk, tree, f"{_KERNEL} {options}")
        with Daemon([*_NICE, *command, *hardware], folder / "qemu.log") as daemon:
            _prefer_session(daemon.pid)
            sockets = folder / "agent", folder / "monitor"
            daemon.wait_for(lambda: all(path.exists() for path in sockets), PATIENCE, "QEMU has begun")
            monitor, agent = Wire(folder / "monitor"), Wire(folder / "agent")
            monitor.ask("qmp_capabilities")
            try:
                yield VirtualMachine(daemon, monitor, agent, folder / "console")
            finally:
                monitor.close()
                agent.close()


def _command(folder: Path, disk: Path, tree: Path, kernel: str) -> list[str | Path]:
    return [
        *("qemu-system-x86_64", "-machine", "q35", "-accel", _ACCELERATOR, "-cpu", "max", "-smp", "2"),
        *("-m", "1536", "-display", "none", "-nodefaults", "-no-user-config", "-serial", f"file:{folder}/console"),
        *("-kernel", tree / "boot/vmlinuz", "-initrd", tree / "boot/initrd", "-append", kernel),
        *("-qmp", f"unix:{folder}/monitor,server=on,wait=off"),
        *("-chardev", f"socket,id=agent,path={folder}/agent,server=on,wait=off", "-device", "virtio-serial-pci"),
        *("-device", f"virtserialport,chardev=agent,name=org.qemu.guest_agent.0,id={_AGENT_PORT}"),
        *("-drive", f"file={disk},if=none,id=system-disk,format=raw,snapshot=on,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=system-disk,serial=system"),
        *("-netdev", "user,id=host", "-device", "virtio-net-pci,netdev=host,id=system,mac=52:54:00:00:00:01"),
        *("-device", "qemu-xhci,id=usb"),
        *("-device", "pcie-root-port,id=slot1,chassis=1"),
    ]


def _prefer_session(pid: int) -> None:
    with suppress(OSError):  # Linux is built without autogroups
        Path(f"/proc/{pid}/autogroup").write_text(_NICE[-1])
