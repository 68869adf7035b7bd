"""The machine's processors and memory, from the kernel's files, and from psutil where its answer is right.

psutil does not report sockets. Where the kernel keeps the topology of offline processors, psutil also counts offline
cores. psutil's highest frequency is not the hardware's, but the limit of power management (scaling_max_freq), averaged
over all processors. psutil reads it together with the present frequency, for which some drivers wake up idle
processors. So this module reads sockets, cores, the highest frequency and the memory from the kernel.
"""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psutil

from capacityd.host.processor_lists import (
    CORE_LISTS,
    CPUS,
    PACKAGE_LISTS,
    PROCESSORS_CHANGED,
    number_of_groups,
    online_folders,
)
from capacityd.model.errors import HostError
from capacityd.model.host import Host, Memory, read_int
from capacityd.model.private import quoted
from capacityd.model.text import printable

_FREQUENCIES = f"{CPUS}/cpufreq"
_LARGEST_MEMORY = 2**58
"""Bytes, 64 times the physical memory that x86-64 can address: a larger size is wrong. lxcfs reports the limit of a
cgroup as swap, and nearly 2**63 if there is no limit."""
_PSUTIL_ERRORS = (psutil.Error, OSError, NotImplementedError, AttributeError, LookupError, ValueError)
"""psutil's own exceptions, and those with which it fails at a file in /proc that has an unexpected form."""
_ACPI_TABLES = "/sys/firmware/acpi/tables"
_DEVICE_TREES = ("aarch64", "arm", "riscv")
"""Architectures whose kernels may read packages from a device tree, as uname -m begins with them: CONFIG_ARM,
CONFIG_ARM64 and CONFIG_RISCV in drivers/base/arch_topology.c."""


def memory(host: Host) -> Memory:
    """The kernel's memory, and its swap. Raises HostError.

    psutil fails at a line of /proc/meminfo that it does not expect, such as one of NULs (lxcfs), or one without a space
    (ShadowCallStack on arm64). So psutil is only used on kernels that leave out the line MemTotal or SwapTotal.
    """
    lines = host.lines("/proc/meminfo")
    size = _meminfo(lines, "MemTotal")
    swap = _meminfo(lines, "SwapTotal")
    if size is None or swap is None:
        with _psutil_errors("the memory"):
            size = psutil.virtual_memory().total
            swap = psutil.swap_memory().total
    if max(size, swap) > _LARGEST_MEMORY:
        raise HostError(f"the kernel reports {size} bytes of memory and {swap} bytes of swap, more than it can manage")
    return Memory(size=size, swap=swap)


def _meminfo(lines: Sequence[str], name: str) -> int | None:
    """A size in /proc/meminfo in bytes; None if it is missing: proc_meminfo(5)."""
    for line in lines:
        if kibibytes := re.fullmatch(f"{name}: *([0-9]+) kB", line):
            return int(kibibytes[1]) * 1024
    return None


def _cores(host: Host) -> int | None:
    """The number of cores with online processors; None if it is unknown."""
    cores = number_of_groups(host, online_folders(host), names=CORE_LISTS)
    if cores is None:
        with _psutil_errors("the processors"):
            cores = psutil.cpu_count(logical=False)
    if not cores:
        return None
    threads = _threads(host)
    if threads and cores > threads:
        return None  # psutil has also counted cores that are offline
    return cores


def _threads(host: Host) -> int | None:
    """The number of online processors from psutil; from /sys if psutil fails."""
    try:
        with _psutil_errors("the processors"):
            threads: int | None = psutil.cpu_count(logical=True)
            return threads
    except HostError:  # psutil could not read /proc/cpuinfo, for example
        if folders := online_folders(host):
            return len(folders)
        raise


