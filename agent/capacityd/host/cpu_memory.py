"""The machine's processors and memory, and what a process takes of them, as psutil reports them.

psutil has no number of sockets, and its highest frequency is not the hardware's: it is the limit that power management
has set (scaling_max_freq), averaged over all processors, and it comes with the present frequency, for which some
drivers wake idle processors up. Both are read from the kernel here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from capacityd.model.errors import HostError
from capacityd.model.host import Host, Memory, Processors, read_int

_CPUS = "/sys/devices/system/cpu"
_FREQUENCIES = f"{_CPUS}/cpufreq"
_CPU = re.compile("cpu[0-9]+")
_ERRORS = (psutil.Error, OSError, NotImplementedError, AttributeError, LookupError, ValueError)


def processors(host: Host) -> Processors:
    """The processors that are online. Raises HostError."""
    with _psutil_errors("the processors"):
        threads, cores = psutil.cpu_count(logical=True), psutil.cpu_count(logical=False)
    return Processors(cores, threads, _sockets(host), _max_frequency(host))


def memory() -> Memory:
    """The memory that the kernel has, and its swap. Raises HostError."""
    with _psutil_errors("the memory"):
        return Memory(psutil.virtual_memory().total, psutil.swap_memory().total)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process takes of the machine."""

    memory: int
    """Resident memory in bytes."""
    cpu: float
    """Processor time in seconds, with that of its children that have ended."""


def usage(pid: int) -> Usage:
    """What a process takes. Raises HostError, also if there is no such process."""
    with _psutil_errors(f"the memory and processor time of process {pid}"):
        process = psutil.Process(pid)
        times = process.cpu_times()
        cpu = times.user + times.system + times.children_user + times.children_system
        return Usage(process.memory_info().rss, round(cpu, 2))


@contextmanager
def _psutil_errors(what: str) -> Iterator[None]:
    """Turns what psutil raises into HostError. what: what is read, as the message names it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of numbers that are not used here
            yield
    except _ERRORS as e:
        raise HostError(f"{what} could not be read: {type(e).__name__}: {e}", getattr(e, "errno", None)) from e


def _sockets(host: Host) -> int | None:
    """How many packages the online processors are in; None where the kernel does not report it. One that is offline has
    no such file."""
    found = {
        host.text(f"{_CPUS}/{name}/topology/physical_package_id")
        for name in host.listdir(_CPUS)
        if _CPU.fullmatch(name)
    }
    packages = {package for package in found if package is not None}
    return len(packages) if packages and all(map(str.isdigit, packages)) else None  # -1: some kernels for ARM


def _max_frequency(host: Host) -> int | None:
    """The highest frequency of the fastest processor in Hz; None where no driver controls it, as in most virtual
    machines."""
    found = [read_int(host, f"{_FREQUENCIES}/{name}/cpuinfo_max_freq") for name in host.listdir(_FREQUENCIES)]
    return max((kilohertz * 1000 for kilohertz in found if kilohertz), default=None)
