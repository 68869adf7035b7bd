"""The machine's processors and memory: the threads from psutil, everything else from the kernel's files.

psutil does not report sockets. Its number of cores may include offline cores, and cores that the kernel does not know.
Its highest frequency is the limit of power management (scaling_max_freq), averaged over all processors. To report this
frequency, psutil also reads the present frequency, for which some drivers wake up idle processors.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping, Sequence

import psutil

from capacityd.model.errors import HostError
from capacityd.model.host import Host, MachineMemory, read_int
from capacityd.model.quoting import length_text, quoted

_CPUS = "/sys/devices/system/cpu"
_CPU = re.compile("cpu[0-9]+")
_PROCESSORS_CHANGED = "processors changed while they were read"
_CPUFREQ = f"{_CPUS}/cpufreq"
_LARGEST_MEMORY = 2**58
"""The largest plausible size in bytes: 64 times the physical memory that x86-64 can address. lxcfs reports the limit of
a cgroup as swap, and nearly 2**63 if there is no limit."""
_PSUTIL_ERRORS = (psutil.Error, OSError, NotImplementedError, AttributeError, LookupError, ValueError)
"""psutil's own exceptions, and those that it raises at a file in /proc with unexpected content."""
_ACPI_TABLES = "/sys/firmware/acpi/tables"
_ARCHS_WITH_DEVICE_TREE = ("aarch64", "arm", "riscv")
"""The beginnings of the names (uname -m) of architectures on which the kernel may read the topology from a device tree:
CONFIG_ARM, CONFIG_ARM64 and CONFIG_RISCV in drivers/base/arch_topology.c."""
_CPU_MAP = "/proc/device-tree/cpus/cpu-map"
_PACKAGE_ID = "physical_package_id"
_NUMA_NODE = re.compile("node[0-9]+")
"""The name of a processor's link to its NUMA node."""


def memory(host: Host) -> MachineMemory:
    """The kernel's memory, and its swap. Raises HostError.

    psutil would fail at an unexpected line of /proc/meminfo, such as a line of NULs (lxcfs) or a line without a space
    (ShadowCallStack on arm64).
    """
    lines = host.lines("/proc/meminfo")
    size = _meminfo(lines, "MemTotal")
    swap = _meminfo(lines, "SwapTotal")
    if max(size, swap) > _LARGEST_MEMORY:
        raise HostError(f"the kernel reports {size} bytes of memory and {swap} bytes of swap, more than it can manage")
    return MachineMemory(size=size, swap=swap)


def _meminfo(lines: Sequence[str], name: str) -> int:
    """A size in /proc/meminfo in bytes: proc_meminfo(5). Raises HostError if it is missing."""
    for line in lines:
        if match := re.fullmatch(f"{name}: *([0-9]+) kB", line):
            kibibytes = int(match[1])
            return kibibytes * 1024
    raise HostError(f"/proc/meminfo has no line {name}")


def _cores(host: Host) -> int | None:
    """The number of cores with online processors; None if the kernel does not know the processors' topology.

    A kernel that uses a device tree may not know the topology. Then the ids are -1, and a core's list of
    processors is empty or contains all processors (RISC-V before Linux 6.1: update_siblings_masks in
    drivers/base/arch_topology.c).
    """
    folders = _online_folders(host)
    if _may_have_device_tree(host):
        ids = [*_topology(host, folders, "core_id"), *_topology(host, folders, _PACKAGE_ID)]
        if "-1" in ids:
            return None
    return _number_of_cores(host, folders)


def _online_folders(host: Host) -> list[str]:
    """The folders in /sys of the online processors. Raises HostError."""
    online = _numbers_in_list(host.text(f"{_CPUS}/online") or "")
    names = [name for name in host.listdir(_CPUS) if _CPU.fullmatch(name)]
    return [f"{_CPUS}/{name}" for name in names if int(name.removeprefix("cpu")) in online]


def _topology(host: Host, folders: Sequence[str], name: str) -> list[str | None]:
    """The content of topology/NAME in each processor's folder; None where the file is missing. Raises HostError."""
    return [host.text(f"{folder}/topology/{name}") for folder in folders]


def _numbers_in_list(text: str) -> set[int]:
    """The numbers in a list such as 0-3,8. Raises HostError, also for a list that lxcfs has cut, such as "0-3,"."""
    numbers: set[int] = set()
    if not text:
        return numbers
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            if not last:  # the part is a single number
                last = first
            numbers.update(range(int(first), int(last) + 1))
        return numbers
    except ValueError as e:
        # Only the detail quotes the text, because no log contains a detail.
        why = f"{_CPUS} contains a text that is not a list of processors ({length_text(text)})"
        raise HostError(why, detail=f"it is {quoted(text)}") from e


