"""Machines under QEMU whose hardware is recorded: a Debian tree shared by 9p, no disk image, no systemd, no network.

Both trees are made once and kept in the cache (tests/package/trees.py): one holds the emulator, newer than the one of
Debian 12, because that has no NIC with virtual functions; the others hold what is emulated.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT
from tests.package.trees import debian

DEADLINE = 1800  # seconds for one machine: emulation on a busy computer
_UNREAD = tuple(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man"))
_INSIDE = (
    *("btrfs-progs", "busybox-static", "cpio", "cryptsetup-bin", "dosfstools", "e2fsprogs", "ethtool", "fdisk"),
    *("iproute2", "kmod", "lvm2", "mdadm", "multipath-tools", "nvme-cli", "open-iscsi", "udev", "xz-utils"),
    *("python3-psutil", "python3-pyudev", "python3-tabulate"),
)
# A tree of another architecture is only unpacked: nothing of it can be run here, so what is essential is named.
_UNPACKED = (
    *("base-files", "base-passwd", "coreutils", "dash", "findutils", "grep", "libc-bin", "mawk", "mount", "sed"),
    *("util-linux", *_INSIDE),
)
_MERGED = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
_EMULATOR = ("qemu-system-x86", "qemu-system-arm", "seabios")
_SUITES = {"12": "bookworm", "13": "trixie"}
_ABOUT_SHARES = "local,security_model=none,path="

BEFORE = """
mkdir -p /run/udev /run/lock
"""
INSIDE = """
/lib/systemd/systemd-udevd --daemon
udevadm trigger --type=subsystems --action=add
udevadm trigger --type=devices --action=add
udevadm settle --timeout=1800
record() {
    udevadm settle --timeout=1800
    "$@" env PYTHONPATH=/run/share/agent PYTHONDONTWRITEBYTECODE=1 \\
        /usr/bin/python3 -m capacityd record --keep-serials --force /run/share/recording.json.gz 2>&1 | cat
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
    """debian: Debian's name for it. processor: of aarch64 an old one, because a new one's signed pointers are slow.

    kernel: for its command line. What tests whether the timer works is misled where emulation has little time itself.
    """

    debian: str
    processor: str
    kernel: str


ARCHITECTURES = {
    "x86_64": Architecture("amd64", "max", "console=ttyS0 no_timer_check"),
    "aarch64": Architecture("arm64", "cortex-a57", "console=ttyAMA0"),
}


def tree(release: str, architecture: str) -> Path:
    """The tree of a bootable Debian with what the descriptions use. It must not be written to."""
    finish = Path(__file__).with_name("finish").read_text()
    if architecture == "x86_64":
        return debian(f"corpus-{release}", _SUITES[release], _INSIDE, finish, _UNREAD)
    foreign = ("--variant=extract", f"--architectures={ARCHITECTURES[architecture].debian}", _MERGED)
    options = (*_UNREAD, *foreign, f"--extract-hook={finish}")
    return debian(f"corpus-{architecture}-{release}", _SUITES[release], _UNPACKED, options=options)


def emulator(architecture: str) -> list[str]:
    """The command that begins QEMU out of its tree, in a network of its own: nobody else's are its TAPs and sockets."""
    found = _emulators()
    binary = f"{found}/usr/bin/qemu-system-{architecture}"
    libraries = ("--library-path", f"{found}/usr/lib/x86_64-linux-gnu")
    firmware = ("-L", f"{found}/usr/share/qemu", "-L", f"{found}/usr/share/seabios")
    alone = ("unshare", "--net", "--map-root-user")
    return [*alone, f"{found}/usr/lib64/ld-linux-x86-64.so.2", *libraries, binary, *firmware]


def _emulators() -> Path:
    return debian("emulator-13", "trixie", _EMULATOR, "true", _UNREAD)


def record(
    machine: str,
    hardware: str,
    inside: str,
    target: Path,
    early: str = "",
    release: str = "12",
    memory: int = 1024,
    kernel: str = "",
    architecture: str = "x86_64",
) -> None:
    """Runs a machine and keeps its recording at target. Raises RuntimeError with what the console said.

    machine: QEMU's -machine. hardware: QEMU's arguments, DISKS in them stands for a folder; "DISKS/name:100M" makes a
    file of that size, and \\xff is that byte. early, inside: commands of the shell, run as root before udev begins and
    once it has settled. memory: in MiB. kernel: added to its command line.
    """
    debian_tree, kind = tree(release, architecture), ARCHITECTURES[architecture]
    with tempfile.TemporaryDirectory(prefix="capacityd-corpus-") as scratch:
        share, disks = Path(scratch, "share"), Path(scratch, "disks")
        share.mkdir()
        disks.mkdir()
        shutil.copytree(ROOT / "agent", share / "agent", ignore=shutil.ignore_patterns("__pycache__"))
        (share / "inside").write_text(f"{BEFORE}\n{early}\n{INSIDE}\n{inside}\nrecord $IN\n")
        command = [
            *(*emulator(architecture), "-machine", machine, "-accel", "tcg,thread=single", "-cpu", kind.processor),
            *("-display", "none", "-no-user-config", "-nodefaults", "-no-reboot", "-serial", "stdio"),
            *("-m", str(memory)),
            *("-kernel", f"{debian_tree}/boot/vmlinuz", "-initrd", f"{debian_tree}/boot/initrd"),
            *("-append", f"{kind.kernel} quiet panic=-1 net.ifnames=1 {kernel}"),
            *(
                "-fsdev",
                f"{_ABOUT_SHARES}{debian_tree},id=tree,readonly=on",
                "-fsdev",
                f"{_ABOUT_SHARES}{share},id=share",
            ),
            *_words(hardware, disks),
        ]
        environment = {**os.environ, "QEMU_MODULE_DIR": f"{_emulators()}/usr/lib/x86_64-linux-gnu/qemu"}
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=DEADLINE, env=environment, check=False
        )
        made = share / "recording.json.gz"
        if not made.exists() or "corpus: it failed" in done.stdout:
            said = done.stdout.partition("Kernel panic")[0]
            raise RuntimeError(f"{shlex.join(command)}\n{said[-6000:]}\n{done.stderr[-3000:]}")
        shutil.copy(made, target)


def _words(hardware: str, disks: Path) -> list[str]:
    """QEMU's arguments, one device a line, without comments; the files that they name are made."""
    found = []
    for word in shlex.split(hardware.replace("\\x", "\\\\x"), comments=True):
        parts = []
        for part in unescaped(word).split(","):
            name, _, size = part.partition(":")
            if name.startswith("file=DISKS/") and size:
                path = disks / name.removeprefix("file=DISKS/")
                with open(path, "ab") as f:
                    os.truncate(f.fileno(), int(size[:-1]) << {"K": 10, "M": 20, "G": 30, "T": 40}[size[-1]])
                part = f"file={path}"
            parts.append(part)
        found.append(",".join(parts))
    return found


def unescaped(text: str) -> str:
    """With the bytes that stand in it as \\xff; those that are no UTF-8 as Python has them in arguments."""
    return re.sub(r"\\x(..)", lambda found: os.fsdecode(bytes.fromhex(found[1])), text)
