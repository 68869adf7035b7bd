"""Readable names and amounts: a device's vendor and model, and a measure in a suitable unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from capacityd.cli.inventory.selectors import DeviceValues
from capacityd.model.device import Device, DeviceDetector
from capacityd.model.errors import HostError
from capacityd.model.host import Host

_COMPANY_SUFFIX = re.compile(
    r",? +(inc|corp|corporation|co|company|ltd|limited|gmbh|ag|llc|s\.?a|b\.?v|int'?l)\b\.?,?$", re.I
)
_NO_VENDORS = ("ATA",)  # libata's placeholder
_SCALES = {
    "size": (1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB")),
    "speed": (1000, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")),
    "frequency": (1000, ("Hz", "kHz", "MHz", "GHz")),
}


def names_of(host: Host, detector: DeviceDetector, device: Device, values: DeviceValues) -> tuple[str, str]:
    """Vendor and model from the hardware database; otherwise from the device itself; "" if unknown."""
    database: Mapping[str, str] = {}
    if detector.modalias is not None:
        try:
            database = host.hardware_names(detector.modalias(host, device) or "")
            if "ID_MODEL_FROM_DATABASE" not in database:  # udev may know it from the machine's own rules
                database = {**database, **host.properties(device.path)}
        except HostError:
            pass  # udev does not know the device (yet)
    words = [word for key in detector.words if isinstance(word := values.get(key), str) and word not in _NO_VENDORS]
    vendor = _without_suffixes(database.get("ID_VENDOR_FROM_DATABASE", "")) or (words[0] if len(words) > 1 else "")
    model = database.get("ID_MODEL_FROM_DATABASE", "") or (words[-1] if words else "")
    return vendor, model


def display_name(vendor: str, model: str) -> str:
    """Vendor and model; only the model if it begins with the vendor's name."""
    if vendor and model.lower().startswith(vendor.partition(" ")[0].lower()):
        return model
    return f"{vendor} {model}".strip()


def _without_suffixes(vendor: str) -> str:
    """Removes suffixes such as "Co., Ltd"."""
    while (shorter := _COMPANY_SUFFIX.sub("", vendor)) != vendor and shorter:
        vendor = shorter
    return vendor


def readable(value: int, dimension: str) -> str:
    """A measure in the largest unit that makes it at least 1, with at most one decimal, such as 1.7TiB."""
    base, units = _SCALES.get(dimension, (1000, ("",)))
    power = 0
    while power < len(units) - 1 and round(Fraction(value, base**power), 1) >= base:
        power += 1
    number = round(Fraction(value, base**power), 1)
    return f"{number.numerator if number.denominator == 1 else float(number)}{units[power]}"
