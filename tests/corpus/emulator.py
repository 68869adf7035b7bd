"""Records the hardware of machines under QEMU. The machines run a Debian tree shared by 9p, without systemd or network.

The trees are made once and cached (tests/package/trees.py). One tree contains the emulator, from Debian 13, because
Debian 12's has no NIC with virtual functions. The other trees are the systems that the machines boot.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.package.trees import debian

DEADLINE = 1800  # seconds for one machine, which is enough on a busy computer
_SERVED = 60.0  # seconds until virtiofsd has created its socket
_WITHOUT_DOCS = tuple(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man"))
_PACKAGES = (
    *("btrfs-progs", "busybox-static", "cpio", "cryptsetup-bin", "dosfstools", "e2fsprogs", "ethtool", "fdisk"),
    *("iproute2", "kmod", "lvm2", "mdadm", "multipath-tools", "nvme-cli", "open-iscsi", "udev", "xz-utils"),
    *("python3-psutil", "python3-pyudev", "python3-tabulate"),
)
# Programs of another architecture cannot run here, so its packages are only unpacked. Essential ones must be listed.
_UNPACKED_PACKAGES = (
    *("base-files", "base-passwd", "coreutils", "dash", "findutils", "grep", "libc-bin", "mawk", "mount", "sed"),
    *("util-linux", *_PACKAGES),
)
_MERGED_USR = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
_EMULATOR_PACKAGES = ("qemu-system-x86", "qemu-system-arm", "seabios", "virtiofsd")
_SUITES = {"12": "bookworm", "13": "trixie"}
_SHARE = "local,security_model=none,path="  # the folder is added

FOLDERS = """
mkdir -p /run/udev /run/lock
"""
PRELUDE = """
/lib/systemd/systemd-udevd --daemon
udevadm trigger --type=subsystems --action=add
udevadm trigger --type=devices --action=add
udevadm settle --timeout=1800
capacityd() {
    $IN env PYTHONPATH=/run/share/agent PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m capacityd "$@"
}
record() {
    udevadm settle --timeout=1800
    capacityd record --keep-serials --force /run/share/recording.json.gz 2>&1 | cat
    for subsystem in $(ls /sys/bus /sys/class | grep -v : | sort -u); do
        printf '[resources."example.com/in-%s"]\\nudev = { subsystem = "%s" }\\n' "$subsystem" "$subsystem"
    done >>/run/share/needs.toml
    capacityd probe --json --config /run/share/needs.toml >/run/share/live.json || test $? = 4  # some are unknown
}
root_on() {  # a device with a file system: what follows is recorded as a system with its root there
    mkdir -p /run/root
    mount "$@" /run/root
    mkdir -p /run/root/tree
    mount --bind / /run/root/tree
    for name in bin etc lib lib64 sbin usr; do ln -s "tree/$name" "/run/root/$name"; done
    for name in dev proc run sys tmp; do mkdir -p "/run/root/$name" && mount --rbind "/$name" "/run/root/$name"; done
    IN="chroot /run/root"
}
IN=
"""


@dataclass(frozen=True, slots=True)
class Architecture:
    """debian: Debian's name of the architecture. processor: QEMU's -cpu. kernel: options on the kernel's command line.

    aarch64 has an old processor, because emulating the signed pointers of newer ones is slow. x86_64 has
    no_timer_check, because the kernel's check of the timer can fail on a busy computer.
    """

    debian: str
    processor: str
    kernel: str


ARCHITECTURES = {
    "x86_64": Architecture("amd64", "max", "console=ttyS0 no_timer_check"),
    "aarch64": Architecture("arm64", "cortex-a57", "console=ttyAMA0"),
}


def tree(release: str, architecture: str) -> Path:
    """The tree of a bootable Debian with the programs that the machines' commands use. Do not write to it."""
    finish = Path(__file__).with_name("finish").read_text()
    if architecture == "x86_64":
        return debian(f"corpus-{release}", _SUITES[release], _PACKAGES, finish, _WITHOUT_DOCS)
    foreign = ("--variant=extract", f"--architectures={ARCHITECTURES[architecture].debian}", _MERGED_USR)
    options = (*_WITHOUT_DOCS, *foreign, f"--extract-hook={finish}")
    return debian(f"corpus-{architecture}-{release}", _SUITES[release], _UNPACKED_PACKAGES, options=options)


def emulator(architecture: str) -> list[str]:
    """The start of a QEMU command. QEMU runs from its tree, with its own network namespace."""
    emulators = _emulators()
    firmware = ("-L", f"{emulators}/usr/share/qemu", "-L", f"{emulators}/usr/share/seabios")
    return ["unshare", "--net", "--map-root-user", *_of_tree(f"bin/qemu-system-{architecture}"), *firmware]


def _of_tree(program: str) -> list[str]:
    """The start of a command that runs a program of the emulator's tree with that tree's libraries."""
    emulators = _emulators()
    libraries = ("--library-path", f"{emulators}/usr/lib/x86_64-linux-gnu")
    return [f"{emulators}/usr/lib64/ld-linux-x86-64.so.2", *libraries, f"{emulators}/usr/{program}"]


def _emulators() -> Path:
    return debian("emulator-13", "trixie", _EMULATOR_PACKAGES, "true", _WITHOUT_DOCS)


