"""Adds up the extended resources that pods request, as the scheduler does. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from capacityd.model.errors import InvalidDocument
from capacityd.model.fleet import Requests
from capacityd.model.quantity import whole_quantity
from capacityd.node.documents.fields import InvalidField, JsonObject, described, mapping, objects, printable_text

_FINISHED = ("Succeeded", "Failed")


def requests_of_pods(pods: Iterable[JsonObject]) -> Requests:
    """Returns the requests of all pods. Keeps no pod in memory, so the pods may come from a generator.

    Raises InvalidDocument if a pod has a field of a wrong type.
    """
    by_node: dict[str, Counter[str]] = {}
    waiting: Counter[str] = Counter()
    for pod in pods:
        try:
            node, requests = _node_and_requests(pod)
        except InvalidField as e:
            raise InvalidDocument(f"{described('Pod', pod)}: {e}") from e
        if not requests:
            continue
        if node:
            by_node.setdefault(node, Counter()).update(requests)
        else:
            waiting.update(requests.keys())
    return Requests(by_node, waiting)


def _node_and_requests(pod: JsonObject) -> tuple[str, dict[str, int]]:
    """Returns the name of the pod's Node ("" if the pod is not bound) and its requests. Raises InvalidField."""
    status = mapping(pod, "status", "status") or {}
    if status.get("phase") in _FINISHED:
        return "", {}
    spec = mapping(pod, "spec", "spec") or {}
    requests = pod_requests(spec)
    if not requests:
        return "", {}
    node = printable_text(spec, "nodeName", "spec.nodeName")
    if not node and spec.get("schedulingGates"):  # the pod waits for these gates, not for a Node
        return "", {}
    return node, requests


def pod_requests(spec: JsonObject) -> dict[str, int]:
    """Returns the extended resources that a pod uses on its Node. spec: the pod's spec.

    The rule is PodRequests in k8s.io/component-helpers/resource (KEP-753): the containers run together with all
    restartable init containers (sidecars); an init container runs together with the earlier sidecars; the pod uses the
    larger sum, plus its overhead. Requests of the pod as a whole (KEP-2837) exist only for CPU, memory and huge pages,
    and only CPU and memory of a running pod can be resized. Raises InvalidField.
    """
    total: Counter[str] = Counter()
    for container in objects(spec, "containers", "spec.containers") or ():
        total.update(_extended_requests(container))
    sidecars: Counter[str] = Counter()
    largest_start: Counter[str] = Counter()
    for container in objects(spec, "initContainers", "spec.initContainers") or ():
        requests = _extended_requests(container)
        if container.get("restartPolicy") == "Always":
            total.update(requests)
            sidecars.update(requests)
            largest_start |= sidecars
        else:
            largest_start |= sidecars + requests
    total |= largest_start
    total.update(_extended(mapping(spec, "overhead", "spec.overhead")))
    return {name: quantity for name, quantity in total.items() if quantity > 0}


def _extended_requests(container: JsonObject) -> Counter[str]:
    resources = mapping(container, "resources", "resources of a container") or {}
    return _extended(mapping(resources, "requests", "resources.requests of a container"))


def _extended(quantities: JsonObject | None) -> Counter[str]:
    """The quantities of extended resources. The API server accepts only whole numbers for them."""
    return Counter(
        {
            name: number
            for name, text in (quantities or {}).items()
            if "/" in name and (number := whole_quantity(str(text))) is not None
        }
    )
