"""The time line of a boot shows the data that were measured."""

from __future__ import annotations

import json

from tests.cluster.boot_picture import DATA, PICTURE, draw


def test_the_picture_is_drawn_from_the_data() -> None:
    assert PICTURE.read_text() == draw(json.loads(DATA.read_text())), "run make docs-boot"


def test_what_the_data_show() -> None:
    """Before, the condition was True seconds before a pod could be placed; now it is the same moment."""
    data = json.loads(DATA.read_text())
    assert data["before"]["allocatable"] - data["before"]["condition"] > 5
    assert data["now"]["allocatable"] == data["now"]["condition"]
