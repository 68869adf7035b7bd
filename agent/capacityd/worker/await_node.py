"""Waits for a Node that is not registered yet, at the cost of a small request every few seconds.

A pass costs a hundred times as much, so a pass that finds no Node keeps waiting instead of running again and again.
"""

from __future__ import annotations

import argparse
import random
import time

from capacityd.host.kubelet import kubelet_started_at
from capacityd.linux.clock import uptime
from capacityd.model.config import Config
from capacityd.model.errors import NodeError, NodeMissing
from capacityd.model.host import Host
from capacityd.model.node import Node
from capacityd.node.kubelet_kubeconfig import changed_at

_EXPECTED_FOR = 600.0
"""A Node is expected for this many seconds after the machine or kubelet starts, or the kubeconfig changes."""
_PAUSE, _PAUSE_FACTOR, _PAUSE_MAX = 1.0, 1.1, 4.0
"""The pause between two requests is random, up to a limit. In seconds: the first limit, its growth factor, the last
limit."""


def registration_expected(config: Config, host: Host, options: argparse.Namespace) -> float:
    """Seconds for which to wait for the Node; 0 if the Node is not expected."""
    if options.node_file is not None:
        return 0.0
    starts = changed_at(options.kubeconfig or config.settings.kubeconfig), kubelet_started_at(host)
    ages = [uptime(), *(time.time() - at for at in starts if at is not None)]
    return max((_EXPECTED_FOR - age for age in ages if 0.0 <= age < _EXPECTED_FOR), default=0.0)


def await_node(node: Node, seconds: float) -> bool:
    """Waits for at most this many seconds. Returns whether to run a pass: the Node exists, or there is another
    error."""
    deadline, pause = time.monotonic() + seconds, _PAUSE
    while time.monotonic() < deadline:
        time.sleep(random.uniform(pause / 2, pause))  # noqa: S311  # jitter is no secret
        pause = min(_PAUSE_MAX, pause * _PAUSE_FACTOR)
        try:
            node.read()
        except NodeMissing:
            continue
        except NodeError:
            pass
        return True
    return False
