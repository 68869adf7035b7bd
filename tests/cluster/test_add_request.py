"""The shipped policy that adds a request to pods that have none, on a real API server, scheduler and kubelet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.cluster.api import ApiError
from tests.cluster.controlplane import BASE_CAPACITY, IMAGE, Cluster
from tests.cluster.credentials import ADMIN
from tests.cluster.kubectl import kubectl
from tests.cluster.kubelet import Kubelet
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.test_enforce_bandwidth import MANIFEST as ENFORCE
from tests.cluster.test_enforce_bandwidth import annotations_of, both, runtime_class
from tests.cluster.versions import MUTATING_POLICIES
from tests.cluster.webhook import answering, client_config, patched

pytestmark = [pytest.mark.protocol, pytest.mark.since(MUTATING_POLICIES)]

MANIFEST = ROOT / "packaging/kubernetes/add-request.yaml"
RESOURCE = "example.com/build"
BUILDS = "builds"
ONE = {RESOURCE: "1"}
OLDER = "older"
"""A pod that was created before the policy."""


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Path:
    return cluster.kubeconfig(ADMIN)


@contextmanager
def applied(cluster: Cluster, admin: Path, manifest: Path, probe: dict[str, Any], namespace: str) -> Iterator[None]:
    """The policy of this manifest is in force. probe: a pod that it changes."""
    before = limits_of(create(cluster, probe, namespace))

    def changed() -> bool:
        return limits_of(create(cluster, probe, namespace)) != before

    done = kubectl(cluster, admin, "apply", "-f", manifest)
    assert done.returncode == 0, done.stderr
    wait_until(changed, PATIENCE, "the policy is in force")
    yield
    kubectl(cluster, admin, "delete", "-f", manifest)
    wait_until(lambda: not changed(), PATIENCE, "the policy is not in force any more")


@pytest.fixture(scope="module")
def added(cluster: Cluster, admin: Path) -> Iterator[None]:
    """The shipped policy is in force, in the namespace that it names."""
    cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": BUILDS}})
    create(cluster, pod([container()], name=OLDER), dry_run=False)
    with applied(cluster, admin, MANIFEST, pod([container()]), BUILDS):
        yield


def container(quantity: str | None = None, **more: object) -> dict[str, Any]:
    """A container, or a sidecar if `more` sets restartPolicy. quantity: its limit of the resource."""
    limits = {} if quantity is None else {RESOURCE: quantity}
    return {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "resources": {"limits": limits}, **more}


def pod(
    containers: list[dict[str, Any]],
    init: list[dict[str, Any]] | None = None,
    noted: str | None = None,
    name: str = "",
    **spec: object,
) -> dict[str, Any]:
    """A pod with these containers. noted: its annotation with the name of the resource."""
    metadata: dict[str, Any] = {"name": name} if name else {"generateName": "build-"}
    if noted is not None:
        metadata["annotations"] = {RESOURCE: noted}
    named = [{"name": f"main-{number}", **c} for number, c in enumerate(containers)]
    started = [{"name": f"init-{number}", **c} for number, c in enumerate(init or [])]
    return {
        "metadata": metadata,
        "spec": {"containers": named, "initContainers": started, "automountServiceAccountToken": False, **spec},
    }


def pods(namespace: str = BUILDS) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def create(cluster: Cluster, body: object, namespace: str = BUILDS, *, dry_run: bool = True) -> Any:
    return cluster.admin.create(f"{pods(namespace)}?dryRun=All" if dry_run else pods(namespace), body)


def limits_of(made: Any) -> list[dict[str, str]]:
    """The limits of each container, then of each init container. The requests must be the same."""
    parts = [c["resources"] for c in made["spec"]["containers"] + made["spec"].get("initContainers", [])]
    assert all(part.get("limits") == part.get("requests") for part in parts)
    return [part.get("limits", {}) for part in parts]


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(pod([container()]), [ONE], id="no request"),
        pytest.param(pod([container()], noted="3"), [{RESOURCE: "3"}], id="a number in the annotation"),
        pytest.param(pod([container()], noted="2k"), [{RESOURCE: "2k"}], id="a number with a suffix"),
        pytest.param(pod([container()], noted="0"), [{RESOURCE: "0"}], id="0 in the annotation"),
        pytest.param(
            pod([container(resources={"limits": {"cpu": "1m"}})]), [{"cpu": "1m", **ONE}], id="a limit of its own"
        ),
        pytest.param(pod([container(), container()]), [ONE, {}], id="several containers: once"),
        pytest.param(pod([container()], [container()]), [ONE, {}], id="an init container"),
        pytest.param(pod([container()], [container(restartPolicy="Always")]), [ONE, {}], id="a sidecar"),
        pytest.param(pod([container("7")]), [{RESOURCE: "7"}], id="a request already"),
        pytest.param(pod([container("7")], noted="3"), [{RESOURCE: "7"}], id="a request and an annotation"),
        pytest.param(pod([container("0")]), [{RESOURCE: "0"}], id="a request of 0"),
        pytest.param(pod([container(), container("7")]), [{}, {RESOURCE: "7"}], id="the second container requests"),
        pytest.param(pod([container()], [container("7")]), [{}, {RESOURCE: "7"}], id="an init container requests"),
    ],
)
def test_a_pod_without_a_request_gets_one(
    cluster: Cluster, body: dict[str, Any], expected: list[dict[str, str]]
) -> None:
    assert limits_of(create(cluster, body)) == expected


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    ("noted", "message"),
    [
        ("many", "'capacityd-add-request' denied request: .* quantities must match"),
        ("", "'capacityd-add-request' denied request: .* quantities must match"),
        ("1.5", rf"limits\[{RESOURCE}\]: Invalid value: \"1500m\": must be an integer"),
        ("-1", rf"limits\[{RESOURCE}\]: Invalid value: \"-1\": must be greater than or equal to 0"),
    ],
)
def test_a_pod_whose_annotation_is_no_whole_number_is_refused(cluster: Cluster, noted: str, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        create(cluster, pod([container()], noted=noted))


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    ("body", "number"),
    [
        pytest.param(pod([container()]), 1, id="no annotation"),
        pytest.param(pod([container(), container()], [container()], noted="3"), 3, id="several containers"),
    ],
)
def test_the_pod_is_pending_until_a_node_has_that_much(cluster: Cluster, body: dict[str, Any], number: int) -> None:
    node = node_with(cluster, number - 1)
    made = create(cluster, {**body, "spec": {**body["spec"], **only_on(node)}}, dry_run=False)
    path = f"{pods()}/{made['metadata']['name']}"
    wait_until(lambda: insufficient(cluster, path), PATIENCE, "1 is missing")
    set_number(cluster, node, number)
    wait_until(lambda: cluster.admin.get(path)["spec"].get("nodeName") == node, PATIENCE, "the pod is bound")


@pytest.mark.usefixtures("added")
def test_a_pod_with_0_needs_no_node_with_the_resource(cluster: Cluster) -> None:
    node = cluster.create_node(status={"allocatable": BASE_CAPACITY})
    made = create(cluster, pod([container()], noted="0", **only_on(node)), dry_run=False)
    path = f"{pods()}/{made['metadata']['name']}"
    wait_until(lambda: cluster.admin.get(path)["spec"].get("nodeName") == node, PATIENCE, "the pod is bound")


def only_on(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def node_with(cluster: Cluster, number: int) -> str:
    has = {**BASE_CAPACITY, RESOURCE: str(number)}
    return cluster.create_node(capacity=has, status={"allocatable": has})


def set_number(cluster: Cluster, node: str, number: int) -> None:
    has = {RESOURCE: str(number)}
    cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": has, "allocatable": has}})


def insufficient(cluster: Cluster, path: str) -> bool:
    conditions = cluster.admin.get(path)["status"].get("conditions", [])
    return any(f"Insufficient {RESOURCE}" in condition.get("message", "") for condition in conditions)


@pytest.mark.usefixtures("added")
def test_an_older_pod_is_left_alone(cluster: Cluster) -> None:
    path = f"{pods()}/{OLDER}"
    cluster.admin.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert limits_of(cluster.admin.get(path)) == [{}]


@pytest.mark.usefixtures("added")
def test_nothing_else_of_a_pod_changes(cluster: Cluster) -> None:
    """A merge by keys could lose one of two variables with the same name or of two ports with the same number."""
    unusual = container(
        env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        ports=[{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}],
    )
    with_it, without = (create(cluster, pod([unusual, container()]), namespace) for namespace in (BUILDS, "default"))
    assert limits_of(with_it) == [ONE, {}]
    assert limits_of(without) == [{}, {}]
    for made in (with_it, without):
        del made["spec"]["containers"][0]["resources"]
    assert with_it["spec"] == without["spec"]
    assert with_it["status"] == without["status"]
    assert [v["value"] for v in with_it["spec"]["containers"][0]["env"]] == ["1", "2"]


def copy_of(folder: Path, name: str, changes: Mapping[str, str]) -> Path:
    """The shipped file as a user copies it for another resource, with these changes."""
    text = MANIFEST.read_text()
    for old, new in {"capacityd-add-request": f"capacityd-add-{name}", **changes}.items():
        assert old in text, old
        text = text.replace(old, new)
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def test_pods_are_chosen_by_a_label(cluster: Cluster, admin: Path, tmp_path: Path) -> None:
    namespace = "    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: builds}}\n"
    manifest = copy_of(tmp_path, "labelled", {namespace: "", "# objectSelector:": "objectSelector:"})
    chosen = pod([container()])
    chosen["metadata"]["labels"] = {"app": "build"}
    with applied(cluster, admin, manifest, chosen, "default"):
        assert limits_of(create(cluster, chosen, "default")) == [ONE]
        assert limits_of(create(cluster, pod([container()]), "default")) == [{}]


def test_pods_are_chosen_by_their_runtime_class(cluster: Cluster, admin: Path, tmp_path: Path) -> None:
    lines = MANIFEST.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if "# matchConditions:" in line)
    conditions = {line: line.replace("# ", "", 1) for line in lines[at : at + 3]}
    changes = {**conditions, "kubernetes.io/metadata.name: builds": "kubernetes.io/metadata.name: default"}
    with runtime_class(cluster, {}) as name:
        manifest = copy_of(tmp_path, "runtime-class", {**changes, "gvisor": name})
        chosen = pod([container()], runtimeClassName=name)
        with applied(cluster, admin, manifest, chosen, "default"):
            assert limits_of(create(cluster, chosen, "default")) == [ONE]
            assert limits_of(create(cluster, pod([container()]), "default")) == [{}]


@pytest.mark.usefixtures("added")
def test_the_bandwidth_that_is_added_is_enforced(cluster: Cluster, admin: Path, tmp_path: Path) -> None:
    """The API server runs policies in no defined order."""
    mbps = "example.com/nic-mbps"
    manifest = copy_of(tmp_path, "bandwidth", {f"'{RESOURCE}'": f"'{mbps}'"})
    body = pod([container()])
    body["metadata"]["annotations"] = {mbps: "100"}
    with applied(cluster, admin, manifest, body, BUILDS):
        assert kubectl(cluster, admin, "apply", "-f", ENFORCE).returncode == 0
        expected = {mbps: "100", **both("100M")}
        try:
            wait_until(lambda: annotations_of(create(cluster, body)) == expected, PATIENCE, "it is enforced")
        finally:
            kubectl(cluster, admin, "delete", "-f", ENFORCE)


OWN = {"name": "own", "image": IMAGE, "resources": {"limits": {RESOURCE: "2"}, "requests": {RESOURCE: "2"}}}
REPLACES = {"op": "replace", "path": "/spec/containers/0/resources", "value": {"limits": {"cpu": "1m"}}}
ADDS = {"op": "add", "path": "/spec/containers/-", "value": OWN}


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param(REPLACES, [{"cpu": "1m", **ONE}], id="replaces the request"),
        pytest.param(ADDS, [ONE, {RESOURCE: "2"}], id="adds a container with a request: both count"),
    ],
)
def test_a_webhook_changes_the_pod_afterwards(
    cluster: Cluster, operation: dict[str, Any], expected: list[dict[str, str]]
) -> None:
    asked = []

    def answer(_: str, request: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return patched(request, [operation])

    body = pod([container()])
    body["metadata"]["labels"] = {"webhook": "yes"}
    with answering(cluster, answer) as port, _asked(cluster, port):
        wait_until(lambda: create(cluster, body) and asked, PATIENCE, "the API server asks the webhook")
        assert limits_of(create(cluster, body)) == expected


@contextmanager
def _asked(cluster: Cluster, port: int) -> Iterator[None]:
    """The API server asks a webhook about new pods with the label webhook=yes."""
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    hook = {
        "name": "pods.example.com",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "objectSelector": {"matchLabels": {"webhook": "yes"}},
        "clientConfig": client_config(cluster, port, "mutate"),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }
    cluster.admin.create(path, {"metadata": {"name": "pods"}, "webhooks": [hook]})
    try:
        yield
    finally:
        cluster.admin.delete(f"{path}/pods")


@pytest.mark.usefixtures("added")
def test_a_static_pod_counts_but_does_not_wait(cluster: Cluster, kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.configure({"staticPodPath": str(tmp_path)})
    kubelet.start()
    set_number(cluster, kubelet.name, 0)
    body = pod([container()], name="static", hostNetwork=True)
    body["metadata"]["namespace"] = BUILDS
    (tmp_path / "static.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **body}))
    mirror = f"{pods()}/static-{kubelet.name}"

    def runs() -> bool:
        listed = {made["metadata"]["name"] for made in cluster.admin.get(pods())["items"]}
        return f"static-{kubelet.name}" in listed and cluster.admin.get(mirror)["status"]["phase"] == "Running"

    wait_until(runs, PATIENCE, "the static pod runs, although the Node has 0")
    assert limits_of(cluster.admin.get(mirror)) == [ONE]
    set_number(cluster, kubelet.name, 1)
    made = create(cluster, pod([container()], **only_on(kubelet.name), hostNetwork=True), dry_run=False)
    path = f"{pods()}/{made['metadata']['name']}"
    wait_until(lambda: insufficient(cluster, path), PATIENCE, "the static pod has the only one")


def test_the_overhead_of_a_runtime_class_counts_without_the_policy(cluster: Cluster) -> None:
    node = node_with(cluster, 0)
    with runtime_class(cluster, ONE) as name:
        made = create(cluster, pod([container()], runtimeClassName=name, **only_on(node)), "default", dry_run=False)
    path = f"{pods('default')}/{made['metadata']['name']}"
    wait_until(lambda: insufficient(cluster, path), PATIENCE, "1 is missing")
    set_number(cluster, node, 1)
    wait_until(lambda: cluster.admin.get(path)["spec"].get("nodeName") == node, PATIENCE, "the pod is bound")


def test_a_limit_range_counts_each_container(cluster: Cluster) -> None:
    cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": "ranged"}})
    spec = {"limits": [{"type": "Container", "default": ONE}]}
    cluster.admin.create("/api/v1/namespaces/ranged/limitranges", {"metadata": {"name": "one"}, "spec": spec})

    def made() -> bool:
        return limits_of(create(cluster, pod([container(), container()], [container()]), "ranged")) == [ONE, ONE, ONE]

    wait_until(made, PATIENCE, "the API server knows the LimitRange")