def _number_of_cores(host: Host, folders: Sequence[str]) -> int | None:
    """The number of cores that the processors form; None if the kernel does not list the processors of a core.

    folders: the folders of the online processors. Raises HostError.
    """
    online = {int(folder.removeprefix(f"{_CPUS}/cpu")) for folder in folders}
    lists = _topology(host, folders, "core_cpus_list")
    if not any(lists):
        return None
    # For each processor, the online processors of its core.
    cores = [_numbers_in_list(text or "") & online for text in lists]
    if not all(cores):  # a processor went offline after `folders` had been read
        raise HostError(_PROCESSORS_CHANGED)
    # While a processor goes offline, only some processors of its core still list it. So the lists of one core may
    # differ, but not in their first online processor.
    first_processors = {min(core) for core in cores}
    return len(first_processors)


def _threads(host: Host) -> int | None:
    """The number of online processors, from psutil or, if psutil fails (for example at /proc/cpuinfo), from /sys."""
    try:
        threads: int | None = psutil.cpu_count(logical=True)
        return threads
    except _PSUTIL_ERRORS as e:
        if folders := _online_folders(host):
            return len(folders)
        raise HostError(f"the processors could not be read: {type(e).__name__}") from e


def _sockets(host: Host) -> int | None:
    """The number of packages with online processors; None if the kernel does not know the packages (id -1).

    On s390, packages in different books may have the same id, and so may books in different drawers.
    """
    folders = _online_folders(host)
    ids = _topology(host, folders, _PACKAGE_ID)
    if not any(ids):
        return None
    if None in ids:
        raise HostError(_PROCESSORS_CHANGED)
    if "-1" in ids:
        return None
    # Unlike RISC-V, arm64 reads the packages from the ACPI table PPTT (parse_acpi_topology() in Linux 6.17).
    ids_are_from_acpi = host.arch() == "aarch64" and "PPTT" in host.listdir(_ACPI_TABLES)
    if _may_have_device_tree(host) and not ids_are_from_acpi:
        return _sockets_of_device_tree(host, folders)
    drawers = _topology(host, folders, "drawer_id")
    books = _topology(host, folders, "book_id")
    packages = set(zip(drawers, books, ids, strict=True))
    return len(packages)


def _may_have_device_tree(host: Host) -> bool:
    """Whether the kernel may read the processors' topology from a device tree."""
    return host.arch().startswith(_ARCHS_WITH_DEVICE_TREE)


def _sockets_of_device_tree(host: Host, folders: Sequence[str]) -> int | None:
    """The number of sockets according to the device tree's map of processors; None if the number is unknown.

    The ids of packages do not show the number of sockets. Without a map, a package is a NUMA node (store_cpu_topology
    in drivers/base/arch_topology.c). Before Linux 6.0, a package is a cluster of the map. On 32-bit ARM, a package is a
    cluster according to the register MPIDR.

    A map without sockets describes a machine with one socket: Documentation/devicetree/bindings/cpu/cpu-topology.txt.
    Old maps of machines with several sockets also name no sockets. So with several NUMA nodes, the number is unknown.

    folders: the folders of the online processors.
    """
    map_entries = host.listdir(_CPU_MAP)
    sockets = [name for name in map_entries if name.startswith("socket")]
    if sockets:
        return len(sockets)
    numa_nodes: set[str] = set()
    for folder in folders:
        numa_nodes.update(name for name in host.listdir(folder) if _NUMA_NODE.fullmatch(name))
    if len(numa_nodes) > 1 or not map_entries:
        return None
    return 1


def _max_frequency(host: Host) -> int | None:
    """The highest frequency of the fastest online processor in Hz; None if the kernel reports no frequency."""
    policies = [name for name in host.listdir(_CPUFREQ) if name.startswith("policy")]
    kilohertz = [_policy_kilohertz(host, f"{_CPUFREQ}/{name}") for name in policies]
    reported = [frequency * 1000 for frequency in kilohertz if frequency]  # neither None nor 0
    return max(reported, default=None)


def _policy_kilohertz(host: Host, policy: str) -> int | None:
    """The highest frequency of a cpufreq policy in kHz; None if the policy reports none, or its processors are offline.

    While its processors are offline, reading fails with EBUSY (show() in drivers/cpufreq/cpufreq.c).
    """
    try:
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
"""Name of a measure -> a function that returns it for the online processors; None if the machine does not report it."""
