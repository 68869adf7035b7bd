"""The kubelet's checkpoint of device plugins. An unreadable checkpoint does not mean that there are no plugins."""

from __future__ import annotations

import json

import pytest

from capacityd.host.kubelet import device_plugin_names
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.device_plugins import CHECKPOINT

# Entries of the checkpoint, as the kubelet writes them.
ENTRY = {"PodUID": "1", "ContainerName": "main", "ResourceName": "example.com/held", "DeviceIDs": {"-1": ["a"]}}
REGISTERED = {"example.com/card": ["a", "b"]}


def names_of(text: str) -> frozenset[str] | None:
    return device_plugin_names(RecordedHost({"files": {CHECKPOINT: text}}))


@pytest.mark.parametrize(
    ("held", "registered", "names"),
    [
        ([ENTRY], REGISTERED, {"example.com/held", "example.com/card"}),
        ([ENTRY, ENTRY], {}, {"example.com/held"}),
        ([], REGISTERED, {"example.com/card"}),
        (None, None, set()),
        (None, {"example.com/card": None}, {"example.com/card"}),
    ],
)
def test_names_that_are_registered_or_held_by_a_pod_are_device_plugins(
    held: object, registered: object, names: set[str]
) -> None:
    document = {"Data": {"PodDeviceEntries": held, "RegisteredDevices": registered}, "Checksum": 1}
    assert names_of(json.dumps(document)) == frozenset(names)


def test_no_checkpoint_has_no_names() -> None:
    assert device_plugin_names(RecordedHost({"files": {}})) == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"Data": null}',
        '{"Data": {}}',
        '{"Data": {"PodDeviceEntries": [{}], "RegisteredDevices": {}}}',
        '{"Data": {"PodDeviceEntries": [], "RegisteredDevices": ["example.com/card"]}}',
        '{"Data": {"PodDeviceEntries": []}}',
        "[" * 100_000,  # too deep for the parser
    ],
)
def test_a_damaged_checkpoint_is_unknown(text: str) -> None:
    assert names_of(text) is None
