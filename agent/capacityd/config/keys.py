"""The keys of a configuration outside the detectors' tables, for the parser and the documentation.

This module declares the keys of a resource, with the defaults of schema.config.Resource. schema.config.Settings
declares the keys of all other tables.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from capacityd.detectors import detector_names
from capacityd.model.quantity import LARGEST_QUANTITY
from capacityd.schema.config import REDUCTIONS, Resource, Settings
from capacityd.schema.mistakes import NOT_ABSOLUTE, NOT_EXACT_PATH, Mistake
from capacityd.schema.setting_types import BOOLEAN, RESERVE, Setting, SettingType, integer, one_of
from capacityd.schema.value_types import Text

UNAME_MACHINES = {
    **dict.fromkeys(("amd64", "x86-64", "x64"), "x86_64"),
    **dict.fromkeys(("arm64", "armv8"), "aarch64"),
    **dict.fromkeys(("arm", "armhf"), "armv7l"),
    **dict.fromkeys(("386", "i386", "x86"), "i686"),
}
"""Name of an architecture in other programs, such as Kubernetes -> the name that uname -m prints."""
_ARCHITECTURE = Mistake(
    f"^({'|'.join(UNAME_MACHINES)})$",
    lambda text: f'is not an architecture of uname -m; write "{UNAME_MACHINES[text]}"',
)
"""A name for an architecture that uname -m never prints."""
_ANY_TEXT = Text()
_DEFAULTS = {declared.name: declared.default for declared in fields(Resource)}
"""Name of a field of Resource -> its default, which is also the key's default in TOML."""
_DMI_FILES = (
    "bios_date", "bios_release", "bios_vendor", "bios_version",
    "board_asset_tag", "board_name", "board_serial", "board_vendor", "board_version",
    "chassis_asset_tag", "chassis_serial", "chassis_type", "chassis_vendor", "chassis_version",
    "ec_firmware_release", "modalias", "product_family", "product_name", "product_serial",
    "product_sku", "product_uuid", "product_version", "sys_vendor",
)  # fmt: skip
"""Files that may be in /sys/class/dmi/id. They contain the firmware's texts about the machine."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A key of "when". Its value is a text, or a table of names and texts."""

    about: str
    text: Text = _ANY_TEXT
    names: tuple[str, ...] = ()
    """The valid names of the table."""
    pattern: str = ""
    """A regular expression for the valid names of the table, if names is empty."""

    @property
    def is_table(self) -> bool:
        """Whether the value is a table."""
        return bool(self.names or self.pattern)


def _as_written(name: str) -> SettingType:
    """A type that keeps the value. resource.py parses the value, which depends on the detector or is a table."""
    return SettingType(name, parse=lambda raw: raw)


RESOURCE_KEYS: dict[str, Setting] = {
    "except": Setting(_as_written("a table or a list of tables"), "devices that do not count although they match"),
    "when": Setting(
        _as_written("a table"), "the machines that the resource applies to; on others, the resource is absent"
    ),
    "slots": Setting(integer(least=1, most=10**9), "pods that can share one device", default=_DEFAULTS["slots"]),
    "measure": Setting(
        _as_written("a word"),
        'the value to add up: "count", a measure of the detector, or an attribute or property: "attributes.NAME"',
        default="count",
    ),
    "unit": Setting(_as_written("a unit"), "unit of the quantity, for sizes and speeds"),
    "reserve": Setting(
        RESERVE,
        'the quantity to hold back, in units of the quantity, or as a share such as "10%"',
        default=0,
    ),
    "reduce": Setting(one_of(*REDUCTIONS), "how the devices' shares become one number", default=_DEFAULTS["reduce"]),
    "fallback": Setting(
        _as_written("an amount"),
        "the measure of a device that does not report it; without it, such a device makes the resource unknown",
    ),
    "expect": Setting(
        integer(least=1, most=LARGEST_QUANTITY),
        "a smaller quantity, or an absent resource, makes the Node condition False (BelowExpected)",
    ),
    "label": Setting(
        BOOLEAN,
        "also publish the quantity as a label of the Node, with the resource's name",
        default=_DEFAULTS["label"],
    ),
    "adopt": Setting(BOOLEAN, "take over a key of the Node that another writer has set", default=_DEFAULTS["adopt"]),
    "enabled": Setting(BOOLEAN, "false drops the resource, even if an earlier file configures it", default=True),
}
"""The keys of a resource, except its detector's name."""


def is_resource_key(key: str) -> bool:
    """Whether a resource's table may contain this key: one of RESOURCE_KEYS or a detector's name."""
    return key in RESOURCE_KEYS or key in detector_names()


WHEN_KEYS: dict[str, Fact] = {
    "dmi": Fact("text of files in /sys/class/dmi/id", names=_DMI_FILES),
    "devicetree": Fact(
        "text of properties in /proc/device-tree, such as model",
        pattern=r"[A-Za-z0-9,._+#?@-]+(/[A-Za-z0-9,._+#?@-]+)*",
    ),
    "arch": Fact("the architecture as uname -m prints it", Text(rejects=(_ARCHITECTURE,))),
    "node_name": Fact("the Node's name"),
    "path": Fact("a file or folder that must exist", Text(rejects=(NOT_ABSOLUTE, NOT_EXACT_PATH))),
}
"""The keys of a resource's "when". All keys must match. A key with several values matches if one value does."""


def _settings_tables() -> dict[str, dict[str, Setting]]:
    tables: dict[str, dict[str, Setting]] = {}
    for declared in fields(Settings):
        for table, setting in declared.metadata.items():  # one item, as schema.config._setting() declares it
            tables.setdefault(table, {})[declared.name] = setting
    return tables


SETTINGS_TABLES = _settings_tables()
"""Name of each top-level table except "resources" -> key -> setting. The keys are the fields of Settings."""
