"""capacityd.host turns each exception of a library into a HostError. The value is then unknown, and not absent.

The libraries are real, the machine is made up. The interpreter calls a profiler at each call of a library. The profiler
raises one error at a time in place of one call.
"""

from __future__ import annotations

import errno
import inspect
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import psutil
import pytest
import pyudev

from capacityd.host import filesystems
from capacityd.host.live import LiveHost
from capacityd.model.errors import HostError
from tests.support.forked import can_be_alone, run_alone
from tests.support.machines import bare, merge, usb_device, write_tree

_CODES = (errno.EIO, errno.EACCES, errno.ENOMEM, errno.EMFILE)
_SYSTEM: list[Exception] = [OSError(code, os.strerror(code)) for code in _CODES]


def _exceptions_of(library: ModuleType) -> list[Exception]:
    """An instance of each exception class that a library defines."""
    classes = [value for _, value in inspect.getmembers(library, inspect.isclass)]
    own = [kind for kind in classes if kind.__module__.partition(".")[0] == library.__name__]
    return [kind.__new__(kind) for kind in own if issubclass(kind, Exception)]


_MAY_RAISE: dict[str, list[Exception]] = {
    # What the functions of each module may raise, according to its documentation or its source.
    **dict.fromkeys(("posix", "posixpath", "_io", "io", "fcntl", "select", "socket"), _SYSTEM),
    "_socket": [*_SYSTEM, TimeoutError("timed out")],
    "_struct": [struct.error("unpack_from requires a buffer")],
    "threading": [RuntimeError("can't start new thread")],
    "subprocess": [*_SYSTEM, subprocess.SubprocessError("a preexec_fn failed")],
    "pyudev": [
        *_exceptions_of(pyudev),
        *_SYSTEM,
        UnicodeDecodeError("utf-8", b"caf\xe9", 3, 4, "invalid"),
        AttributeError("udev_new"),
        KeyError("ID_TEST"),
        TypeError("None"),
    ],
    "psutil": [
        *_exceptions_of(psutil),
        *_SYSTEM,
        NotImplementedError("can't find current frequency file"),
        ValueError("invalid literal for int()"),
        AttributeError("linux_sysinfo"),
        KeyError("MemTotal:"),
        IndexError("list index out of range"),
    ],
}
_CAN_NOT_FAIL = (
    *("fspath", "geteuid", "getpid", "pack", "pack_into", "strerror", "uname"),
    *("__del__", "threading.__init__", "threading.current_thread", "threading.join", "threading.main_thread"),
    # Without the option strict, realpath() ignores errors.
    *(f"posixpath.{name}" for name in ("basename", "dirname", "join", "realpath")),
)
_HOST = (f"{os.sep}capacityd{os.sep}host{os.sep}", f"{os.sep}capacityd{os.sep}linux{os.sep}")


class Fault:
    """A profiler that makes call number `at` fail with error number `which` of those that the function may raise."""

    def __init__(self, at: int = -1, which: int = 0) -> None:
        self._at, self._which = at, which
        self.calls: list[tuple[str, int]] = []  # the function, and how many errors it may raise

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            caller: FrameType | None = frame
            module = getattr(called, "__module__", None) or type(getattr(called, "__self__", None)).__module__
            name = called.__name__
        elif event == "call":
            caller, module, name = frame.f_back, frame.f_globals.get("__name__", ""), frame.f_code.co_name
        else:
            return
        if caller is None or not any(part in caller.f_code.co_filename for part in _HOST):
            return
        if name in _CAN_NOT_FAIL or f"{module}.{name}" in _CAN_NOT_FAIL:
            return
        errors = _MAY_RAISE.get(module) or _MAY_RAISE.get(module.partition(".")[0])
        if errors is None:
            return
        self.calls.append((f"{module}.{name}", len(errors)))
        if len(self.calls) - 1 == self._at:
            # A call's number may vary, because a program's output arrives in pieces, so `which` may be too large here.
            raise errors[self._which % len(errors)]


