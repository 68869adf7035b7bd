"""Adds up what pods request of extended resources, as the scheduler does. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from capacityd.model.fleet import Requests
from capacityd.model.quantity import whole_quantity

_FINISHED = ("Succeeded", "Failed")


def requests_of_pods(pods: Iterable[Mapping[str, Any]]) -> Requests:
    """Returns the requests of all pods. It keeps no pod, so the pods may come from a generator."""
    by_node: dict[str, Counter[str]] = {}
    waiting: Counter[str] = Counter()
    for pod in pods:
        spec = pod.get("spec") or {}
        if (pod.get("status") or {}).get("phase") in _FINISHED:
            continue
        requests = pod_requests(spec)
        if not requests:
            continue
        if node := spec.get("nodeName"):
            by_node.setdefault(node, Counter()).update(requests)
        elif not spec.get("schedulingGates"):  # a pod with gates waits for these
            waiting.update(requests.keys())
    return Requests(by_node, waiting)


def pod_requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """Returns the extended resources that a pod takes of its Node. spec: of the pod.

    The rule is that of PodRequests in k8s.io/component-helpers/resource (KEP-753): the containers run together, along
    with all restartable init containers (sidecars); an init container runs with the sidecars before it; the pod takes
    the larger of both, and its overhead. Requests of the pod as a whole (KEP-2837) exist for CPU, memory and huge pages
    only, and only CPU and memory of a running pod can be resized.
    """
    total: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        total.update(_extended_requests(container))
    sidecars: Counter[str] = Counter()
    largest_start: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        requests = _extended_requests(container)
        if container.get("restartPolicy") == "Always":
            total.update(requests)
            sidecars.update(requests)
            largest_start |= sidecars
        else:
            largest_start |= sidecars + requests
    total |= largest_start
    total.update(_extended(spec.get("overhead")))
    return {name: quantity for name, quantity in total.items() if quantity > 0}


def _extended_requests(container: Mapping[str, Any]) -> Counter[str]:
    return _extended((container.get("resources") or {}).get("requests"))


def _extended(quantities: Mapping[str, Any] | None) -> Counter[str]:
    """The quantities of extended resources, which the API server accepts as whole numbers only."""
    return Counter(
        {
            name: number
            for name, text in (quantities or {}).items()
            if "/" in name and (number := whole_quantity(str(text))) is not None
        }
    )
