"""Processors and memory of machines that people reported to similar tools. tests/reports.md lists the reports."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from tests.support.forked import can_be_alone, run_alone
from tests.support.machines import Recording, errors, machine, merge
from tests.unit.host.test_cpu_memory import CPUS, PPTT, arch, cpus, frequencies, measure, policy


def repeat(text: str, times: int) -> str:
    return " ".join([text] * times)


# For each processor, the processors of its core.
EACH_ALONE = "0 1 2 3"
HYBRID = "0-1 0-1 2-3 2-3 4 5"  # two cores with two threads each, and two with one
POWER = f"{repeat('0-3', 4)} {repeat('4-7', 4)}"  # four threads a core
SOME_ONLINE = f"{repeat('0-1', 4)} {repeat('4-5', 4)}"
VIRTUAL = " ".join(map(str, range(12)))
OFFLINE = errors({f"{CPUS}/cpufreq/policy{number}/cpuinfo_max_freq": "EBUSY" for number in (1, 3)})
ARM = cpus("0-3", physical_package_id="0 0 0 0", core_cpus_list=EACH_ALONE, cluster_id="0 0 1 1")
CLUSTER_OFFLINE = cpus("0,4-5", core_cpus_list="0 . . . 4 5", physical_package_id="0 . . . 1 1")
ALL_IN_ONE_CORE = cpus(
    "0-3", physical_package_id=repeat("-1", 4), core_cpus_list=repeat("0-3", 4), core_id=repeat("-1", 4)
)

PROCESSORS = {  # the expected counts, and the machine's files
    "each core of a hybrid processor is listed as a package": (
        {"sockets": 1, "cores": 4},
        cpus("0-3", physical_package_id="0 0 0 0", package_cpus_list=EACH_ALONE, core_cpus_list=EACH_ALONE),
    ),
    "four cores of two kinds, of which only one kind has two threads": (
        {"sockets": 1, "cores": 4, "threads": 6},
        cpus("0-5", physical_package_id="0 0 0 0 0 0", core_cpus_list=HYBRID),
    ),
    "a hypervisor does not name the chips": (
        {"sockets": None, "cores": 2, "threads": 8},
        merge(cpus("0-7", physical_package_id=repeat("-1", 8), core_cpus_list=POWER), arch("ppc64le")),
    ),
    "two of four threads of each core are online": (
        {"sockets": 2, "cores": 2, "threads": 4},
        cpus("0-1,4-5", physical_package_id=f"{repeat('0', 4)} {repeat('8', 4)}", core_cpus_list=SOME_ONLINE),
    ),
    "offline processors keep the files of their frequency": (
        {"threads": 2, "max_frequency": 3_000_002_000},
        merge(cpus("0,2", core_id=EACH_ALONE), frequencies(3_000_000, 9_000_000, 3_000_002, 9_000_000), OFFLINE),
    ),
    "lxcfs shows the host's folders of processors, but its own list of online processors": (
        {"sockets": 1, "cores": 3, "threads": 3},
        cpus("2,5,7", physical_package_id=repeat("0", 8), core_cpus_list="0-1 0-1 2-3 2-3 4-5 4-5 6-7 6-7"),
    ),
    "two kinds of cores on ARM, each in clusters of its own, and a firmware that knows the package": (
        {"sockets": 1, "cores": 4},
        merge(ARM, arch("aarch64"), PPTT),
    ),
    "every processor of the first cluster but one is offline": (
        {"cores": 3, "threads": 3, "max_frequency": 2_201_600_000},
        merge(CLUSTER_OFFLINE, frequencies(2_201_600, 2_201_600)),
    ),
    "a virtual machine with a socket for each processor": (
        {"sockets": 12, "cores": 12, "threads": 12},
        cpus("0-11", physical_package_id=VIRTUAL, core_cpus_list=VIRTUAL),
    ),
    "offline processors have no folder with their topology": (
        {"sockets": 1, "cores": 2, "threads": 2},
        cpus("0-1", physical_package_id="0 0 . .", core_cpus_list="0 1 . ."),
    ),
    "each socket numbers its cores from 0": (
        {"sockets": 2, "cores": 4},
        cpus("0-3", physical_package_id="0 0 1 1", core_cpus_list=EACH_ALONE, core_id="0 1 0 1"),
    ),
    "two sockets of a virtual machine in one NUMA node": (
        {"sockets": 2, "cores": 2, "threads": 4},
        cpus("0-3", physical_package_id="12 12 14 14", core_cpus_list="0-1 0-1 2-3 2-3"),
    ),
    "a Raspberry Pi whose kernel can't take processors offline": (
        {"sockets": None, "cores": 4, "threads": 4},
        merge(cpus("0-3", core_cpus_list=EACH_ALONE), arch("aarch64")),
    ),
    "one chip with two NUMA nodes: the kernel does not read PPTT, and its ids are those of the nodes": (
        {"sockets": None, "cores": 4},
        merge(cpus("0-3", physical_package_id="0 0 1 1", core_cpus_list=EACH_ALONE), arch("riscv64"), PPTT),
    ),
    "the kernel knows no topology of the board, and lists all processors as one core": (
        {"sockets": None, "cores": None, "threads": 4},
        merge(ALL_IN_ONE_CORE, arch("riscv64")),
    ),
    "the highest frequency includes turbo; the nominal one has a file of its own": (
        {"max_frequency": 4_000_000_000},
        merge(frequencies(4_000_000), policy(0, "base_frequency", "3000000")),
    ),
}


@pytest.mark.parametrize(("wanted", "recording"), PROCESSORS.values(), ids=PROCESSORS)
def test_reported_processors_are_counted(
    wanted: dict[str, int | None], recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(logical: bool) -> int:
        raise NotImplementedError  # psutil knows only this machine

    monkeypatch.setattr(psutil, "cpu_count", fail)
    assert {name: measure(name, machine(recording)) for name in wanted} == wanted


LIVE = """
import dataclasses, json, sys
from capacityd.host.live import LiveHost
from capacityd.model.errors import HostError
for content in json.loads(sys.argv[1]):
    open(sys.argv[2], "w").write(content)
    try:
        print(json.dumps(list(dataclasses.astuple(LiveHost().memory()))))
    except HostError as e:
        print(json.dumps(str(e)))
