"""Faults between the running service and the API server: the service reports each once, and recovers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from tests.cluster import faults
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import Authority, kubeconfig, node_user, token_of
from tests.cluster.faults import Action
from tests.cluster.processes import PATIENCE
from tests.cluster.proxy import Proxy, fault_proxy
from tests.cluster.service import PROMPT, Service, service
from tests.support.machines import usb_device

GET, PATCH = "GET", "PATCH"
MOST = 262_144  # bytes of a Node's annotations
_numbers = count()


def refusal(code: int, headers: dict[str, str] | None = None, **more: object) -> Action:
    message = 'nodes is forbidden: User "u" cannot patch resource "nodes/status"' if code == 403 else "no"
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code, **more}
    return faults.status(code, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})


NOT_READY = 'nodes "n" is forbidden: not yet ready to handle request'
# A broken answer to each method, and each refusal: tests/unit/node. Here, one of each kind.
FAULTS = {
    "reset-before-write": (PATCH, faults.reset(), "closed the connection"),
    "reset-after-write": (PATCH, faults.reset(carried_out=True), "closed the connection"),
    "half-an-answer-to-write": (PATCH, faults.half_answer(), "is incomplete"),
    "stalled": (GET, faults.stall(), "did not respond in time"),
    "401": (GET, refusal(401), "rejected the credentials"),
    "403-to-write": (PATCH, refusal(403), "may not patch"),
    "403-while-it-starts": (PATCH, refusal(403, message=NOT_READY), "is unavailable (HTTP 403)"),
    "404": (GET, refusal(404, details={"kind": "nodes"}), "Has the kubelet registered?"),
    "429": (GET, refusal(429, {"Retry-After": "2"}), "is unavailable (HTTP 429)"),
    "503": (PATCH, refusal(503), "is unavailable (HTTP 503)"),
}


@pytest.fixture(scope="module")
def behind(cluster: Cluster) -> Iterator[tuple[Service, Proxy]]:
    """A service behind a proxy, with a resource for each test, because one that keeps changing is held back."""
    with fault_proxy(cluster) as proxy, service(cluster) as s:
        s.configure("".join(f'[resources."{name(n)}"]\nusb = {{ serial = "S{n}" }}\n' for n in range(len(FAULTS) + 4)))
        s.connect(proxy.url)
        s.join(proxy.url)
        s.start()
        yield s, proxy


def name(number: int) -> str:
    return f"example.com/r{number}"


def plug(s: Service) -> str:
    """Plugs in a device with its own resource. Returns the resource's name."""
    number = next(_numbers)
    s.machine.plug(f"{1 + number // 8}-{1 + number % 8}", serial=f"S{number}")
    return name(number)


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_ends(behind: tuple[Service, Proxy], fault: str) -> None:
    s, proxy = behind
    method, action, error = FAULTS[fault]
    begin = len(s.log())
    times = 2 if fault in ("reset-before-write", "403-to-write") else 1
    met = proxy.fault(action, method, "/api/v1/nodes/*", times=times)
    resource = plug(s)
    try:
        s.wait_capacity("1", resource)
        assert len(met.matched) == times
        s.wait(lambda: error in s.log()[begin:], PROMPT, "it logs the error")
        s.wait(lambda: not error or "recovered" in s.log()[begin:], PATIENCE, "there is no error left")
        assert not error or s.log().count(error, begin) == 1, "it is logged once"
        # Events are best effort: none for a write whose answer was lost.
        expected = (
            [] if fault in ("reset-after-write", "half-an-answer-to-write") else [f"{resource}: none → 1 (found)"]
        )
        s.wait(
            lambda: [event for event in s.events() if resource in event] == expected,
            PROMPT,
            f"its Events are {expected}",
        )
    finally:
        proxy.faults.clear()


def test_refused(behind: tuple[Service, Proxy]) -> None:
    """It tries again soon, and logs it once."""
    s, proxy = behind
    s.disconnect(proxy.url)
    passes = s.passes()
    resource = plug(s)
    s.wait_passes(4, passes, PROMPT)
    assert s.log().count("refused the connection") == 1
    assert "refused the connection" in s.status()["error"]
    s.connect(proxy.url)
    s.wait_capacity("1", resource)


def test_the_event_can_not_be_written(behind: tuple[Service, Proxy]) -> None:
    s, proxy = behind
    proxy.fault(refusal(500), "POST", "*/events")
    s.wait_capacity("1", plug(s))
    s.wait(lambda: "the Event could not be written" in s.log(), PROMPT, "it reports it")
    assert not s.last_pass().error


def test_an_event_is_never_repeated(behind: tuple[Service, Proxy]) -> None:
    """A write whose answer was lost, then writes that are refused: no pass creates an Event of the first again."""
    s, proxy = behind
    events = proxy.fault(faults.before(lambda _: None), "POST", "*/events", times=None)
    try:
        proxy.fault(faults.reset(carried_out=True), PATCH)
        first = plug(s)
        s.wait_capacity("1", first)
        refused = proxy.fault(refusal(403), PATCH, times=3)
        second = plug(s)
        s.wait(lambda: len(refused.matched) == 3, PATIENCE, "three writes are refused")
        s.wait_capacity("1", second, PATIENCE)
        s.wait(lambda: any(second in event for event in s.events()), PROMPT, "the write is reported")
        assert not any(first.encode() in request.body for request in events.matched)
        assert sum(second.encode() in request.body for request in events.matched) == 1
    finally:
        proxy.faults.clear()


