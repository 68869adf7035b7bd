"""Processors and memory, from /sys, /proc and psutil."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path

import psutil
import pytest

from capacityd.host.cpu_memory import PROCESSOR_MEASURES
from capacityd.host.live import LiveHost
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.errors import HostError
from capacityd.model.host import Host
from tests.support.forked import can_be_alone, run_alone
from tests.support.machines import Recording, bare, errors, files, machine, merge, write_tree

CPUS = "/sys/devices/system/cpu"
TABLES = "/sys/firmware/acpi/tables"
PPTT = files({f"{TABLES}/PPTT": ""})


def measure(name: str, host: Host) -> int | None:
    """A measure as the live host reads it."""
    return PROCESSOR_MEASURES[name](host)


def cpus(online: str = "", **topology: str) -> Recording:
    """Returns processors with topology files. topology: file name -> content for each processor, "." for no file."""
    contents = {f"{CPUS}/online": f"{online}\n"} if online else {}
    for name, texts in topology.items():
        for number, text in enumerate(texts.split()):
            contents[f"{CPUS}/cpu{number}/uevent"] = ""
            if text != ".":
                contents[f"{CPUS}/cpu{number}/topology/{name}"] = f"{text}\n"
    return files(contents)


def frequencies(*kilohertz: int | str, path: str = "cpufreq/policy{}") -> Recording:
    """Returns the hardware's limit of each processor, and a lower limit that power management has set."""
    folders = {f"{CPUS}/{path.format(number)}": text for number, text in enumerate(kilohertz)}
    limits = {f"{folder}/scaling_max_freq": "800000\n" for folder in folders}
    return files(limits | {f"{folder}/cpuinfo_max_freq": f"{text}\n" for folder, text in folders.items()})


def arch(name: str, release: str = "6.1.0-18-arm64") -> Recording:
    """An architecture, as uname -m prints it, and the kernel's version."""
    return merge({"arch": name, "folders": [TABLES]}, files({"/proc/sys/kernel/osrelease": f"{release}\n"}))


def policy(number: int, name: str, text: str) -> Recording:
    """A file of a cpufreq policy."""
    return files({f"{CPUS}/cpufreq/policy{number}/{name}": f"{text}\n"})


PACKAGES = "0-1 0-1 2-3 2-3"
SAME = "-1 -1 -1 -1"
LEAVING = "0-3 0-2 0-2 0-3"  # processor 3 is going offline, and two of its package have removed it
CLUSTERS = cpus(physical_package_id="0 1 2", core_cpus_list="0 1 2")  # arm-A510-A710-A715-X3 of util-linux


@pytest.mark.parametrize(
    ("sockets", "parts"),
    [
        (1, [cpus(physical_package_id="0 0")]),
        (2, [cpus(physical_package_id="36 4096 36 4096")]),
        (1, [cpus("0,2", physical_package_id="0 . 0")]),  # without offline processors
        (1, [cpus("0-1", physical_package_id="0 0 1 1")]),
        (None, []),
        (1, [cpus(physical_package_id="0 0 0 0", package_cpus_list=LEAVING)]),
        (1, [cpus(physical_package_id=SAME, package_cpus_list=LEAVING)]),
        (None, [cpus(physical_package_id="-1 -1")]),
        (2, [cpus(physical_package_id=SAME, package_cpus_list=PACKAGES)]),  # POWER, SPARC
        (2, [cpus(physical_package_id=SAME, core_siblings_list=PACKAGES)]),  # before Linux 5.3
        (2, [cpus(physical_package_id=SAME, core_siblings="00000000,00000003 3 c 0000000c")]),
        (2, [cpus(physical_package_id="0 0 0 0", book_id="0 0 1 1", drawer_id="0 0 0 0")]),  # s390
        (3, [cpus(physical_package_id="0 0 0 1", book_id="0 0 0 0", drawer_id="0 0 1 1")]),
        (None, [CLUSTERS, arch("aarch64", "5.15.0-91-generic")]),
        (None, [CLUSTERS, arch("riscv64", "5.19.0")]),
        (None, [CLUSTERS, arch("armv7l", "6.12.1")]),  # takes clusters from MPIDR
        (None, [CLUSTERS, arch("aarch64", "?")]),
        (None, [cpus(physical_package_id="-1 -1", package_cpus_list="0-1 0-1"), arch("aarch64")]),  # lists all
        (None, [cpus(physical_package_id="-1 -1", package_cpus_list="0-1 0-1"), arch("riscv64"), PPTT]),
        (3, [CLUSTERS, arch("aarch64", "5.15.0-91-generic"), PPTT]),
        (3, [CLUSTERS, arch("aarch64", "6.0.0")]),
        (3, [CLUSTERS, arch("aarch64", "10.1")]),
    ],
)
def test_sockets_are_counted_by_their_online_processors(sockets: int | None, parts: list[Recording]) -> None:
    assert measure("sockets", machine(*parts)) == sockets


