"""A virtual machine under plain emulation, with whatever hardware QEMU has; a command in it, and the monitor beside it.

It has a PCI Express bus (q35) with an xHCI controller, a slot "slot1" for what is plugged in while it runs,
and a NIC "system" to the host, whose loopback is 10.0.2.2 there. The image stays as it is; what is written to it is
kept until the machine ends, over reboots too. Commands go through QEMU's agent in the guest and need no network.
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

BOOT = 600  # seconds: emulation on a machine that is busy with something else
_PORT = "agent"
# The translated code of a boot stays in the way of the next one, which then takes three times as long: a buffer that is
# soon full is emptied in time.
_ACCELERATOR = "tcg,thread=multi,tb-size=128"
# An emulated processor has no secrets to protect; and each of Debian's 32 serial ports takes udev and systemd time.
# What systemd gives 90 seconds may take longer on a machine that is busy.
_KERNEL = "console=ttyS0 quiet net.ifnames=1 mitigations=off 8250.nr_uarts=1 systemd.default_timeout_start_sec=900"
# It takes longest of all tests, so what runs beside it must not hold it up. Where Linux shares the processor out by
# session first, nice alone has no effect between sessions; _step_forward() sets the session's share.
_NICE = ("nice", "-n", "-5")
_PAUSE = 0.5  # seconds between two questions whether a command has ended, which the agent in the guest answers


class VirtualMachine(Console):
    """Made by virtual_machine(), which ends it. monitor: QEMU's, for any command of its QMP reference."""

    def __init__(self, daemon: Daemon, monitor: Wire, agent: Wire, console: Path) -> None:
        self.monitor = monitor
        self._reachable = False
        self._daemon = daemon
        self._agent = agent
        self._console = console
        self._begun = 0

    def up(self, expected: str = "running") -> None:
        """Waits until all that starts at boot has started, or has failed to."""
        if not self._reachable:
            self._opened()
        self.run("systemctl", "is-system-running", "--wait", status=None, deadline=BOOT)
        state = self.run("systemctl", "is-system-running", status=None).stdout.strip()
        assert state == expected, f"{state}\n{self.out('systemctl', '--failed')}"

    def execute(self, command: list[str], text: str, deadline: float) -> subprocess.CompletedProcess[str]:
        started = self._agent.ask(
            "guest-exec",
            path=f"/usr/bin/{command[0]}",
            arg=command[1:],
            input_data=base64.b64encode(text.encode()).decode(),
            capture_output=True,
        )
        ended = {}

        def over() -> bool:
            ended.update(self._agent.ask("guest-exec-status", pid=started["pid"]))
            return bool(ended["exited"])

        # What takes a second on a machine may take a minute here.
        wait_until(over, max(deadline, BOOT), f"{' '.join(command)} ends", _PAUSE)
        out, err = (base64.b64decode(ended.get(name, "")).decode(errors="replace") for name in ("out-data", "err-data"))
        return subprocess.CompletedProcess(command, ended.get("exitcode", -ended.get("signal", 0)), out, err)

    def plug(self, driver: str, name: str, **settings: Any) -> None:
        """Adds a device, USB or (with bus="slot1") PCI."""
        self.monitor.ask("device_add", driver=driver, id=name, **settings)

    def unplug(self, name: str) -> None:
        """Pulls a device. It is gone when this returns."""
        position = self.monitor.position()
        self.monitor.ask("device_del", id=name)
        self.monitor.event("DEVICE_DELETED", position, BOOT, device=name)

    def set_link(self, name: str, up: bool) -> None:
        """Plugs a NIC's cable in or out."""
        self.monitor.ask("set_link", name=name, up=up)

    def resize(self, drive: str, size: int) -> None:
        """Gives a drive this many bytes."""
        self.monitor.ask("block_resize", device=drive, size=size)

    def reboot(self) -> None:
        """As an administrator does; commands can be run again when this returns, with up() everything has started."""
        self._begun = self.monitor.position()
        self._agent.ask("guest-exec", path="/usr/bin/systemctl", arg=["reboot"])
        self.monitor.event("RESET", self._begun, BOOT)
        self._begun = self.monitor.position()
        self._opened()

    def _opened(self) -> None:
        """Waits until commands can be run. The rest of the machine may not be up yet."""
        try:
            self.monitor.event("VSERPORT_CHANGE", self._begun, BOOT, open=True, id=_PORT)
        except WireError as e:
            console = self._console.read_text(errors="replace")
            raise WireError(f"{e}; the end of the console:\n{console[-3000:]}{self._daemon.output()}") from None
        self._reachable = True


