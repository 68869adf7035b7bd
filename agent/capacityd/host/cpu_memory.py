"""The machine's processors and memory, from psutil.

psutil does not report sockets. Where the kernel keeps the topology of offline processors, psutil also counts offline
cores. Its highest frequency is not the hardware's, but the limit of power management (scaling_max_freq), averaged over
all processors. psutil reads it together with the present frequency, for which some drivers wake up idle processors. So
this module reads sockets, cores, the highest frequency and the memory from the kernel.
"""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psutil

from capacityd.model.errors import HostError
from capacityd.model.host import Host, Memory, read_int
from capacityd.model.private import length_text, quoted
from capacityd.model.text import printable

_CPUS = "/sys/devices/system/cpu"
_FREQUENCIES = f"{_CPUS}/cpufreq"
_LARGEST_MEMORY = 2**58
"""Bytes, 64 times the physical memory that x86-64 can address. lxcfs reports the limit of a cgroup as swap, and nearly
2**63 if there is no limit."""
_CPU = re.compile("cpu[0-9]+")
_PSUTIL_ERRORS = (psutil.Error, OSError, NotImplementedError, AttributeError, LookupError, ValueError)
"""psutil's own exceptions, and those with which it fails at a file in /proc that has an unexpected form."""
_CORE_LISTS = ("core_cpus_list", "thread_siblings_list", "thread_siblings")
"""Names of the file that lists a core's threads, the newest first: Documentation/admin-guide/cputopology.rst. The
oldest kernels have only files with a mask."""
_PACKAGE_LISTS = ("package_cpus_list", "core_siblings_list", "core_siblings")
"""Names of the file that lists a package's threads, the newest first."""
_CHANGED = "processors changed while they were read"
_ACPI_TABLES = "/sys/firmware/acpi/tables"
_DEVICE_TREES = ("aarch64", "arm", "riscv")
"""Architectures whose kernels may read packages from a device tree, as uname -m begins with them: CONFIG_ARM,
CONFIG_ARM64 and CONFIG_RISCV in drivers/base/arch_topology.c."""


