"""The online processors, and the cores that they form, from lists in /sys/devices/system/cpu."""

from __future__ import annotations

import re
from collections.abc import Sequence

from capacityd.model.errors import HostError
from capacityd.model.host import Host
from capacityd.model.quoting import length_text, quoted

CPUS = "/sys/devices/system/cpu"
_CPU = re.compile("cpu[0-9]+")
PROCESSORS_CHANGED = "processors changed while they were read"


def online_folders(host: Host) -> list[str]:
    """The folders in /sys of the online processors. Raises HostError."""
    numbers = _numbers_in_list(host.text(f"{CPUS}/online") or "")
    names = [name for name in host.listdir(CPUS) if _CPU.fullmatch(name)]
    return [f"{CPUS}/{name}" for name in names if int(name.removeprefix("cpu")) in numbers]


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
        # Only the detail quotes the text: no log contains a detail.
        why = f"{CPUS} contains a text that is not a list of processors ({length_text(text)})"
        raise HostError(why, detail=f"it is {quoted(text)}") from e


def number_of_cores(host: Host, folders: Sequence[str]) -> int | None:
    """The number of cores that the processors form; None if the kernel does not list their members.

    folders: of the online processors. Raises HostError.
    """
    online = {int(folder.removeprefix(f"{CPUS}/cpu")) for folder in folders}
    texts = [host.text(f"{folder}/topology/core_cpus_list") for folder in folders]
    if not any(texts):
        return None
    cores = [_numbers_in_list(text or "") & online for text in texts]  # for each processor, its core's online members
    if not all(cores):  # a processor went offline after `folders` had been read
        raise HostError(PROCESSORS_CHANGED)
    # While a processor goes offline, only some members of its core still list it. So the lists of one core may differ,
    # but not in their first online member.
    return len({min(core) for core in cores})
