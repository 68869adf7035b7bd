"""static: a number that stands in the configuration, for what no file or device tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from capacityd.host import Host
from capacityd.model import Evidence, ValueDetector
from capacityd.quantity import LARGEST
from capacityd.settings import Setting, Whole


def read(_: Host, settings: Mapping[str, object]) -> Evidence:
    """The configured number."""
    return Evidence("configuration", cast(int, settings["quantity"]))


DETECTOR = ValueDetector(
    name="static",
    about="a number that the configuration gives",
    settings={"quantity": Setting(Whole(0, LARGEST), "the number", required=True)},
    read=read,
)
