"""Processors and memory as /sys, /proc and psutil report them."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path

import psutil
import pytest

from capacityd.host.cpu_memory import processors as live_processors
from capacityd.host.live import LiveHost
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.errors import HostError
from tests.support.forked import can_be_alone, run_alone
from tests.support.machines import Recording, bare, errors, files, machine, merge, write_tree

CPUS = "/sys/devices/system/cpu"


def package(number: int, socket: str | None, core: str = "0") -> dict[str, str]:
    """A processor as the kernel shows it; an offline one, without a socket, has no topology."""
    folder = f"{CPUS}/cpu{number}"
    topology = {
        f"{folder}/topology/physical_package_id": f"{socket}\n",
        f"{folder}/topology/core_cpus_list": f"{core}\n",
    }
    return {f"{folder}/uevent": "", **(topology if socket is not None else {})}


@pytest.mark.parametrize(
    ("of_cpus", "sockets"),
    [
        (("0", "0"), 1),
        (("0", "1", "0", "1"), 2),
        (("0", None, "0"), 1),
        (("36", "4096"), 2),
        (("-1", "-1"), None),
        ((), None),
    ],
)
def test_sockets_are_those_of_the_online_processors(of_cpus: tuple[str | None, ...], sockets: int | None) -> None:
    online = ",".join(str(number) for number, socket in enumerate(of_cpus) if socket is not None)
    parts = [files(package(number, socket)) for number, socket in enumerate(of_cpus)]
    host = machine(*parts, files({f"{CPUS}/online": f"{online}\n"}))
    assert live_processors(host).sockets == sockets


def in_packages(lists: str, package_id: str = "-1", name: str = "package_cpus_list") -> Recording:
    """Processors of which each has this list of the processors in its package: "0-1 0-1 2-3 2-3"."""
    contents: dict[str, str] = {}
    for number, members in enumerate(lists.split()):
        contents |= package(number, package_id) | {f"{CPUS}/cpu{number}/topology/{name}": f"{members}\n"}
    return files(contents)


@pytest.mark.parametrize(
    ("parts", "sockets"),
    [
        ([in_packages("0-1 0-1 2-3 2-3")], 2),  # POWER, RISC-V, SPARC
        ([in_packages("0-1 0-1 2-3 2-3", name="core_siblings_list")], 2),  # before Linux 5.3
        ([in_packages("0-1 0-1 2-3 2-3", "0")], 2),  # s390: ids repeat in each book
        ([in_packages("0-3 0-3 0-3 0-3"), {"arch": "riscv64"}], 1),
        ([in_packages("0-3 0-3 0-3 0-3"), {"arch": "aarch64"}], None),  # its kernels list all processors then
        ([in_packages("0-1 0-1 2-3 2-3", "0"), {"arch": "aarch64"}], 2),
        ([in_packages("0-1 0-1 2-3 2-3"), files({f"{CPUS}/online": "0-1\n"})], 1),
    ],
)
def test_sockets_are_those_that_list_their_processors(parts: list[Recording], sockets: int | None) -> None:
    assert live_processors(machine(*parts)).sockets == sockets


def test_an_offline_processor_that_keeps_its_topology_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """psutil counts its core; here it is all of one core."""
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 3 if logical else 4)
    cpus = [files(package(number, "0", str(number))) for number in range(4)]
    online = files({f"{CPUS}/online": "0-2\n"})
    assert live_processors(machine(*cpus, online)).cores == 3
    without_lists = {path: text for path, text in merge(*cpus)["files"].items() if "core_cpus" not in path}
    assert live_processors(machine(files(without_lists), online)).cores is None


def test_a_kernel_without_lists_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sockets of two cores with two threads each; the last thread is offline, and keeps its topology."""
    contents: dict[str, str] = {}
    for number in range(8):
        topology = f"{CPUS}/cpu{number}/topology"
        contents[f"{topology}/physical_package_id"] = f"{number // 4}\n"
        contents[f"{topology}/thread_siblings"] = f"{3 << number // 2 * 2:08x}\n" if number < 7 else "00000080\n"
        contents[f"{topology}/core_siblings"] = f"{15 << number // 4 * 4:08x}\n" if number < 7 else "00000080\n"
        if number > 0:  # the first can't be taken offline
            contents[f"{CPUS}/cpu{number}/online"] = f"{int(number < 7)}\n"
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 7 if logical else None)
    processors = live_processors(RecordedHost(files(contents)))
    assert (processors.cores, processors.sockets) == (4, 2)
    with pytest.raises(HostError, match="could not be read"):
        live_processors(RecordedHost(merge(files(contents), errors({f"{CPUS}/cpu5/online": "EIO"}))))