@pytest.mark.parametrize(
    ("online", "topology", "psutils", "cores"),
    [
        ("0-2", {"core_cpus_list": "0 1 2 3"}, (3, 4), 3),  # psutil also counts the core of the offline processor
        ("0-2", {"physical_package_id": "0 0 0 0"}, (3, 4), None),
        ("0-2", {}, (8, None), None),
        ("0-2", {}, (8, 4), 4),
    ],
)
def test_cores_are_counted_by_their_online_threads(
    online: str, topology: dict[str, str], psutils: tuple[int, int | None], cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: psutils[0] if logical else psutils[1])
    host = machine(cpus(online, **topology))
    assert (measure("threads", host), measure("cores", host)) == (psutils[0], cores)


def test_without_lists_of_processors_their_masks_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sockets of two cores with two threads each. The last thread is offline, but still has topology files."""
    masks = {"thread_siblings": "3 3 c c 30 30 40 80", "core_siblings": "f f f f 70 70 70 80"}
    online = files({f"{CPUS}/cpu{number}/online": f"{int(number < 7)}\n" for number in range(1, 8)})
    recording = merge(cpus(physical_package_id="0 0 0 0 1 1 1 1", **masks), online)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 7 if logical else None)
    assert [measure(name, RecordedHost(recording)) for name in ("cores", "sockets")] == [4, 2]
    with pytest.raises(HostError, match="could not be read"):
        measure("cores", RecordedHost(merge(recording, errors({f"{CPUS}/cpu5/online": "EIO"}))))


def test_what_the_kernel_itself_lists_needs_no_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    """psutil reads /proc/cpuinfo, which may be unreadable."""

    def fail(logical: bool) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", "/proc/cpuinfo")

    monkeypatch.setattr(psutil, "cpu_count", fail)
    host = machine(cpus(physical_package_id="0 0 1 1", core_cpus_list=PACKAGES))
    assert [measure(name, host) for name in ("threads", "cores", "sockets")] == [4, 2, 2]
    for name in ("threads", "cores"):
        with pytest.raises(HostError, match="the processors could not be read: PermissionError"):
            measure(name, machine())


@pytest.mark.parametrize(
    ("hertz", "parts"),
    [
        (5_200_000_000, [frequencies(5_200_000, 3_900_000)]),
        (None, []),
        (None, [frequencies(0)]),
        (3_000_001_000, [cpus("0-1", core_id="0 1"), frequencies(3_000_000, 3_000_001, path="cpu{}/cpufreq")]),
        (3_000_000_000, [cpus("0", core_id="0 1"), frequencies(3_000_000, 3_000_001, path="cpu{}/cpufreq")]),
        (3_000_000_000, [frequencies(3_000_000, 5_200_000), errors({f"{CPUS}/cpufreq/policy1": "EBUSY"})]),
        (3_000_000_000, [frequencies(3_000_000, 5_200_000), policy(1, "affected_cpus", "")]),
        (5_200_000_000, [frequencies(3_000_000, 5_200_000), policy(1, "affected_cpus", "1 2")]),
        (None, [frequencies(3_000_000), errors({f"{CPUS}/cpufreq/policy0/cpuinfo_max_freq": "EBUSY"})]),
    ],
)
def test_the_highest_frequency_is_that_of_the_fastest_online_core(hertz: int | None, parts: list[Recording]) -> None:
    assert measure("max_frequency", machine(*parts)) == hertz


ALL = {"cores": 2, "threads": 2, "sockets": 2, "max_frequency": 3_000_000_000}
TOPOLOGY = f"{CPUS}/cpu1/topology"


@pytest.mark.parametrize(
    ("unknown", "broken", "reason"),
    [
        (["sockets"], errors({f"{TOPOLOGY}/physical_package_id": "EIO"}), "could not be read"),
        (["sockets"], cpus("0-2", core_cpus_list="0 1 1"), "processors changed while they were read"),
        (["sockets"], cpus(physical_package_id="-1 -1", package_cpus_list="1 0,x"), "not a list of processors"),
        (["sockets"], cpus(physical_package_id="-1 -1", core_siblings="3 0x"), "not a mask of processors"),
        (["max_frequency"], errors({f"{CPUS}/cpufreq/policy0/cpuinfo_max_freq": "EIO"}), "could not be read"),
        (["max_frequency"], errors({f"{CPUS}/cpufreq": "EACCES"}), "could not be read"),
        (["max_frequency"], frequencies("<unknown>"), "not a whole number"),
        (["cores"], errors({f"{TOPOLOGY}/core_cpus_list": "EIO"}), "could not be read"),
        (["cores", "sockets"], cpus("0-2", core_cpus_list=". . ."), "processors changed while they were read"),
        (["cores", "sockets"], files({f"{CPUS}/online": "some\n"}), "not a list of processors"),
    ],
)
def test_a_measure_that_could_not_be_read_takes_no_other_along(
    unknown: list[str], broken: Recording, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 2)
    whole = merge(cpus("0-1", physical_package_id="0 1", core_cpus_list="0 1"), frequencies(3_000_000))
    host = machine(whole, broken)
    for name in unknown:
        with pytest.raises(HostError, match=reason):
            measure(name, host)
    others = ALL.keys() - {*unknown}
    assert {name: measure(name, host) for name in others} == {name: ALL[name] for name in others}


def test_this_machines_processors_are_those_of_lscpu() -> None:
    done = subprocess.run(["lscpu", "-p=CPU,CORE,SOCKET"], capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines() if not line.startswith("#")]
    host = LiveHost()
    assert host.processors("threads") == len(rows)
    assert host.processors("cores") == len({(core, socket) for _, core, socket in rows})
    assert host.processors("sockets") in (len({socket for _, _, socket in rows}), None)


LIVE = """
import dataclasses, json
from capacityd.model.errors import HostError
from capacityd.host.live import LiveHost
try:
    print(json.dumps(dataclasses.asdict(LiveHost().memory())))
