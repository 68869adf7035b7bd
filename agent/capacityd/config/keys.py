"""The keys of a resource and of its `when`, and the settings outside of resources.

The parser and the documentation use these declarations. Each detector declares its own keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

from capacityd.detectors import detector_names
from capacityd.model.quantity import LARGEST_QUANTITY
from capacityd.schema.config import REDUCTIONS, Resource, Settings
from capacityd.schema.mistakes import NOT_ABSOLUTE, NOT_EXACT_PATH, Mistake
from capacityd.schema.setting_types import BOOLEAN, RESERVE, Setting, SettingType, integer, one_of
from capacityd.schema.spelling import suggest_word
from capacityd.schema.value_types import Text

UNAME_MACHINES = {
    "amd64": "x86_64", "x86-64": "x86_64", "x64": "x86_64",
    "arm64": "aarch64", "armv8": "aarch64",
    "arm": "armv7l", "armhf": "armv7l",
    "386": "i686", "i386": "i686", "x86": "i686",
}  # fmt: skip
"""Name of an architecture in other programs, such as Kubernetes -> the name that uname -m prints."""
_ARCHITECTURE = Mistake(
    f"^({'|'.join(UNAME_MACHINES)})$",
    lambda text: f'is not an architecture of uname -m; write "{UNAME_MACHINES[text]}"',
)
"""A name for an architecture that uname -m never prints."""
_NOT_A_NODE_NAME = Mistake(
    r"^[^\[]*[^a-z0-9.*?\[-]", lambda _: 'matches no Node name, which has only a-z, 0-9, "-" and "."'
)
"""A character that no Node name contains, before the first "["."""
_ANY_TEXT = Text()
_RESOURCE_DEFAULTS = {declared.name: declared.default for declared in fields(Resource)}
"""Name of a field of Resource -> its default, which is also the key's default in TOML."""
_DMI_FILES = (
    "bios_date", "bios_release", "bios_vendor", "bios_version",
    "board_asset_tag", "board_name", "board_serial", "board_vendor", "board_version",
    "chassis_asset_tag", "chassis_serial", "chassis_type", "chassis_vendor", "chassis_version",
    "ec_firmware_release", "modalias", "product_family", "product_name", "product_serial",
    "product_sku", "product_uuid", "product_version", "sys_vendor",
)  # fmt: skip
"""Files that may be in /sys/class/dmi/id. They contain the firmware's texts about the machine."""
_DEVICETREE_PROPERTY = re.compile(r"[A-Za-z0-9,._+#?@-]+(/[A-Za-z0-9,._+#?@-]+)*")
"""The path of a property below /proc/device-tree."""
_UDEV_PROPERTY = re.compile(r"[^\s=/]+")
UNSAFE_ATTRIBUTES = (
    "vpd", "vpd_pg*", "rom", "config", "resource*", "eeprom", "remove", "delete", "rescan", "bus_rescan", "reset",
)  # fmt: skip
"""Globs of files in /sys that a configuration may not name. Reading such a file may take seconds, hang, disturb the
device or return binary data. Some of the files can only be written."""


@dataclass(frozen=True, slots=True)
class WhenKey:
    """A key of "when". Its value is a text, or a table of names and texts."""

    about: str
    """A description for the documentation."""
    text: Text = _ANY_TEXT
    """The type of the text, or of each text in the table."""
    is_text: bool = True
    """Whether the value is a text, not a table."""
    name_problem: Callable[[str], str] = lambda _: ""
    """Takes a name in the table. Returns what is wrong with it; "" if it is valid."""


def _unparsed(name: str) -> SettingType:
    """A type that keeps the TOML value, because the value is a table, or its meaning depends on the detector."""
    return SettingType(name, parse=lambda raw: raw)