"""
USUAL = "MemTotal:  1000 kB\nMemFree:  500 kB\nBuffers:  1 kB\nCached:  1 kB\nSwapTotal:  300 kB\nSwapFree:  300 kB\n"


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_reported_memory_is_read(tmp_path: Path) -> None:
    """One process reads several versions of /proc/meminfo. Before the last one, a balloon has grown."""
    contents = {
        "NULs at the end": USUAL + "\0" * 3000,
        "a name without a space": USUAL + "ShadowCallStack:10373888 kB\n",
        "a value without a space": USUAL.replace("SwapFree:  300", "SwapFree:18014398503714728"),
        "less than no swap free": USUAL.replace("SwapFree:  300", "SwapFree:       18446744073709551488"),  # -128
        "an empty line": USUAL.replace("Buffers", "\nBuffers"),
        "four lines": "".join(line for line in USUAL.splitlines(keepends=True) if line.startswith(("Mem", "Swap"))),
        "a cgroup without a limit": USUAL.replace("SwapTotal:  300", "SwapTotal:      9007199246672720"),
        "a limit of 64 bits": USUAL.replace("SwapTotal:  300", "SwapTotal: 18014398509481984"),
        "no number": USUAL.replace("1000", "lots"),
        "a balloon": USUAL.replace("1000", "400"),
    }
    (tmp_path / "meminfo").write_text("")
    output = run_alone(
        'mount --bind "$2" /proc/meminfo', LIVE, json.dumps([*contents.values()]), str(tmp_path / "meminfo")
    )
    sizes = dict(zip(contents, map(json.loads, output.splitlines()), strict=True))
    assert "bytes of swap, more than it can manage" in sizes.pop("a cgroup without a limit")
    assert "bytes of swap, more than it can manage" in sizes.pop("a limit of 64 bits")
    assert sizes.pop("no number") == "/proc/meminfo has no line MemTotal"
    assert sizes.pop("a balloon") == [409_600, 307_200]
    assert all(size == [1_024_000, 307_200] for size in sizes.values()), sizes
