"""Whatever a library raises below host/ is a HostError: the value is then unknown, neither absent nor a defect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.forked import can_be_alone, run_alone
from tests.support.machines import bare, merge, usb_device, write_tree

MOUNTING = """ip link add va type veth peer name vb; ip address add 192.0.2.7/24 dev va
ip link set va up; ip route add default dev va
mount --rbind "$1/sys" /sys; mkdir -p /run/udev; mount --bind "$1/run/udev" /run/udev"""
PROGRAM = "import sys; from tests.support.host_faults import main; main(*sys.argv[1:])"
DEVICE = "/sys/bus/usb/devices/1-1"


@pytest.mark.slow
@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_every_fault_of_a_library_is_an_unknown(tmp_path: Path) -> None:
    write_tree(merge(bare(), usb_device("1-1", properties={"ID_TEST": "x"})), str(tmp_path))
    document = json.loads(run_alone(MOUNTING, PROGRAM, str(tmp_path), DEVICE))
    assert {name: wrong for name, (_, _, wrong) in document.items() if wrong} == {}
    assert {name for name, (outcome, _, _) in document.items() if outcome != "answer"} <= {"link_speeds"}
    assert {name for name, (_, faults, _) in document.items() if not faults} == {"hostname", "arch"}
    assert document["properties"][1] > 100
