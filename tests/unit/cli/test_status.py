"""What `status` makes of the last pass."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from capacityd import __version__
from capacityd.cli import run
from capacityd.cli.commands.status import _resources
from capacityd.model.codec import from_file, to_file
from capacityd.model.messages import ServiceStatus
from capacityd.model.plan import Action, Change
from capacityd.model.reasons import Activity
from capacityd.worker.pass_state import NodeStatus, Outcome, PassStatus, ReadingStatus
from tests.support.server import answer, failure, serve
from tests.support.terminals import CASES, world
from tests.unit.node.test_api_node import configure

NAME = "example.com/dongle"


@pytest.mark.parametrize(
    ("quantity", "below", "expect", "held", "action", "reported"),
    [
        (2, {NAME: (2, 3)}, 3, False, Action.KEEP, True),
        (2, {NAME: (2, 3)}, 2, False, Action.KEEP, False),
        (2, {}, 3, False, Action.KEEP, True),
        (2, {}, None, False, Action.KEEP, False),
        (2, {}, 3, True, Action.HOLD, False),
        (2, {}, 3, False, Action.REFUSE, False),
        (None, {NAME: (0, 3)}, 1, False, Action.KEEP, True),
        (None, {}, 1, False, Action.KEEP, False),
    ],
)
def test_expect_is_that_of_the_last_reload_though_the_node_was_not_read_since(
    quantity: int | None,
    below: dict[str, tuple[int, int]],
    expect: int | None,
    held: bool,
    action: Action,
    reported: bool,
) -> None:
    """There may be no kubeconfig yet, or the API server may be unreachable."""
    reading = ReadingStatus(Outcome.ABSENT if quantity is None else Outcome.QUANTITY, quantity)
    last_pass = PassStatus(
        at=1.0,
        reasons=(),
        readings={NAME: reading},
        expect={} if expect is None else {NAME: expect},
        held_until={NAME: 9.0} if held else {},
        node=NodeStatus("n1", 0.0, (Change(NAME, action, "3", "2", ""),), below_expected=below),
    )
    (row,) = _resources(last_pass, now=2.0)
    assert (row.below_expect, row.degraded) == (reported, reported or action == Action.REFUSE)


@pytest.mark.parametrize(
    ("activity", "seconds", "code", "expected"),
    [
        (Activity.NODE, 45, 0, "the reconcile pass has taken 45 s so far: it waits for the API server"),
        (Activity.PROBE, 45, 0, "the reconcile pass has taken 45 s so far: it waits for a detector"),
        (Activity.NODE, 150, 4, "! the reconcile pass has taken"),
        (Activity.CHECK, 150, 4, "! the check of the configuration has taken"),
    ],
)
def test_a_pass_that_takes_long(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    activity: Activity,
    seconds: float,
    code: int,
    expected: str,
) -> None:
    with world(CASES["status-healthy"]) as folder:
        monkeypatch.setenv("RUNTIME_DIRECTORY", str(folder / "run"))
        path = folder / "run" / "service.json"
        status = from_file(ServiceStatus, path.read_bytes(), __version__)
        slow = replace(status, slow_activity=activity, slow_since=time.time() - seconds)
        path.write_bytes(to_file(slow, __version__))
        assert run(["status"]) == code
    assert expected in capsys.readouterr().out


CLASSES = [
    {"metadata": {"name": "usb.example.com"}, "spec": {"extendedResourceName": NAME}},
    {"metadata": {"name": "other"}, "spec": {"extendedResourceName": "example.com/gpu"}},
]


@pytest.mark.parametrize(
    ("answered", "status"),
    [(answer(200, {"kind": "DeviceClassList", "items": CLASSES}), 4), (failure(403, "no"), 0), (failure(404, "no"), 0)],
)
def test_a_device_class_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answered: bytes, status: int
) -> None:
    """Only with a kubeconfig whose user may list DeviceClasses; the kubelet's may not."""
    with world(CASES["status-healthy"]) as folder, serve(lambda _: answered) as server:
        monkeypatch.setenv("RUNTIME_DIRECTORY", str(folder / "run"))
        configure(tmp_path / "config", server.url, "secret-token")
        assert run(["status"]) == 0
        assert server.received == []
        capsys.readouterr()
        assert run(["status", "--kubeconfig", str(tmp_path / "config")]) == status
        text = capsys.readouterr().out
        assert (f"! {NAME}: the DeviceClass usb.example.com also serves it" in text) is (status == 4)
        assert run(["status", "--kubeconfig", str(tmp_path / "config"), "--json"]) == status
        classes = json.loads(capsys.readouterr().out)["device_classes"]
        assert classes == ({NAME: ["usb.example.com"]} if status else {})
        assert {request.path for request in server.received} == {"/apis/resource.k8s.io/v1/deviceclasses"}