def test_no_output_has_a_credential(cluster: Cluster, proxied: Service, proxy: Proxy) -> None:
    """A server quotes the token in an error and in a denial, and then an exec plugin prints it and fails."""
    s = proxied
    denial = 'admission webhook "x" denied the request'
    # Each other refusal: tests/unit/node/test_redaction.py.
    refusals = [(GET, 500, "boom"), (PATCH, 403, denial)]
    for number, (method, code, message) in enumerate(refusals, 2):
        begin = len(s.log())
        proxy.fault(faults.echo(code, message), method, "/api/v1/nodes/*", times=3)
        s.machine.plug(f"1-{number}")
        s.wait(partial(redacted_since, s, begin), PROMPT, f"it logs the {code}")
        shown = [s.cli("plan"), s.cli("status"), s.cli("status", "--json")]
        assert_no_token(s, *(text for command in shown for text in (command.stdout, command.stderr)))
        proxy.faults.clear()
        s.join(proxy.url)  # so that it is tried at once
        s.wait_capacity(str(number), deadline=PATIENCE)
    script = s.folder / "plugin"
    script.write_text(f"#!/bin/sh\necho {token_of(node_user(s.node))} | tee /dev/stderr\nexit 1\n")
    script.chmod(0o755)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}
    s.kubeconfig.write_text(kubeconfig(proxy.url, proxy.ca_file, {"exec": plugin}))
    s.wait(lambda: "because it may contain secrets" in s.log(), PROMPT, "it logs that the plugin failed")
    assert_no_token(s, s.cli("plan").stderr)


def redacted_since(s: Service, begin: int) -> bool:
    """Whether the journal has an entry without what was quoted in it."""
    return "(redacted)" in s.log()[begin:]


def assert_no_token(s: Service, *outputs: str) -> None:
    """Neither in these nor in the journal, the files, systemd's status line, the Node or its Events."""
    folders = (s.runtime_directory, s.state_directory)
    files = [path.read_text() for folder in folders for path in folder.iterdir() if path.is_file()]
    notified = [notification.line for notification in s.notifications.all()]
    on_node = json.dumps([s.cluster.node(s.node), s.events()])
    for text in (*outputs, *files, *notified, on_node, s.log()):
        assert "secret-of" not in text


def test_annotations_that_are_full(cluster: Cluster, s: Service) -> None:
    """The annotation has no room, so nothing is published; the condition reports it."""
    node = f"/api/v1/nodes/{s.node}"
    cluster.admin.patch(node, {"metadata": {"annotations": {"other.example/notes": "x" * (MOST - 40)}}})
    s.start()
    assert "Too long: may not be more than 262144 bytes" in s.status()["error"]
    assert s.requested() == ["create selfsubjectreviews", "get nodes", *3 * ["patch nodes/status"]]
    assert (s.condition()["status"], s.condition()["reason"]) == ("False", "Rejected")
    assert "Too long" in s.condition()["message"]
    s.reload()
    assert s.requested() == ["get nodes", *2 * ["patch nodes/status"]], "the condition is there already"
    cluster.admin.patch(node, {"metadata": {"annotations": {"other.example/notes": None}}})
    s.reload()
    assert s.capacity() == "1"
    assert s.condition()["status"] == "True"


def test_writes_that_fail_while_the_node_can_be_read(proxied: Service, proxy: Proxy) -> None:
    """As if etcd could not store the Node: after a minute it is a rejection, and is reported as far as it can be."""
    s = proxied
    s.wait_capacity("1")
    proxy.fault(refusal(500, message="etcdserver: request is too large"), PATCH, times=None)
    s.machine.plug("1-2")
    s.wait(lambda: "can't be written either" in s.status()["error"], 60.0 + PATIENCE, "it is a rejection")
    assert "the Node's condition can't be written either" in s.log()
    status = s.status()
    assert status["next_reconcile"] - status["last_reconcile"] > 55.0, "from then on it has the pace of a rejection"


def test_another_authority(cluster: Cluster) -> None:
    stranger = Authority.create(cluster.folder / "stranger")
    with fault_proxy(cluster, stranger) as proxy, service(cluster, usb_device("1-1")) as s:
        s.connect(proxy.url)
        s.join(proxy.url, ca_file=cluster.ca_file)
        s.start()
        assert "did not sign" in s.last_pass().error
        s.join()
        s.wait_capacity("1")


def test_the_certificate_changes_while_all_is_well(cluster: Cluster, proxied: Service, proxy: Proxy) -> None:
    """It is the client library that meets it then, and no longer our own question of who we are."""
    s = proxied
    proxy.present(Authority.create(cluster.folder / "another-stranger"))
    passes = s.passes()
    s.machine.plug("1-2")
    s.wait_passes(2, passes)
    assert "did not sign" in s.last_pass().error
    assert len([line for line in s.log().splitlines() if "did not sign" in line]) == 1
    assert "Traceback" not in s.log()
    proxy.present(cluster.authority)
    s.join(proxy.url)  # so that it is tried at once
    s.wait_capacity("2")


def test_credentials_are_read_again(s: Service) -> None:
    s.join(token="revoked")
    s.start()
    assert "rejected the credentials" in s.last_pass().error
    s.join()
    s.wait_capacity("1")
    s.join(token="revoked again")
    s.machine.plug("1-2")
    s.wait(lambda: "rejected the credentials" in s.last_pass().error, PROMPT, "it reports it")
    s.join()
    s.wait_capacity("2")