except HostError as e:
    print(json.dumps(str(e)))
"""
LIVE_PROCESSORS = """
import json
from capacityd.host.cpu_memory import PROCESSOR_MEASURES
from capacityd.host.live import LiveHost
print(json.dumps({name: LiveHost().processors(name) for name in PROCESSOR_MEASURES}))
"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_a_mounted_sys_with_an_offline_processor_is_counted_without_it(tmp_path: Path) -> None:
    """Two sockets of two cores with two threads each. One processor is offline."""
    topology = cpus("0-6", physical_package_id="0 0 0 0 1 1 1 .", core_cpus_list="0-1 0-1 2-3 2-3 4-5 4-5 6 .")
    write_tree(merge(bare(), topology, frequencies(3_000_000, 3_000_003)), str(tmp_path))
    document = json.loads(run_alone('mount --rbind "$1/sys" /sys', LIVE_PROCESSORS, str(tmp_path)))
    assert document == {"cores": 4, "threads": 7, "sockets": 2, "max_frequency": 3_000_003_000}


MEMINFO = "MemTotal: 1000 kB\nMemFree: 500 kB\nBuffers: 1 kB\nCached: 1 kB\nSwapTotal: 300 kB\nSwapFree: 300 kB\n"


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize(
    ("meminfo", "expected"),
    [
        (MEMINFO, {"size": 1_024_000, "swap": 307_200}),  # psutil only warns about the other missing lines
        (MEMINFO.replace("1000", "lots"), "the memory could not be read: ValueError"),
    ],
)
def test_a_mounted_proc_gives_its_sizes_or_an_error(meminfo: str, expected: object, tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(meminfo)
    mounting = 'mount --bind "$1/meminfo" /proc/meminfo; mount --bind /dev/null /proc/vmstat; shift'
    output = json.loads(run_alone(mounting, LIVE, str(tmp_path)))
    assert output.startswith(expected) if isinstance(expected, str) else output == expected, output
