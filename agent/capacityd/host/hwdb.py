"""udev's hardware database (hwdb(7)): the names behind ids, for hardware that udev has not put them down for.

By libudev itself, for pyudev does not know of it. A look costs a tenth of a millisecond; each is done once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache

from capacityd.printable import printable


@cache
def look_up(modalias: str) -> Mapping[str, str]:
    """What the database says of this modalias; nothing if there is no database or no libudev."""
    opened = _opened()
    if opened is None:
        return {}
    udev, database = opened
    found: dict[str, str] = {}
    entry = udev.udev_hwdb_get_properties_list_entry(database, modalias.encode("utf-8", "surrogateescape"), 0)
    while entry:
        name, value = udev.udev_list_entry_get_name(entry), udev.udev_list_entry_get_value(entry)
        found[printable(name or b"")] = printable(value or b"")
        entry = udev.udev_list_entry_get_next(entry)
    return found


@cache
def _opened() -> tuple[ctypes.CDLL, int] | None:
    try:
        udev = ctypes.CDLL("libudev.so.1", use_errno=True)
    except OSError:
        return None
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in (
        ("udev_new", pointer, ()),
        ("udev_hwdb_new", pointer, (pointer,)),
        ("udev_hwdb_get_properties_list_entry", pointer, (pointer, text, ctypes.c_uint)),
        ("udev_list_entry_get_next", pointer, (pointer,)),
        ("udev_list_entry_get_name", text, (pointer,)),
        ("udev_list_entry_get_value", text, (pointer,)),
    ):
        function = getattr(udev, name)
        function.restype, function.argtypes = result, arguments
    context = udev.udev_new()
    database = udev.udev_hwdb_new(context) if context else None
    return (udev, database) if database else None
