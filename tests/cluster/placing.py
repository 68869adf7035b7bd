"""Pods that wait for devices, which are plugged in one by one: when each is bound, and that its kubelet admits it."""

from __future__ import annotations

import time
from collections.abc import Collection

from tests.cluster.api import Api
from tests.cluster.controlplane import PODS, Cluster
from tests.cluster.credentials import ADMIN, token_of
from tests.cluster.kubelet import Kubelet
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import Service

RESOURCES = 10
"""The devices are of so many resources in turn: one that changes more than six times is rate limited."""


def resource(number: int) -> str:
    """The resource of this device, which the pod of this number requests."""
    return f"example.com/r{number % RESOURCES}"


CONFIG = "".join(f'[resources."{resource(number)}"]\nusb = {{ serial = "S{number}" }}\n' for number in range(RESOURCES))


def place_one_by_one(
    cluster: Cluster, kubelet: Kubelet, s: Service, count: int, restarts: Collection[int] = ()
) -> list[float]:
    """Plugs so many devices in, each of which one of as many pods waits for. Returns the seconds until each is bound.

    restarts: the numbers of the devices that are plugged in while the kubelet is down. AssertionError if a pod is not
    admitted.
    """
    pods = [cluster.create_pod(kubelet.name, {resource(number): "1"}) for number in range(count)]
    for pod in pods:
        wait_until(lambda pod=pod: cluster.unschedulable(pod), PATIENCE, f"{pod} waits")  # type: ignore[misc]
    watcher = Api(cluster.url, cluster.ca_file, token_of(ADMIN))
    version = cluster.admin.get(PODS)["metadata"]["resourceVersion"]
    events = watcher.watch(PODS, resourceVersion=version, timeoutSeconds="3600")
    taken, bound = [], set[str]()
    for number in range(count):
        if number in restarts:
            kubelet.stop()
        plugged = time.monotonic()
        s.machine.plug(f"{1 + number // 8}-{1 + number % 8}", serial=f"S{number % RESOURCES}")
        for event in events:
            pod = event["object"]
            name = pod["metadata"]["name"]
            if name in pods and name not in bound and pod["spec"].get("nodeName"):
                taken.append(time.monotonic() - plugged)
                bound.add(name)
                break
        if number in restarts:
            kubelet.start()
        wait_until(lambda name=name: cluster.pod_phase(name) != "Pending", PATIENCE, f"{name} is admitted")  # type: ignore[misc]
    for pod in pods:
        status = cluster.pod(pod)["status"]
        reasons = [event["reason"] for event in cluster.events_of(pod, "Pod")]
        refused = [reason for reason in reasons if reason.startswith("OutOf") or reason == "UnexpectedAdmissionError"]
        assert (status["phase"], refused) == ("Running", []), f"{pod}: {status}"
    return taken
