"""Adds up the extended resources that pods request, as the scheduler does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from capacityd.node.documents.fields import JsonObject, object_at, objects_at, printable_text_at
from kubectl_capacityd.cluster.documents.objects import naming_object, whole_quantities
from kubectl_capacityd.model import PodRequests

_FINISHED = ("Succeeded", "Failed")


def sum_requests(pods: Iterable[tuple[str, Mapping[str, int]]]) -> PodRequests:
    """Returns the sum of the requests of all pods. pods: results of node_and_requests()."""
    by_node: dict[str, Counter[str]] = {}
    waiting: Counter[str] = Counter()  # resource -> the number of pods that request it and have no Node
    for node, requests in pods:
        if node:
            by_node.setdefault(node, Counter()).update(requests)
        else:
            waiting.update(requests.keys())
    return PodRequests(by_node=by_node, waiting=waiting)


def node_and_requests(pod: JsonObject) -> tuple[str, Mapping[str, int]]:
    """Returns the name of the pod's Node ("" if the pod is not bound) and its requests. Raises InvalidDocument."""
    with naming_object("Pod", pod):
        status = object_at(pod, "status")
        spec = object_at(pod, "spec")
        node = printable_text_at(spec, "nodeName")
        is_finished = status.get("phase") in _FINISHED
        # A pod with scheduling gates waits for the gates, not for a Node.
        is_gated = node == "" and bool(spec.get("schedulingGates"))
        if is_finished or is_gated:
            return "", {}  # the pod uses nothing, and waits for no Node
        return node, pod_requests(spec)


def pod_requests(spec: JsonObject) -> dict[str, int]:
    """Returns the extended resources that a pod uses on its Node. spec: the pod's spec. Raises InvalidDocument.

    The rule is PodRequests in k8s.io/component-helpers/resource (KEP-753). Sidecars are restartable init containers.
    The containers run together with all sidecars. Each other init container runs together with the earlier sidecars.
    The pod uses the largest of these sums, plus its overhead. Requests of the pod as a whole (KEP-2837) and resizes of
    running pods do not exist for extended resources.
    """
    together: Counter[str] = Counter()  # requests of all containers and sidecars
    for container in objects_at(spec, "containers"):
        together.update(_extended_requests(container))
    sidecars: Counter[str] = Counter()  # requests of the sidecars that have started
    starting: Counter[str] = Counter()  # the maximum of the requests while the init containers run
    for container in objects_at(spec, "initContainers"):
        requests = _extended_requests(container)
        starting |= sidecars + requests  # for counters, | is the maximum
        is_sidecar = container.get("restartPolicy") == "Always"
        if is_sidecar:
            together.update(requests)
            sidecars.update(requests)
    total = together | starting
    total.update(_extended_resources(object_at(spec, "overhead")))
    return {name: quantity for name, quantity in total.items() if quantity > 0}


def _extended_requests(container: JsonObject) -> Counter[str]:
    resources = object_at(container, "resources")
    return _extended_resources(object_at(resources, "requests"))


def _extended_resources(quantities: JsonObject) -> Counter[str]:
    """The quantities of extended resources. The API server accepts only whole numbers for them."""
    numbers = whole_quantities(quantities)
    return Counter({name: number for name, number in numbers.items() if "/" in name})
