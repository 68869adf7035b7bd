"""No text from a file or a property of a device appears in a reading of a pass."""

from __future__ import annotations

import json

import pytest

from capacityd.discovery.reader import read_resource
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.codec import encode_variant
from capacityd.model.reading import without_details
from capacityd.schema.config import Resource
from tests.support.machines import files as files_of
from tests.support.machines import merge
from tests.unit.discovery.test_hostile import DEVICES, FILES
from tests.unit.discovery.test_unreadable import RESOURCES, WORLD

MARKER = "sEcReT7MaRkEr"


def public(wanted: Resource, host: RecordedHost) -> str:
    """The parts of a reading that leave the detector's process, and appear on the Node or in `status`."""
    reading = read_resource(wanted, host, "node")
    return json.dumps([encode_variant(reading), encode_variant(without_details(reading))])


@pytest.mark.slow
@pytest.mark.parametrize("wanted", RESOURCES, ids=range(len(RESOURCES)))
@pytest.mark.parametrize("content", [MARKER, f"4 {MARKER}", f"{MARKER}\n{MARKER}", f"\x1b{MARKER}"])
def test_no_file_is_quoted(wanted: Resource, content: str) -> None:
    for path in (file for file in FILES if not file.endswith("/bonding/slaves")):  # contains names of interfaces
        assert MARKER not in public(wanted, RecordedHost(merge(WORLD, files_of({path: content})))), path


@pytest.mark.parametrize("wanted", RESOURCES, ids=range(len(RESOURCES)))
def test_no_property_is_quoted(wanted: Resource) -> None:
    properties = {
        device: dict.fromkeys(("ID_SERIAL_SHORT", "ID_WWN", "DEVLINKS", "TAGS", "ID_MODEL"), MARKER)
        for device in DEVICES
    }
    assert MARKER not in public(wanted, RecordedHost(merge(WORLD, {"properties": properties})))
