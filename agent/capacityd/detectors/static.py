"""static: a number from the configuration, for resources that no file or device reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from capacityd.model.host import Host
from capacityd.model.reading import Contribution
from capacityd.schema.device import ValueDetector
from capacityd.schema.setting_types import QUANTITY, Setting


def read(_: Host, settings: Mapping[str, object]) -> Contribution:
    """A contribution with the configured number."""
    return Contribution(device="configuration", amount=number(settings))


def number(settings: Mapping[str, object]) -> int:
    """The configured number."""
    return cast(int, settings["quantity"])


DETECTOR = ValueDetector(
    name="static",
    about="a number in the configuration",
    settings={"quantity": Setting(QUANTITY, "the number", required=True)},
    read=read,
    computed=number,
)
