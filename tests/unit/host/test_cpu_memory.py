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
from capacityd.model.errors import HostError
from capacityd.model.host import Host
from tests.support.forked import can_be_alone, run_alone
from tests.support.machines import Recording, bare, errors, files, machine, merge, write_tree

CPUS = "/sys/devices/system/cpu"
TABLES = "/sys/firmware/acpi/tables"
PPTT = files({f"{TABLES}/PPTT": ""})


def measure(name: str, host: Host) -> int | None:
    """A measure of the processors, read as on a live machine."""
    return PROCESSOR_MEASURES[name](host)


def cpus(online: str = "0-31", **topology: str) -> Recording:
    """Processors with files in the folder topology.

    topology: for each file, its content for each processor. "." stands for no file.
    """
    contents = {f"{CPUS}/online": f"{online}\n"}
    for name, texts in topology.items():
        for number, text in enumerate(texts.split()):
            contents[f"{CPUS}/cpu{number}/uevent"] = ""
            if text != ".":
                contents[f"{CPUS}/cpu{number}/topology/{name}"] = f"{text}\n"
    return files(contents)


def frequencies(*kilohertz: int | str) -> Recording:
    """The frequency limit of each processor's hardware, and a lower limit that power management has set."""
    folders = {f"{CPUS}/cpufreq/policy{number}": text for number, text in enumerate(kilohertz)}
    limits = {f"{folder}/scaling_max_freq": "800000\n" for folder in folders}
    return files(limits | {f"{folder}/cpuinfo_max_freq": f"{text}\n" for folder, text in folders.items()})


def arch(name: str) -> Recording:
    """An architecture, as uname -m prints it."""
    return {"arch": name, "folders": [TABLES]}


def cpu_map(*names: str) -> Recording:
    """A device tree whose map of processors has these nodes."""
    return files({f"/proc/device-tree/cpus/cpu-map/{name}/name": f"{name}\0" for name in names})


def in_nodes(*nodes: int) -> Recording:
    """The NUMA node of each processor."""
    return {"links": {f"{CPUS}/cpu{n}/node{node}": f"../../node/node{node}" for n, node in enumerate(nodes)}}


def policy(number: int, name: str, text: str) -> Recording:
    """A file of a cpufreq policy."""
    return files({f"{CPUS}/cpufreq/policy{number}/{name}": f"{text}\n"})


CLUSTERS = cpus(physical_package_id="0 1 2", core_cpus_list="0 1 2")  # a machine in the tests of util-linux
IDS = {"core_id": "0 1 2 3", "physical_package_id": "0 0 0 0"}
WITHOUT_IDS = {"core_id": "-1 -1 -1 -1", "physical_package_id": "0 0 0 0"}
EBUSY = errors({f"{CPUS}/cpufreq/policy1/cpuinfo_max_freq": "EBUSY"})


@pytest.mark.parametrize(
    ("name", "value", "parts"),  # a measure, its value (None: the machine does not report it), and the machine's files
    [
        ("sockets", 1, [cpus(physical_package_id="0 0")]),
        ("sockets", 2, [cpus(physical_package_id="36 4096 36 4096")]),
        ("sockets", 1, [cpus("0-1", physical_package_id="0 0 1 1")]),  # without offline processors
        ("sockets", None, []),
        ("sockets", None, [cpus(physical_package_id="-1 -1")]),
        ("sockets", 2, [cpus(physical_package_id="0 0 0 0", book_id="0 0 1 1", drawer_id="0 0 0 0")]),  # s390
        ("sockets", 3, [cpus(physical_package_id="0 0 0 1", book_id="0 0 0 0", drawer_id="0 0 1 1")]),
        # Nothing describes the packages, so the ids are NUMA nodes, clusters, or the register MPIDR.
        *(("sockets", None, [CLUSTERS, arch(name)]) for name in ("aarch64", "armv7l", "riscv64")),
        ("sockets", None, [cpus(physical_package_id="-1 -1"), arch("riscv64"), PPTT]),
        ("sockets", 3, [CLUSTERS, arch("aarch64"), PPTT]),
        ("sockets", 1, [CLUSTERS, arch("aarch64"), cpu_map("cluster0", "cluster1"), in_nodes(0, 0, 0)]),
        ("sockets", None, [CLUSTERS, arch("aarch64"), cpu_map("cluster0", "cluster1"), in_nodes(0, 1, 1)]),
        ("sockets", 1, [CLUSTERS, arch("riscv64"), cpu_map("socket0")]),
        ("sockets", 2, [CLUSTERS, arch("riscv64"), cpu_map("socket0", "socket1"), in_nodes(0, 0, 1)]),
        ("cores", 3, [cpus("0-2", core_cpus_list="0 1 2 3")]),  # without the core of the offline processor
        ("cores", None, [cpus("0-2", physical_package_id="0 0 0 0")]),
        ("cores", 2, [cpus(core_cpus_list="0-3 0-1 2-3 2-3")]),  # processor 2 is going offline, and comes last
        # RISC-V before Linux 6.1: the lists have all processors, or none.
        ("cores", 4, [cpus(**IDS, core_cpus_list="0 1 2 3"), arch("riscv64")]),
        ("cores", None, [cpus(**WITHOUT_IDS, core_cpus_list="0-3 0-3 0-3 0-3"), arch("riscv64")]),
        ("cores", None, [cpus(physical_package_id="-1 -1", core_id="0 0", core_cpus_list="0-1 0-1"), arch("riscv64")]),
        ("cores", None, [cpus(**IDS, core_cpus_list=". . . ."), arch("riscv64")]),
        ("cores", 2, [cpus(physical_package_id="-1 -1", core_id="0 8", core_cpus_list="0 1"), arch("ppc64le")]),
        ("max_frequency", 5_200_000_000, [frequencies(5_200_000, 3_900_000)]),
        ("max_frequency", 3_000_000_000, [frequencies(3_000_000, 5_200_000), EBUSY]),  # of an offline core
        ("max_frequency", None, [frequencies(0)]),
        ("max_frequency", None, []),
    ],
)
def test_each_measure_is_that_of_the_online_processors(name: str, value: int | None, parts: list[Recording]) -> None:
    assert measure(name, machine(*parts)) == value