def test_what_the_kernel_itself_lists_needs_no_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc/cpuinfo, which psutil reads, may be unreadable."""

    def fail(logical: bool) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", "/proc/cpuinfo")

    monkeypatch.setattr(psutil, "cpu_count", fail)
    topology = {
        f"{CPUS}/cpu{number}/topology/{name}": text
        for number in range(4)
        for name, text in (
            ("physical_package_id", f"{number // 2}\n"),
            ("core_cpus_list", f"{number // 2 * 2}-{number // 2 * 2 + 1}\n"),
            ("package_cpus_list", f"{number // 2 * 2}-{number // 2 * 2 + 1}\n"),
        )
    }
    host = machine(files(topology), files({f"{CPUS}/online": "0-3\n"}))
    processors = live_processors(host)
    assert (processors.threads, processors.cores, processors.sockets) == (4, 2, 2)
    with pytest.raises(HostError, match="the processors could not be read: PermissionError"):
        live_processors(machine())


def test_a_processor_without_topology_among_others_is_unknown() -> None:
    host = machine(files(package(0, "0")), files({f"{CPUS}/cpu1/uevent": "", f"{CPUS}/online": "0-1\n"}))
    with pytest.raises(HostError, match="changed while they were read"):
        live_processors(host)


def test_the_highest_frequency_before_there_were_policies() -> None:
    frequencies = {f"{CPUS}/cpu{n}/cpufreq/cpuinfo_max_freq": f"{3_000_000 + n}\n" for n in range(2)}
    host = machine(
        files(package(0, "0")), files(package(1, "0")), files(frequencies), files({f"{CPUS}/online": "0-1\n"})
    )
    assert live_processors(host).max_frequency == 3_000_001_000


@pytest.mark.parametrize(("kilohertz", "hertz"), [(["5200000", "3900000"], 5_200_000_000), ([], None), (["0"], None)])
def test_the_highest_frequency_is_that_of_the_fastest_core(kilohertz: list[str], hertz: int | None) -> None:
    """scaling_max_freq is a limit that power management has set."""
    paths = {f"{CPUS}/cpufreq/policy{n}/cpuinfo_max_freq": f"{text}\n" for n, text in enumerate(kilohertz)}
    limits = {path.replace("cpuinfo", "scaling"): "800000\n" for path in paths}
    assert live_processors(machine(files(paths | limits))).max_frequency == hertz


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (errors({f"{CPUS}/cpu1/topology/physical_package_id": "EIO"}), "could not be read"),
        (errors({f"{CPUS}/cpufreq/policy0/cpuinfo_max_freq": "EIO"}), "could not be read"),
        (files({f"{CPUS}/cpufreq/policy0/cpuinfo_max_freq": "<unknown>\n"}), "not a whole number"),
    ],
)
def test_what_could_not_be_read_raises_host_error(broken: Recording, reason: str) -> None:
    whole = files(package(0, "0") | package(1, "1") | {f"{CPUS}/cpufreq/policy0/cpuinfo_max_freq": "3000000\n"})
    with pytest.raises(HostError, match=reason):
        live_processors(machine(whole, broken))


def test_what_psutil_does_not_know_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 8 if logical else None)
    processors = live_processors(machine())
    assert (processors.cores, processors.threads) == (None, 8)


def test_this_machines_processors_are_those_of_lscpu() -> None:
    done = subprocess.run(["lscpu", "-p=CPU,CORE,SOCKET"], capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines() if not line.startswith("#")]
    processors = LiveHost().processors()
    assert processors.threads == len(rows)
    assert processors.cores == len({(core, socket) for _, core, socket in rows})
    assert processors.sockets in (len({socket for _, _, socket in rows}), None)


MOUNT_SYS = 'mount --rbind "$1/sys" /sys; shift'
LIVE_PROCESSORS = """
import dataclasses, json
from capacityd.host.live import LiveHost
from capacityd.host.recording.replay import RecordedHost
print(json.dumps(dataclasses.asdict(LiveHost().processors())))
"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_a_sys_of_two_sockets_and_an_offline_processor(tmp_path: Path) -> None:
    """Two sockets of two cores with two threads each, of which one processor is offline."""
    cpus = [package(n, str(n // 4), f"{n // 2 * 2}-{n // 2 * 2 + 1}") for n in range(7)] + [package(7, None)]
    policies = {f"{CPUS}/cpufreq/policy{n}/cpuinfo_max_freq": f"{3_000_000 + n}\n" for n in range(4)}
    write_tree(merge(bare(), *map(files, cpus), files({**policies, f"{CPUS}/online": "0-6\n"})), str(tmp_path))
    document = json.loads(run_alone(MOUNT_SYS, LIVE_PROCESSORS, str(tmp_path)))
    assert document == {"cores": 4, "threads": 7, "sockets": 2, "max_frequency": 3_000_003_000}


LIVE_MEMORY = """
import dataclasses, json
from capacityd.model.errors import HostError
from capacityd.host.live import LiveHost
from capacityd.host.recording.replay import RecordedHost
try:
    print(json.dumps(dataclasses.asdict(LiveHost().memory())))
except HostError as e:
    print(json.dumps(str(e)))
"""
MOUNT_PROC = 'mount --bind "$1/meminfo" /proc/meminfo; {more}shift'
MEMINFO = "MemTotal: 1000 kB\nMemFree: 500 kB\nBuffers: 1 kB\nCached: 1 kB\nSwapTotal: 300 kB\nSwapFree: 300 kB\n"


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize(
    ("meminfo", "more", "expected"),
    [
        (MEMINFO, "", {"size": 1_024_000, "swap": 307_200}),
        (MEMINFO, "mount --bind /dev/null /proc/vmstat; ", {"size": 1_024_000, "swap": 307_200}),  # psutil only warns
        (MEMINFO.replace("1000", "lots"), "", "the memory could not be read: ValueError"),
        ("", "", "the memory could not be read: KeyError"),
    ],
)
def test_a_proc_with_other_content(meminfo: str, more: str, expected: object, tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(meminfo)
    output = json.loads(run_alone(MOUNT_PROC.format(more=more), LIVE_MEMORY, str(tmp_path)))
    assert output.startswith(expected) if isinstance(expected, str) else output == expected, output