def record(
    machine: str,
    hardware: str,
    inside: str,
    needs: str,
    target: Path,
    early: str = "",
    release: str = "12",
    memory: int = 1024,
    kernel: str = "",
    architecture: str = "x86_64",
) -> None:
    """Runs a machine and stores its recording in target. Raises RuntimeError with the console's output.

    machine: QEMU's -machine. hardware: QEMU's arguments. DISKS in them is a folder: "file=DISKS/name:100M" creates a
    file of that size, "path=DISKS/name" the socket of an empty folder shared by virtio-fs. \\xff is the byte 0xff.
    early, inside: shell commands, run as root before udev starts and after it has settled. memory: in MiB. kernel:
    added to the kernel's command line. needs: a configuration. Its resources, and each bus and class, must have the
    same readings on the recording as on the machine.
    """
    debian_tree, kind = tree(release, architecture), ARCHITECTURES[architecture]
    with tempfile.TemporaryDirectory(prefix="capacityd-corpus-") as scratch:
        share, disks = Path(scratch, "share"), Path(scratch, "disks")
        share.mkdir()
        disks.mkdir()
        shutil.copytree(ROOT / "agent", share / "agent", ignore=shutil.ignore_patterns("__pycache__"))
        (share / "inside").write_text(f"{FOLDERS}\n{early}\n{PRELUDE}\n{inside}\nrecord\n")
        (share / "needs.toml").write_text(f"{needs}\n")
        command = [
            *(*emulator(architecture), "-machine", machine, "-accel", "tcg,thread=single", "-cpu", kind.processor),
            *("-display", "none", "-no-user-config", "-nodefaults", "-no-reboot", "-serial", "stdio"),
            *("-m", str(memory)),
            *("-kernel", f"{debian_tree}/boot/vmlinuz", "-initrd", f"{debian_tree}/boot/initrd"),
            *("-append", f"{kind.kernel} quiet panic=-1 net.ifnames=1 {kernel}"),
            *("-fsdev", f"{_SHARE}{debian_tree},id=tree,readonly=on"),
            *("-fsdev", f"{_SHARE}{share},id=share"),
            *_words(hardware, disks),
        ]
        environment = {**os.environ, "QEMU_MODULE_DIR": f"{_emulators()}/usr/lib/x86_64-linux-gnu/qemu"}
        with _sharing(re.findall(rf",path=({re.escape(str(disks))}/\w+)", " ".join(command))):
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=DEADLINE,
                env=environment,
                check=False,
            )
        recording_file, live = share / "recording.json.gz", share / "live.json"
        if not live.exists() or "corpus: it failed" in done.stdout:
            output = done.stdout.partition("Kernel panic")[0]
            raise RuntimeError(f"{shlex.join(command)}\n{output[-6000:]}\n{done.stderr[-3000:]}")
        shutil.copy(recording_file, target)
        if different := _differences(json.loads(live.read_text()), recording_file, share / "needs.toml"):
            raise RuntimeError("\n".join(["live, and replayed:", *different]))


def _differences(live: Mapping[str, Any], recording: Path, needs: Path) -> list[str]:
    """The readings that differ between a machine and its recording."""
    probe = [sys.executable, "-m", "capacityd", "probe", "--json"]
    command = [*probe, "--machine", str(recording), "--config", str(needs)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "agent")}
    replayed = json.loads(subprocess.run(command, capture_output=True, env=environment, check=False).stdout)
    pairs = zip(live["resources"], replayed["resources"], strict=True)
    return [f"{was}\n{now}" for was, now in pairs if was != now]


@contextmanager
def _sharing(sockets: Sequence[str]) -> Iterator[None]:
    """Serves an empty folder by virtio-fs at each socket. The daemons end when the context ends."""
    daemons = []
    for socket in sockets:
        folder = Path(f"{socket}.d")
        folder.mkdir()
        options = ("--shared-dir", str(folder), "--socket-path", socket, "--sandbox", "none", "--seccomp", "none")
        daemons.append(subprocess.Popen([*_of_tree("libexec/virtiofsd"), *options], stderr=subprocess.DEVNULL))
    deadline = time.monotonic() + _SERVED
    while not all(map(os.path.exists, sockets)):
        if time.monotonic() > deadline:
            raise RuntimeError("virtiofsd does not serve")
        time.sleep(0.05)
    try:
        yield
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()


def _words(hardware: str, disks: Path) -> list[str]:
    """Returns QEMU's arguments from the text of a description, without comments. Creates the files that they name."""
    words = []
    for word in shlex.split(hardware.replace("\\x", "\\\\x"), comments=True):
        parts = []
        for part in unescaped(word).split(","):
            name, _, size = part.partition(":")
            if name.startswith("path=DISKS/"):
                part = f"path={disks / name.removeprefix('path=DISKS/')}"
            elif name.startswith("file=DISKS/") and size:
                path = disks / name.removeprefix("file=DISKS/")
                with open(path, "ab") as f:
                    shift = {"K": 10, "M": 20, "G": 30, "T": 40}[size[-1]]  # of a size such as 20G
                    os.truncate(f.fileno(), int(size[:-1]) << shift)
                part = f"file={path}"
            parts.append(part)
        words.append(",".join(parts))
    return words


def unescaped(text: str) -> str:
    """The text with each \\xff replaced by its byte. Bytes that are not UTF-8 become surrogate escapes."""
    return re.sub(r"\\x(..)", lambda match: os.fsdecode(bytes.fromhex(match[1])), text)
