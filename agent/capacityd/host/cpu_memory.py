"""The machine's processors and memory, from psutil.

psutil does not report sockets. Where the kernel keeps the topology of offline processors, psutil also counts offline
cores. Its highest frequency is not the hardware's, but the limit of power management (scaling_max_freq), averaged over
all processors. psutil reads it together with the present frequency, for which some drivers wake up idle processors. So
this module reads sockets, cores and the highest frequency from the kernel.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil

from capacityd.model.errors import HostError
from capacityd.model.host import Host, Memory, Processors, read_int

_CPUS = "/sys/devices/system/cpu"
_FREQUENCIES = f"{_CPUS}/cpufreq"
_CPU = re.compile("cpu[0-9]+")
_ERRORS = (psutil.Error, OSError, NotImplementedError, AttributeError, LookupError, ValueError)


def processors(host: Host) -> Processors:
    """The online processors. Raises HostError."""
    folders = _online(host)
    cores = _groups(host, folders, ("core_cpus_list", "thread_siblings_list", "thread_siblings"))
    try:
        with _psutil_errors("the processors"):
            threads = psutil.cpu_count(logical=True)
            cores = cores or psutil.cpu_count(logical=False)
    except HostError:  # of /proc/cpuinfo, for example
        if not cores:
            raise
        threads = len(folders)
    if cores and threads and cores > threads:
        cores = None
    return Processors(cores, threads, _sockets(host, folders), _max_frequency(host, folders))


def memory() -> Memory:
    """The kernel's memory, and its swap. Raises HostError."""
    with _psutil_errors("the memory"):
        return Memory(psutil.virtual_memory().total, psutil.swap_memory().total)


@contextmanager
def _psutil_errors(subject: str) -> Iterator[None]:
    """Turns psutil's exceptions into HostErrors. subject: the data being read, for the message."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about numbers that are not used here
            yield
    except _ERRORS as e:
        raise HostError(f"{subject} could not be read: {type(e).__name__}: {e}", getattr(e, "errno", None)) from e


def _online(host: Host) -> list[str]:
    """The folders in /sys of the online processors; of all processors if the kernel can't take any offline.

    Kernels without the list have a file for each processor that can be taken offline.
    """
    names = [name for name in host.listdir(_CPUS) if _CPU.fullmatch(name)]
    online = host.text(f"{_CPUS}/online")
    if online is not None:
        numbers = _numbers(online)
        names = [name for name in names if int(name.removeprefix("cpu")) in numbers]
    else:
        names = [name for name in names if host.text(f"{_CPUS}/{name}/online") != "0"]
    return [f"{_CPUS}/{name}" for name in names]


def _numbers(text: str) -> set[int]:
    """The numbers in a list such as 0-3,8. Raises HostError."""
    try:
        ends = [part.split("-") for part in text.split(",") if part]
        return {number for end in ends for number in range(int(end[0]), int(end[-1]) + 1)}
    except ValueError as e:
        raise HostError(f'{_CPUS}/online holds "{text[:60]}", not a list of processors') from e


def _groups(host: Host, folders: Sequence[str], names: Sequence[str]) -> int | None:
    """The number of groups that the processors form, each with a list of its members; None if there are no such lists.

    names: the possible names of the list's file, newest first (Documentation/admin-guide/cputopology.rst). A mask of
    the members is accepted as well, because the oldest kernels provide only a mask.
    """
    member_lists = []
    for folder in folders:
        texts = (host.text(f"{folder}/topology/{name}") for name in names)
        member_lists.append(next(filter(None, texts), None))
    if not any(member_lists):
        return None
    if not all(member_lists):
        raise HostError("processors changed while they were read")
    return len(set(member_lists))


def _sockets(host: Host, folders: Sequence[str]) -> int | None:
    """The number of packages with online processors; None if the kernel does not report it.

    An id may be -1 (POWER, RISC-V, SPARC), or the same in each book (s390), but each package has a different list of
    processors. Without ids, ARM's kernels list all processors as one package.
    """
    ids = {host.text(f"{folder}/topology/physical_package_id") for folder in folders} - {None}
    if not ids:
        return None
    if ids == {"-1"} and host.arch().startswith(("aarch64", "arm")):
        return None
    packages = _groups(host, folders, ("package_cpus_list", "core_siblings_list", "core_siblings"))
    if packages is None and "-1" not in ids:
        return len(ids)
    return packages


def _max_frequency(host: Host, folders: Sequence[str]) -> int | None:
    """The highest frequency of the fastest processor in Hz; None without a driver for it (most virtual machines).

    Older kernels have cpuN/cpufreq instead of cpufreq/policyN.
    """
    policies = [f"{_FREQUENCIES}/{name}" for name in host.listdir(_FREQUENCIES) if name.startswith("policy")]
    frequencies = [read_int(host, f"{p}/cpuinfo_max_freq") for p in policies or [f"{f}/cpufreq" for f in folders]]
    return max((kilohertz * 1000 for kilohertz in frequencies if kilohertz), default=None)
