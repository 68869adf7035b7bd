"""Faults of the control plane's etcd, caused through its JSON interface."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE


@contextmanager
def no_space(cluster: Cluster) -> Iterator[None]:
    """etcd refuses writes, as when its quota is used up."""
    member = _ask(cluster, "cluster/member/list", {})["members"][0]["ID"]
    alarm = {"memberID": member, "alarm": "NOSPACE"}
    _ask(cluster, "maintenance/alarm", {"action": "ACTIVATE", **alarm})
    try:
        yield
    finally:
        _ask(cluster, "maintenance/alarm", {"action": "DEACTIVATE", **alarm})


def _ask(cluster: Cluster, path: str, body: object) -> Any:
    url = f"http://127.0.0.1:{cluster.api_server.etcd_port}/v3/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)
