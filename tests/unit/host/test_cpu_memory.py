"""Processors and memory as /sys, /proc and psutil report them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import psutil
import pytest

from capacityd.host.cpu_memory import processors as live_processors
from capacityd.host.live import LiveHost
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
    host = machine(*(files(package(number, socket)) for number, socket in enumerate(of_cpus)))
    assert live_processors(host).sockets == sockets


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
    found = LiveHost().processors()
    assert (found.cores, found.threads) == (None, 8)


def test_this_machines_processors_are_those_of_lscpu() -> None:
    done = subprocess.run(["lscpu", "-p=CPU,CORE,SOCKET"], capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines() if not line.startswith("#")]
    found = LiveHost().processors()
    assert found.threads == len(rows)
    assert found.cores == len({(core, socket) for _, core, socket in rows})
    assert found.sockets in (len({socket for _, _, socket in rows}), None)


MOUNT_SYS = 'mount --rbind "$1/sys" /sys; shift'
LIVE_PROCESSORS = """
import dataclasses, json
from capacityd.host.live import LiveHost
print(json.dumps(dataclasses.asdict(LiveHost().processors())))
"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_a_sys_of_two_sockets_and_an_offline_processor(tmp_path: Path) -> None:
    """Two sockets of two cores with two threads each, of which one processor is offline."""
    cpus = [package(n, str(n // 4), f"{n // 2 * 2}-{n // 2 * 2 + 1}") for n in range(7)] + [package(7, None)]
    policies = {f"{CPUS}/cpufreq/policy{n}/cpuinfo_max_freq": f"{3_000_000 + n}\n" for n in range(4)}
    write_tree(merge(bare(), *map(files, cpus), files({**policies, f"{CPUS}/online": "0-6\n"})), str(tmp_path))
    found = json.loads(run_alone(MOUNT_SYS, LIVE_PROCESSORS, str(tmp_path)))
    assert found == {"cores": 4, "threads": 7, "sockets": 2, "max_frequency": 3_000_003_000}


LIVE_MEMORY = """
import dataclasses, json
from capacityd.model.errors import HostError
from capacityd.host.live import LiveHost
try:
    print(json.dumps(dataclasses.asdict(LiveHost().memory())))
except HostError as e:
    print(json.dumps(str(e)))
"""
MOUNT_PROC = 'mount --bind "$1/meminfo" /proc/meminfo; {more}shift'
MEMINFO = "MemTotal: 1000 kB\nMemFree: 500 kB\nBuffers: 1 kB\nCached: 1 kB\nSwapTotal: 300 kB\nSwapFree: 300 kB\n"


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize(
    ("meminfo", "more", "found"),
    [
        (MEMINFO, "", {"size": 1_024_000, "swap": 307_200}),
        (MEMINFO, "mount --bind /dev/null /proc/vmstat; ", {"size": 1_024_000, "swap": 307_200}),  # psutil only warns
        (MEMINFO.replace("1000", "lots"), "", "the memory could not be read: ValueError"),
        ("", "", "the memory could not be read: KeyError"),
    ],
)
def test_a_proc_with_other_content(meminfo: str, more: str, found: object, tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(meminfo)
    output = json.loads(run_alone(MOUNT_PROC.format(more=more), LIVE_MEMORY, str(tmp_path)))
    assert output.startswith(found) if isinstance(found, str) else output == found, output
