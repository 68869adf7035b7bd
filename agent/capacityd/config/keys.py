"""The keys that a configuration may hold outside the detectors' own tables: what each takes and is for.

One declaration serves the parser, the schema and the documentation. As in kinds.py, parse raises ValueError with a
sentence that says what is wrong and what is right.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

from capacityd.kinds import Pattern, Text, said
from capacityd.model import Reserve
from capacityd.quantity import LARGEST
from capacityd.settings import Duration, FilePath, SettingKind, Whole

_SHARE = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,6}))?\s*%")
LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_GLOB = frozenset("*?[")
_DAY = 86400.0
AS_KUBERNETES_SAYS = {"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "arm": "armv7l"}


class YesNo:
    """true or false."""

    def parse(self, raw: object) -> bool:
        if not isinstance(raw, bool):
            raise ValueError(f"must be true or false, not {said(raw)}")
        return raw


@dataclass(frozen=True, slots=True)
class Word:
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or raw not in self.words:
            raise ValueError(f"must be one of {', '.join(self.words)} in quotes, not {said(raw)}")
        return raw


class NodeName:
    """The name of a Node: a DNS subdomain of RFC 1123."""

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"must be a name in quotes, not {said(raw)}")
        if len(raw) > 253 or not all(re.fullmatch(LABEL, label) for label in raw.split(".")):
            raise ValueError(f'"{raw}" is no Node\'s name: those have only a-z, 0-9, "-" and "."')
        return raw


class Kept:
    """What is kept back: a whole number, or a share of the total."""

    def parse(self, raw: object) -> Reserve:
        if type(raw) is int:
            return Reserve(units=Whole(0, LARGEST).parse(raw))
        match = _SHARE.fullmatch(raw) if isinstance(raw, str) else None
        if match is None:
            raise ValueError(
                f'must be a whole number of the resource\'s units, or a share such as "10%", not {said(raw)}'
            )
        fraction = match[2] or ""
        part, whole = int(match[1] + fraction), 100 * 10 ** len(fraction)
        if part >= whole:
            raise ValueError(f'"{raw}" leaves nothing; it must be less than 100%')
        divisor = math.gcd(part, whole)
        return Reserve(share=(part // divisor, whole // divisor))


class Arch:
    """Architectures, as text or globs."""

    def parse(self, raw: object) -> tuple[Pattern, ...]:
        for word in raw if isinstance(raw, list) else [raw]:
            if isinstance(word, str) and word in AS_KUBERNETES_SAYS:
                raise ValueError(f'"{word}" must be as uname -m says it; did you mean "{AS_KUBERNETES_SAYS[word]}"?')
        return Text().parse(raw)


class Paths:
    """Absolute paths, to the letter."""

    def parse(self, raw: object) -> tuple[Pattern, ...]:
        for path in raw if isinstance(raw, list) else [raw]:
            FilePath().parse(path)
            if not _GLOB.isdisjoint(str(path)):
                raise ValueError(f'"{path}" is taken to the letter: *, ? and [ do not work here')
        return Text().parse(raw)


PlainKind: TypeAlias = "SettingKind | YesNo | Word | NodeName | Kept"


@dataclass(frozen=True, slots=True)
class Entry:
    """A key whose value says all by itself. default: what holds without it, as TOML has it; None if nothing does."""

    kind: PlainKind
    about: str
    default: object = None


@dataclass(frozen=True, slots=True)
class Dependent:
    """A key of a resource whose value depends on its detector, or is a table of its own. default: as an Entry's."""

    about: str
    default: object = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A key of "when" that holds what to match one thing by."""

    kind: Text | Arch | Paths
    about: str


@dataclass(frozen=True, slots=True)
class Facts:
    """A key of "when" that holds a table of text by name. known: the names that there are, else pattern."""

    about: str
    known: tuple[str, ...] = ()
    pattern: str = ""


RESOURCE: dict[str, Entry | Dependent] = {
    "except": Dependent("devices that don't count although they match"),
    "when": Dependent("the machines that the resource concerns; elsewhere it is absent"),
    "slots": Entry(Whole(1, 10**9), "pods that can share one device", 1),
    "measure": Dependent('what is added up: "count", or what the detector measures', "count"),
    "unit": Dependent("unit of the quantity, for sizes and speeds"),
    "reserve": Entry(Kept(), 'what is kept back, in units of the quantity or as a share such as "10%"', 0),
    "reduce": Entry(Word(("sum", "min", "max")), "how the devices' shares become one number", "sum"),
    "fallback": Dependent("what a device counts for whose measure can't be had"),
    "adopt": Entry(YesNo(), "take over a key of the Node that is not ours", False),
    "enabled": Entry(YesNo(), "false drops the resource, also one of an earlier file", True),
}
"""The keys of a resource, beside the one that names its detector."""

WHEN: dict[str, Fact | Facts] = {
    "dmi": Facts(
        "what /sys/class/dmi/id says",
        known=(
            *("bios_date", "bios_release", "bios_vendor", "bios_version"),
            *("board_asset_tag", "board_name", "board_serial", "board_vendor", "board_version"),
            *("chassis_asset_tag", "chassis_serial", "chassis_type", "chassis_vendor", "chassis_version"),
            *("ec_firmware_release", "modalias", "product_family", "product_name", "product_serial"),
            *("product_sku", "product_uuid", "product_version", "sys_vendor"),
        ),
    ),
    "devicetree": Facts(
        "what /proc/device-tree says, such as model",
        pattern=r"[A-Za-z0-9,._+#?@-]+(/[A-Za-z0-9,._+#?@-]+)*",
    ),
    "arch": Fact(Arch(), "the architecture, as uname -m says it"),
    "node_name": Fact(Text(), "the Node's name"),
    "path": Fact(Paths(), "a file or folder that must be there"),
}
"""The keys of a resource's "when"; several values mean any of, several keys all of."""

TABLES: dict[str, dict[str, Entry]] = {
    "kubernetes": {
        "kubeconfig": Entry(FilePath(), "instead of the kubelet's own"),
        "node_name": Entry(NodeName(), "the Node's name, if it can't be found out"),
        "observe": Entry(YesNo(), "true: look and report, never write", False),
        "condition": Entry(YesNo(), "whether to keep the condition CapacityPublished on the Node", True),
    },
    "service": {
        "lower_after": Entry(Duration(0, _DAY), "how long a lower quantity must hold before it is written", "10s"),
        "lower_after_boot": Entry(Duration(0, _DAY), "the same in the first three minutes after boot", "60s"),
        "recheck": Entry(Duration(1, _DAY), "how often it looks although nothing was heard; jittered by a fifth", "1h"),
        "start_jitter": Entry(Duration(0, 3600), "a random time up to this before it first asks the API server", "0s"),
        "textfile": Entry(FilePath(".prom"), "a file of metrics for node_exporter's textfile collector"),
    },
}
"""The top-level tables beside "resources". Each key is the field of model.Settings that has its name."""