def test_processors_that_the_kernel_lists_need_no_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    """psutil reads /proc/cpuinfo, which may be unreadable."""

    def fail(logical: bool) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", "/proc/cpuinfo")

    monkeypatch.setattr(psutil, "cpu_count", fail)
    host = machine(cpus(physical_package_id="0 0 1 1", core_cpus_list="0-1 0-1 2-3 2-3"))
    assert [measure(name, host) for name in ("threads", "cores", "sockets")] == [4, 2, 2]
    with pytest.raises(HostError, match="the processors could not be read: PermissionError"):
        measure("threads", machine())


VALUES = {"cores": 2, "threads": 2, "sockets": 2, "max_frequency": 3_000_000_000}
TOPOLOGY = f"{CPUS}/cpu1/topology"


@pytest.mark.parametrize(
    ("unknown", "broken", "reason"),
    [
        (["sockets"], errors({f"{TOPOLOGY}/physical_package_id": "EIO"}), "could not be read"),
        (["sockets"], cpus("0-2", core_cpus_list="0 1 1"), "processors changed while they were read"),
        (["cores"], cpus("0-1", core_cpus_list="1 0,x"), "not a list of processors"),
        (["max_frequency"], errors({f"{CPUS}/cpufreq/policy0/cpuinfo_max_freq": "EIO"}), "could not be read"),
        (["max_frequency"], errors({f"{CPUS}/cpufreq": "EACCES"}), "could not be read"),
        (["max_frequency"], frequencies("<unknown>"), "not a whole number"),
        (["cores"], errors({f"{TOPOLOGY}/core_cpus_list": "EIO"}), "could not be read"),
        (["cores", "sockets"], cpus("0-2", core_cpus_list=". . ."), "processors changed while they were read"),
        (["cores", "sockets"], files({f"{CPUS}/online": "some\n"}), "not a list of processors"),
        (["cores", "sockets"], files({f"{CPUS}/online": "0,\n"}), "not a list of processors"),
    ],
)
def test_an_unreadable_measure_makes_no_other_measure_unknown(
    unknown: list[str], broken: Recording, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 2)
    intact = merge(cpus("0-1", physical_package_id="0 1", core_cpus_list="0 1"), frequencies(3_000_000))
    host = machine(intact, broken)
    for name in unknown:
        with pytest.raises(HostError, match=reason):
            measure(name, host)
    others = VALUES.keys() - {*unknown}
    assert {name: measure(name, host) for name in others} == {name: VALUES[name] for name in others}


def test_this_machines_processors_are_counted_as_by_lscpu() -> None:
    done = subprocess.run(["lscpu", "-p=CPU,CORE,SOCKET"], capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines() if not line.startswith("#")]
    host = LiveHost()
    assert host.processors("threads") == len(rows)
    assert host.processors("cores") == len({(core, socket) for _, core, socket in rows})
    assert host.processors("sockets") in (len({socket for _, _, socket in rows}), None)


LIVE_PROCESSORS = """
import json
from capacityd.host.cpu_memory import PROCESSOR_MEASURES
from capacityd.host.live import LiveHost
print(json.dumps({name: LiveHost().processors(name) for name in PROCESSOR_MEASURES}))
"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_an_offline_processor_in_a_mounted_sys_is_not_counted(tmp_path: Path) -> None:
    """Two sockets of two cores with two threads each. One processor is offline."""
    topology = cpus("0-6", physical_package_id="0 0 0 0 1 1 1 .", core_cpus_list="0-1 0-1 2-3 2-3 4-5 4-5 6 .")
    write_tree(merge(bare(), topology, frequencies(3_000_000, 3_000_003)), str(tmp_path))
    document = json.loads(run_alone('mount --rbind "$1/sys" /sys', LIVE_PROCESSORS, str(tmp_path)))
    assert document == {"cores": 4, "threads": 7, "sockets": 2, "max_frequency": 3_000_003_000}