RESOURCE_KEYS: dict[str, Setting] = {
    "except": Setting(_unparsed("a table or a list of tables"), "devices that do not count although they match"),
    "when": Setting(
        _unparsed("a table"), "the machines that the resource applies to; on others, the resource is absent"
    ),
    "slots": Setting(
        integer(least=1, most=10**9), "pods that can share one device", default=_RESOURCE_DEFAULTS["slots"]
    ),
    "measure": Setting(
        _unparsed("a word"),
        'the value to add up: "count", a measure of the detector, or an attribute or property: "attributes.NAME"',
        default="count",
    ),
    "unit": Setting(_unparsed("a unit"), "unit of the quantity, for sizes and speeds"),
    "reserve": Setting(
        RESERVE,
        'the quantity to hold back, in units of the quantity, or as a share such as "10%"',
        default=0,
    ),
    "reduce": Setting(
        one_of(*REDUCTIONS), "how the devices' shares become one number", default=_RESOURCE_DEFAULTS["reduce"]
    ),
    "fallback": Setting(
        _unparsed("an amount"),
        "the measure of a device that does not report it; without it, such a device makes the resource unknown",
    ),
    "expect": Setting(
        integer(least=1, most=LARGEST_QUANTITY),
        "a smaller quantity, or an absent resource, makes the Node condition False (BelowExpected)",
    ),
    "label": Setting(
        BOOLEAN,
        "also publish the quantity as a label of the Node, with the resource's name",
        default=_RESOURCE_DEFAULTS["label"],
    ),
    "adopt": Setting(
        BOOLEAN, "take over a key of the Node that another writer has set", default=_RESOURCE_DEFAULTS["adopt"]
    ),
    "enabled": Setting(BOOLEAN, "false drops the resource, even if an earlier file configures it", default=True),
}
"""The keys of a resource, except its detector's name."""


def is_resource_key(key: str) -> bool:
    """Whether a resource's table may contain this key: one of RESOURCE_KEYS or a detector's name."""
    return key in RESOURCE_KEYS or key in detector_names()


def fits_resource(key: str, value: object) -> bool:
    """Whether a resource's table may contain this key with this value, such as slots = 4 or usb = {}."""
    if key in detector_names():
        tables = value if isinstance(value, list) else [value]
        return all(isinstance(table, dict) for table in tables)
    if key not in RESOURCE_KEYS:
        return False
    try:
        RESOURCE_KEYS[key].type.parse(value)
    except ValueError:
        return False
    return True


def _attribute_problem(name: str) -> str:
    """What is wrong with the name of a file below a device in /sys; "" if the name is valid."""
    parts = name.split("/")
    is_path_below = all(part not in ("", ".", "..") for part in parts)
    if not name.isprintable() or not is_path_below:
        return 'must be a path below the device in /sys, without "/" at its ends and without ".."'
    file_name = parts[-1]
    is_unsafe = any(fnmatchcase(file_name, glob) for glob in UNSAFE_ATTRIBUTES)
    why_unsafe = "cannot be matched: reading it may take seconds, disturb the device or return binary data"
    return why_unsafe if is_unsafe else ""


def _property_problem(name: str) -> str:
    """What is wrong with the name of a udev property; "" if the name is valid."""
    is_valid = name.isprintable() and _UDEV_PROPERTY.fullmatch(name)
    return "" if is_valid else "is not the name of a udev property"


def _dmi_problem(name: str) -> str:
    """What is wrong with the name of a file in /sys/class/dmi/id; "" if the name is valid."""
    if name in _DMI_FILES:
        return ""
    return f"unknown key; {suggest_word(name, _DMI_FILES)}"


def _devicetree_problem(name: str) -> str:
    """What is wrong with the name of a property in /proc/device-tree; "" if the name is valid."""
    is_path_below = all(part not in (".", "..") for part in name.split("/"))
    is_valid = _DEVICETREE_PROPERTY.fullmatch(name) and is_path_below
    return "" if is_valid else "is not the name of a device tree property"


NAME_CHECKS = {"attributes": _attribute_problem, "properties": _property_problem}
"""Key whose value is a table of names and texts -> the function that returns what is wrong with a name, or ""."""

WHEN_KEYS: dict[str, WhenKey] = {
    "dmi": WhenKey("text of files in /sys/class/dmi/id", is_text=False, name_problem=_dmi_problem),
    "devicetree": WhenKey(
        "text of properties in /proc/device-tree, such as model", is_text=False, name_problem=_devicetree_problem
    ),
    "arch": WhenKey("the architecture as uname -m prints it", Text(rejects=(_ARCHITECTURE,))),
    "node_name": WhenKey("the Node's name", Text(rejects=(_NOT_A_NODE_NAME,))),
    "path": WhenKey("a file or folder that must exist", Text(rejects=(NOT_ABSOLUTE, NOT_EXACT_PATH))),
}
"""The keys of a resource's "when". All keys must match. A key with several values matches if one value matches."""


def _settings_tables() -> dict[str, dict[str, Setting]]:
    """The declarations in Settings: name of a table -> key -> setting."""
    tables: dict[str, dict[str, Setting]] = {}
    for declared in fields(Settings):
        for table, setting in declared.metadata.items():  # one item: _setting() declares a key of one table
            tables.setdefault(table, {})[declared.name] = setting
    return tables


SETTINGS_TABLES = _settings_tables()
"""Name of each top-level table except "resources" -> key -> setting. The keys are the fields of Settings."""