def memory(host: Host) -> Memory:
    """The kernel's memory, and its swap. Raises HostError.

    psutil fails at a line of /proc/meminfo that it does not expect, such as one of NULs (lxcfs), or one without a space
    (ShadowCallStack on arm64), so it is only used on kernels that leave out one of the two lines.
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
    cores = _number_of_groups(host, _online_folders(host), names=_CORE_LISTS)
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
        folders = _online_folders(host)
        if not folders:
            raise
        return len(folders)


def _sockets(host: Host) -> int | None:
    """The number of packages with online processors; None if the kernel does not show the packages.

    Packages have ids. On s390, packages in different books may have the same id, and books in different drawers as
    well. The id -1 means an unknown id. On POWER and SPARC, the kernel then still lists each package's processors.
    """
    folders = _online_folders(host)
    ids = [host.text(f"{folder}/topology/physical_package_id") for folder in folders]
    if not any(ids):
        return None
    if None in ids:
        raise HostError(_CHANGED)
    has_ids = "-1" not in ids
    if host.arch().startswith(_DEVICE_TREES):
        if not has_ids:
            return None  # without ids, these kernels list all processors as one package (update_siblings_masks)
        if not _ids_are_of_packages(host):
            return None
    if not has_ids:
        packages = _number_of_groups(host, folders, names=_PACKAGE_LISTS)
        # Older kernels on POWER list only a core as the package if the hypervisor does not name the chips. A single
        # core is in a single package.
        lists_are_of_cores = packages != 1 and packages == _number_of_groups(host, folders, names=_CORE_LISTS)
        return None if lists_are_of_cores else packages
    drawers = [host.text(f"{folder}/topology/drawer_id") for folder in folders]  # of each processor; None: no drawers
    books = [host.text(f"{folder}/topology/book_id") for folder in folders]
    return len({*zip(drawers, books, ids, strict=True)})


def _ids_are_of_packages(host: Host) -> bool:
    """Whether physical_package_id is the id of a package, not of a cluster, on an architecture with device trees.

    32-bit ARM takes the id from the processor's register MPIDR, where it is a cluster (arch/arm/kernel/topology.c).
    Before Linux 6.0, the other architectures take the clusters of a device tree ("arch_topology: Don't set cluster
    identifier as physical package identifier"). ACPI's table PPTT has packages; only root can read it, but everybody
    can see that it exists.
    """
    major_version = re.match("[0-9]+", host.text("/proc/sys/kernel/osrelease") or "")
    is_linux_6 = major_version is not None and int(major_version[0]) >= 6
    if is_linux_6 and not host.arch().startswith("arm"):
        return True
    return "PPTT" in host.listdir(_ACPI_TABLES)


def _max_frequency(host: Host) -> int | None:
    """The highest frequency of the fastest processor in Hz, without processors that are offline.

    Older kernels have cpuN/cpufreq instead of cpufreq/policyN.
    """
    policies = [f"{_FREQUENCIES}/{name}" for name in host.listdir(_FREQUENCIES) if name.startswith("policy")]
    if not policies:
        policies = [f"{folder}/cpufreq" for folder in _online_folders(host)]
    frequencies = [_policy_kilohertz(host, policy) for policy in policies]
    return max((kilohertz * 1000 for kilohertz in frequencies if kilohertz), default=None)


def _policy_kilohertz(host: Host, policy: str) -> int | None:
    """The highest frequency of a cpufreq policy in kHz; None if the policy has none, or is inactive.

    The files of a policy stay while its processors are offline. Then they answer EBUSY (show() in
    drivers/cpufreq/cpufreq.c), and affected_cpus is empty on kernels that still answer.
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
"""A measure of the online processors -> its reader, which returns None if the machine does not report the measure, and
raises HostError."""


@contextmanager
def _psutil_errors(subject: str) -> Iterator[None]:
    """Turns psutil's exceptions into HostErrors. subject: the data being read, for the message."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about numbers that are not used here
            yield
    except _PSUTIL_ERRORS as e:
        # The exception may quote a file. Logs contain the message, but no detail.
        message = f"{subject} could not be read: {type(e).__name__}"
        code = getattr(e, "errno", None)  # psutil's own exceptions have none
        raise HostError(message, code, detail=quoted(printable(str(e)))) from e


def _online_folders(host: Host) -> list[str]:
    """The folders in /sys of the online processors; of all processors if the kernel can't take any offline.

    Kernels without the list of online processors have a file for each processor that can be taken offline.
    """
    names = [name for name in host.listdir(_CPUS) if _CPU.fullmatch(name)]
    online = host.text(f"{_CPUS}/online")
    if online is not None:
        numbers = _numbers_in_list(online)
        names = [name for name in names if int(name.removeprefix("cpu")) in numbers]
    else:
        names = [name for name in names if host.text(f"{_CPUS}/{name}/online") != "0"]
    return [f"{_CPUS}/{name}" for name in names]


def _numbers_in_list(text: str) -> set[int]:
    """The numbers in a list such as 0-3,8. Raises HostError."""
    try:
        numbers: set[int] = set()
        for part in text.split(","):
            if part:
                bounds = part.split("-")  # the first and the last number, or only one
                numbers.update(range(int(bounds[0]), int(bounds[-1]) + 1))
        return numbers
    except ValueError as e:  # the message has only the text's length, because logs contain it, but no detail
        why = f"{_CPUS} contains a text that is not a list of processors ({length_text(text)})"
        raise HostError(why, detail=f"it is {quoted(text)}") from e


def _number_of_groups(host: Host, folders: Sequence[str], names: Sequence[str]) -> int | None:
    """The number of cores or packages that the processors form; None if the kernel does not list their members.

    folders: of the online processors. names: _CORE_LISTS or _PACKAGE_LISTS.
    """
    online = {int(folder.removeprefix(f"{_CPUS}/cpu")) for folder in folders}
    for name in names:
        texts = [host.text(f"{folder}/topology/{name}") for folder in folders]
        if not any(texts):
            continue
        read = _numbers_in_list if name.endswith("_list") else _numbers_in_mask
        groups = [read(text or "") & online for text in texts]  # for each processor, the online members of its group
        if not all(groups):  # a processor went offline after `folders` had been read
            raise HostError(_CHANGED)
        # While a processor goes offline, only some members of its group still list it. So the lists of one group may
        # differ, but not in their first online member.
        first_members = {min(group) for group in groups}
        return len(first_members)
    return None


def _numbers_in_mask(text: str) -> set[int]:
    """The numbers of the bits in a mask such as 00000000,000000ff. Raises HostError."""
    try:
        mask = int(text.replace(",", "") or "0", 16)
    except ValueError as e:
        why = f"{_CPUS} contains a text that is not a mask of processors ({length_text(text)})"
        raise HostError(why, detail=f"it is {quoted(text)}") from e
    return {number for number in range(mask.bit_length()) if mask & (1 << number)}
