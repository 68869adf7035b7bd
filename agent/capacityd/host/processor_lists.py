"""The online processors, and the cores and packages that they form, from lists in /sys/devices/system/cpu."""

from __future__ import annotations

import re
from collections.abc import Sequence

from capacityd.model.errors import HostError
from capacityd.model.host import Host
from capacityd.model.private import length_text, quoted

CPUS = "/sys/devices/system/cpu"
_CPU = re.compile("cpu[0-9]+")
CORE_LISTS = ("core_cpus_list", "thread_siblings_list", "thread_siblings")
"""Names of the file that lists a core's threads, the newest first: Documentation/admin-guide/cputopology.rst. The last
file contains a mask, and is the only one on the oldest kernels."""
PACKAGE_LISTS = ("package_cpus_list", "core_siblings_list", "core_siblings")
"""Names of the file that lists a package's threads, as in CORE_LISTS."""
PROCESSORS_CHANGED = "processors changed while they were read"


def online_folders(host: Host) -> list[str]:
    """The folders in /sys of the online processors; of all processors if the kernel can't take any offline.

    Kernels without the list of online processors have a file for each processor that can be taken offline.
    """
    names = [name for name in host.listdir(CPUS) if _CPU.fullmatch(name)]
    online = host.text(f"{CPUS}/online")
    if online is not None:
        numbers = _numbers_in_list(online)
        names = [name for name in names if int(name.removeprefix("cpu")) in numbers]
    else:
        names = [name for name in names if host.text(f"{CPUS}/{name}/online") != "0"]
    return [f"{CPUS}/{name}" for name in names]


def _numbers_in_list(text: str) -> set[int]:
    """The numbers in a list such as 0-3,8. Raises HostError."""
    try:
        numbers: set[int] = set()
        for part in text.split(","):
            if part:
                bounds = part.split("-")  # the first and the last number, or only one
                numbers.update(range(int(bounds[0]), int(bounds[-1]) + 1))
        return numbers
    except ValueError as e:
        raise _malformed("list", text) from e


def number_of_groups(host: Host, folders: Sequence[str], names: Sequence[str]) -> int | None:
    """The number of cores or packages that the processors form; None if the kernel does not list their members.

    folders: of the online processors. names: CORE_LISTS or PACKAGE_LISTS.
    """
    online = {int(folder.removeprefix(f"{CPUS}/cpu")) for folder in folders}
    for name in names:
        texts = [host.text(f"{folder}/topology/{name}") for folder in folders]
        if not any(texts):
            continue
        read = _numbers_in_list if name.endswith("_list") else _numbers_in_mask
        groups = [read(text or "") & online for text in texts]  # for each processor, the online members of its group
        if not all(groups):  # a processor went offline after `folders` had been read
            raise HostError(PROCESSORS_CHANGED)
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
        raise _malformed("mask", text) from e
    return {number for number in range(mask.bit_length()) if mask & (1 << number)}


def _malformed(form: str, text: str) -> HostError:
    """The error for a text that is no list or mask. Only the detail quotes the text: no log contains a detail."""
    why = f"{CPUS} contains a text that is not a {form} of processors ({length_text(text)})"
    return HostError(why, detail=f"it is {quoted(text)}")