def _sockets(host: Host) -> int | None:
    """The number of packages with online processors; None if the kernel does not show the packages.

    A package whose id the kernel does not know has the id -1. On s390, packages in different books may have the same
    id, and so may books in different drawers.
    """
    folders = online_folders(host)
    ids = [host.text(f"{folder}/topology/physical_package_id") for folder in folders]
    if not any(ids):
        return None
    if None in ids:
        raise HostError(PROCESSORS_CHANGED)
    has_device_trees = host.arch().startswith(_DEVICE_TREES)
    if "-1" in ids:
        # On architectures with device trees, the kernel then lists all processors as one package
        # (update_siblings_masks in drivers/base/arch_topology.c). POWER and SPARC still list each package's processors.
        return None if has_device_trees else _listed_packages(host, folders)
    if has_device_trees and not _ids_are_of_packages(host):
        return None
    drawers = [host.text(f"{folder}/topology/drawer_id") for folder in folders]  # of each processor; None: no drawers
    books = [host.text(f"{folder}/topology/book_id") for folder in folders]
    return len(set(zip(drawers, books, ids, strict=True)))


def _listed_packages(host: Host, folders: Sequence[str]) -> int | None:
    """The number of packages according to PACKAGE_LISTS; None if the lists are missing, or are only those of cores.

    Older kernels on POWER list a core as the package if the hypervisor does not name the chips.
    """
    packages = number_of_groups(host, folders, names=PACKAGE_LISTS)
    if packages == 1:
        return 1  # also if the list is that of a core: a single core is in a single package
    return None if packages == number_of_groups(host, folders, names=CORE_LISTS) else packages


def _ids_are_of_packages(host: Host) -> bool:
    """Whether physical_package_id is the id of a package, not of a cluster, on an architecture with device trees.

    32-bit ARM takes the id from the processor's register MPIDR, where it is a cluster (arch/arm/kernel/topology.c).
    Before Linux 6.0, the other architectures take it from the clusters of a device tree ("arch_topology: Don't set
    cluster identifier as physical package identifier"). ACPI's table PPTT has packages; only root can read the table,
    but everybody can see that it exists.
    """
    major_version = re.match("[0-9]+", host.text("/proc/sys/kernel/osrelease") or "")
    is_linux_6_or_newer = major_version is not None and int(major_version[0]) >= 6
    is_32_bit_arm = host.arch().startswith("arm")  # 64-bit ARM is aarch64
    if is_linux_6_or_newer and not is_32_bit_arm:
        return True
    return "PPTT" in host.listdir(_ACPI_TABLES)


def _max_frequency(host: Host) -> int | None:
    """The highest frequency of the fastest processor in Hz, without processors that are offline.

    Older kernels have cpuN/cpufreq instead of cpufreq/policyN.
    """
    policies = [f"{_FREQUENCIES}/{name}" for name in host.listdir(_FREQUENCIES) if name.startswith("policy")]
    policies = policies or [f"{folder}/cpufreq" for folder in online_folders(host)]
    frequencies = [_policy_kilohertz(host, policy) for policy in policies]
    return max((kilohertz * 1000 for kilohertz in frequencies if kilohertz), default=None)


def _policy_kilohertz(host: Host, policy: str) -> int | None:
    """The highest frequency of a cpufreq policy in kHz; None if the policy has none, or is inactive.

    The files of a policy stay while its processors are offline. Then reading them fails with EBUSY (show() in
    drivers/cpufreq/cpufreq.c); on kernels without this error, affected_cpus is empty.
    """
    try:
        if host.text(f"{policy}/affected_cpus") == "":
            return None
        return read_int(host, f"{policy}/cpuinfo_max_freq")
    except HostError as e:
        if e.errno != errno.EBUSY:
            raise
        return None


PROCESSOR_MEASURES: Mapping[str, Callable[[Host], int | None]] = {
    "cores": _cores,
    "threads": _threads,
    "sockets": _sockets,
    "max_frequency": _max_frequency,
}
"""A measure of the online processors -> its reader: None if the machine does not report it. Raises HostError."""


@contextmanager
def _psutil_errors(subject: str) -> Iterator[None]:
    """Turns psutil's exceptions into HostErrors. subject: the data being read, for the message."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about numbers that are not used here
            yield
    except _PSUTIL_ERRORS as e:
        message = f"{subject} could not be read: {type(e).__name__}"
        code = getattr(e, "errno", None)  # psutil's own exceptions have none
        # The exception may quote a file, so its text is only a detail: no log contains a detail.
        raise HostError(message, code, detail=quoted(printable(str(e)))) from e