def outcome(ask: Callable[[], Any], fault: Fault) -> tuple[str, Any]:
    """The kind and the content of an outcome: "answer", "unknown" (a HostError) or "traceback" (a defect)."""
    sys.setprofile(fault)
    try:
        result = "answer", ask()
    except HostError as e:
        result = "unknown", str(e)
    except Exception as e:  # noqa: BLE001  # any other exception is a defect
        result = "traceback", repr(e)
    finally:
        sys.setprofile(None)
    return result


def questions(folder: str) -> dict[str, Callable[[], Any]]:
    """A call of each method of a host, by name. folder: where this function creates a file and a link."""
    host, device, file, link = LiveHost(), "/sys/bus/usb/devices/1-1", f"{folder}/file", f"{folder}/link"
    Path(file).write_text("4\n")
    os.symlink(file, link)
    ids = [line.split()[0] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return {
        "listdir": lambda: host.listdir("/sys/bus"),
        "text": lambda: host.text(f"{device}/idVendor"),
        "resolve": lambda: host.resolve(device),
        "exists": lambda: host.exists(device),
        "properties": lambda: LiveHost().properties(device),
        "property": lambda: LiveHost().property(device, "ID_NONE", "ID_TEST"),
        "link_modes": lambda: host.link_modes("va"),
        "link_kind": lambda: LiveHost().link_kind("va"),
        "linked_interface": lambda: LiveHost().linked_interface("va"),
        "default_interfaces": host.default_interfaces,
        "addresses": host.addresses,
        **{f"processors {name}": partial(host.processors, name) for name in ("cores", "threads", "sockets")},
        "memory": host.memory,
        "filesystem_size": lambda: host.filesystem_size("/", ids),
        "filesystem_size, its thread": lambda: filesystems._size("/", ids),
        "lines": lambda: host.lines("/proc/swaps"),
        "read_file": lambda: host.read_file(file, 100).text,
        "run": lambda: host.run(["/bin/echo", "4"], 9),
        "hostname": host.hostname,
        "arch": host.arch,
        "scandir": lambda: host.scandir(folder),
        "raw": lambda: host.raw(file, 100),
        "readlink": lambda: host.readlink(link),
    }


def main(folder: str) -> None:
    """Makes each call in each method fail once, with each error.

    Prints for each method the outcome without a fault, the number of faults, and the faults with a wrong outcome.
    """
    results: dict[str, Any] = {}
    for name, ask in questions(folder).items():
        outcome(ask, Fault())  # the first use imports modules
        fault, faults, wrong = Fault(), 0, []
        wanted = outcome(ask, fault)
        for at, (call, errors) in enumerate(fault.calls):
            for which in range(errors):
                got = outcome(ask, Fault(at, which))
                faults += 1
                # A device's own text need not be UTF-8. The value is then the bytes in the UnicodeDecodeError.
                decoded = call.endswith("__getitem__") and r"caf\\xe9" in str(got[1])
                if got[0] != "unknown" and got != wanted and not decoded:
                    wrong.append([f"{call} (call {at}, error {which})", *map(str, got)])
        results[name] = [wanted[0], faults, wrong]
    print(json.dumps(results))


MOUNTING = """ip link add va type veth peer name vb; ip address add 192.0.2.7/24 dev va
ip link set va up; ip route add default dev va
mount --rbind "$1/sys" /sys; mkdir -p /run/udev; mount --bind "$1/run/udev" /run/udev"""
PROGRAM = "import sys; from tests.unit.host.test_library_faults import main; main(*sys.argv[1:])"


@pytest.mark.slow
@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_every_fault_of_a_library_is_an_unknown(tmp_path: Path) -> None:
    write_tree(merge(bare(), usb_device("1-1", properties={"ID_TEST": "x"})), str(tmp_path))
    document = json.loads(run_alone(MOUNTING, PROGRAM, str(tmp_path)))
    assert {name: wrong for name, (_, _, wrong) in document.items() if wrong} == {}
    assert {name for name, (kind, _, _) in document.items() if kind != "answer"} <= {"link_modes"}
    without_faults = {name for name, (_, faults, _) in document.items() if not faults}
    assert without_faults <= {"hostname", "arch", "processors sockets"}
    assert document["properties"][1] > 100  # faults
