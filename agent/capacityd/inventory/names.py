"""What people call a device: by the hardware database, else by its own words; and its measures in readable units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.model import Device, DeviceDetector, Value

_FIRM = re.compile(r",? +(inc|corp|corporation|co|company|ltd|limited|gmbh|ag|llc|s\.?a|b\.?v|int'?l)\b\.?,?$", re.I)
_NO_MAKER = ("ATA",)  # what libata says in the place of a vendor


def names_of(host: Host, detector: DeviceDetector, device: Device, values: Mapping[str, Value]) -> tuple[str, str]:
    """Maker and model, "" where nothing tells."""
    database: Mapping[str, str] = {}
    if detector.modalias is not None:
        try:
            database = host.hardware_names(detector.modalias(host, device) or "")
            if "ID_MODEL_FROM_DATABASE" not in database:  # the same, and what rules of the machine's own add to it
                database = {**database, **host.properties(device.path)}
        except HostError:
            pass  # udev does not know the device (yet)
    words = [text for key in detector.words if isinstance(text := values.get(key), str) and text not in _NO_MAKER]
    maker = _short(database.get("ID_VENDOR_FROM_DATABASE", "")) or (words[0] if len(words) > 1 else "")
    model = database.get("ID_MODEL_FROM_DATABASE", "") or (words[-1] if words else "")
    return maker, model


def called(maker: str, model: str) -> str:
    """A device's name. Many models begin with their makers' names."""
    if maker and model.lower().startswith(maker.partition(" ")[0].lower()):
        return model
    return f"{maker} {model}".strip()


def _short(maker: str) -> str:
    """A maker's name without what the law makes it carry."""
    while (shorter := _FIRM.sub("", maker)) != maker and shorter:
        maker = shorter
    return maker


def readable(value: int, dimension: str) -> str:
    """A measure in the largest unit that leaves at least 1 of it; sizes in GiB and its like. At most one decimal."""
    if dimension == "number":
        return str(value)
    base, names = 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    if dimension == "speed":
        base, names = 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]
    power = 0
    while power < len(names) - 1 and round(Fraction(value, base**power), 1) >= base:
        power += 1
    number = round(Fraction(value, base**power), 1)
    return f"{number.numerator // number.denominator if number.denominator == 1 else float(number)} {names[power]}"