def nic(name: str, **settings: object) -> list[str]:
    """QEMU's arguments for a NIC with a carrier and nobody at the other end; settings are virtio-net-pci's."""
    options = "".join(f",{key}={value}" for key, value in settings.items())
    return [*peer(name), "-device", f"virtio-net-pci,netdev={name}-peer,id={name}{options}"]


def peer(name: str) -> list[str]:
    """QEMU's arguments for the other end of a NIC that is plugged in later, with netdev="NAME-peer"."""
    return ["-netdev", f"socket,id={name}-peer,udp=127.0.0.1:9,localaddr=127.0.0.1:0"]


def drive(name: str, size: int, folder: Path) -> list[str]:
    """QEMU's arguments for an empty medium of so many bytes, for a device with drive=NAME."""
    file = folder / name
    with open(file, "wb") as f:
        os.truncate(f.fileno(), size)
    return ["-drive", f"file={file},if=none,id={name},format=raw,cache=unsafe"]


@contextmanager
def virtual_machine(
    disk: Path, tree: Path, hardware: Sequence[str] = (), memory: int = 1024, commandline: str = ""
) -> Iterator[VirtualMachine]:
    """A machine that has been switched on, and is stopped afterwards.

    tree: what the image was made of, for its kernel. hardware: QEMU's arguments. memory: in MiB. commandline: added to
    the kernel's.
    """
    with workspace() as folder:
        command = _command(folder, disk, tree, memory, f"{_KERNEL} {commandline}")
        with Daemon([*_NICE, *command, *hardware], folder / "qemu.log") as daemon:
            _step_forward(daemon.pid)
            sockets = folder / "agent", folder / "monitor"
            daemon.wait_for(lambda: all(path.exists() for path in sockets), PATIENCE, "it has begun")
            monitor, agent = Wire(folder / "monitor"), Wire(folder / "agent")
            monitor.ask("qmp_capabilities")
            try:
                yield VirtualMachine(daemon, monitor, agent, folder / "console")
            finally:
                monitor.close()
                agent.close()


def _command(folder: Path, disk: Path, tree: Path, memory: int, commandline: str) -> list[str | Path]:
    return [
        *("qemu-system-x86_64", "-machine", "q35", "-accel", _ACCELERATOR, "-cpu", "max", "-smp", "2"),
        *("-m", str(memory), "-display", "none", "-nodefaults", "-no-user-config", "-serial", f"file:{folder}/console"),
        *("-kernel", tree / "boot/vmlinuz", "-initrd", tree / "boot/initrd", "-append", commandline),
        *("-qmp", f"unix:{folder}/monitor,server=on,wait=off"),
        *("-chardev", f"socket,id=agent,path={folder}/agent,server=on,wait=off", "-device", "virtio-serial-pci"),
        *("-device", f"virtserialport,chardev=agent,name=org.qemu.guest_agent.0,id={_PORT}"),
        *("-drive", f"file={disk},if=none,id=system-disk,format=raw,snapshot=on,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=system-disk,serial=system"),
        *("-netdev", "user,id=host", "-device", "virtio-net-pci,netdev=host,id=system,mac=52:54:00:00:00:01"),
        *("-device", "qemu-xhci,id=usb"),
        *("-device", "pcie-root-port,id=slot1,chassis=1"),
    ]


def _step_forward(pid: int) -> None:
    with suppress(OSError):  # Linux is not built with it
        Path(f"/proc/{pid}/autogroup").write_text(_NICE[-1])
