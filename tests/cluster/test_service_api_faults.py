"""Faults between the running service and the API server: the service reports each once, and recovers."""

from __future__ import annotations

import json
from functools import partial

from tests.cluster import faults
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import kubeconfig, node_user, token_of
from tests.cluster.faults import Action
from tests.cluster.processes import PATIENCE
from tests.cluster.proxy import Proxy
from tests.cluster.service import PROMPT, Service

GET, PATCH = "GET", "PATCH"
MOST = 262_144  # bytes of a Node's annotations


def refusal(code: int, **more: object) -> Action:
    message = 'nodes is forbidden: User "u" cannot patch resource "nodes/status"' if code == 403 else "no"
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code, **more}
    return faults.status(code, json.dumps(body).encode(), {"Content-Type": "application/json"})


NOT_READY = 'nodes "n" is forbidden: not yet ready to handle request'
# Here is one fault of each kind. tests/unit/node tests a broken answer to each method and each refusal.
FAULTS = (
    (PATCH, faults.reset(), "closed the connection"),
    (GET, faults.stall(), "did not respond in time"),
    (GET, refusal(401), "rejected the credentials"),
    (PATCH, refusal(403), "may not patch"),
    (PATCH, refusal(403, message=NOT_READY), "is unavailable (HTTP 403)"),
)
"""Method, action, and what the service logs."""


def test_faults_that_end_are_logged_once_and_retried(proxied: Service, proxy: Proxy) -> None:
    """The service retries after a pause, and logs each fault once. Each fault has its own resource, to avoid the rate
    limit."""
    s = proxied
    names = [f"example.com/r{number}" for number in range(len(FAULTS) + 1)]
    s.configure("".join(f'[resources."{name}"]\nusb = {{ serial = "S{n}" }}\n' for n, name in enumerate(names)))
    s.reload()
    for number, (method, action, error) in enumerate(FAULTS):
        begin = len(s.log())
        met = proxy.fault(action, method, "/api/v1/nodes/*")
        s.machine.plug(f"1-{2 + number}", serial=f"S{number}")
        if method == GET:
            s.join(proxy.url)  # with new credentials, the next pass reads the Node, and the watch starts anew
        s.wait_capacity("1", names[number], PATIENCE)
        assert len(met.matched) == 1
        s.wait(partial(logged_since, s, begin, error), PROMPT, "it logs the error")
        s.wait(partial(logged_since, s, begin, "recovered"), PATIENCE, "there is no error left")
        assert s.log().count(error, begin) == 1, "it is logged once"
        proxy.faults.clear()
    s.wait(lambda: names[-2] in s.events()[-1], PROMPT, "an Event")
    reported = [name for name in names if any(name in event for event in s.events())]
    assert reported == names[1:-1], "Events are best effort: none for a write whose answer was lost"

    s.disconnect(proxy.url)
    passes = s.passes()
    s.machine.plug("2-1", serial=f"S{len(FAULTS)}")
    s.wait_passes(4, passes, PROMPT)
    assert s.log().count("refused the connection") == 1
    assert "refused the connection" in s.status()["error"]
    s.connect(proxy.url)
    s.wait_capacity("1", names[-1])


def logged_since(s: Service, begin: int, text: str) -> bool:
    return text in s.log()[begin:]


def test_no_output_has_a_credential(proxied: Service, proxy: Proxy) -> None:
    """A server quotes the token in an error and in a denial. Then an exec plugin prints the token and fails."""
    s = proxied
    # tests/unit/node/test_quoting.py tests the other refusals.
    refusals = [(GET, 500, "boom"), (PATCH, 403, 'admission webhook "x" denied the request')]
    for number, (method, code, message) in enumerate(refusals, 2):
        begin = len(s.log())
        proxy.fault(faults.echo(code, message), method, "/api/v1/nodes/*", times=3)
        s.machine.plug(f"1-{number}")
        if method == GET:
            s.join(proxy.url)  # with new credentials, the next pass reads the Node
        s.wait(partial(logged_since, s, begin, "(a text with the token, "), PROMPT, f"it logs the {code}")
        shown = [s.cli("plan"), s.cli("status"), s.cli("status", "--json")]
        assert_no_token(s, *(text for command in shown for text in (command.stdout, command.stderr)))
        proxy.faults.clear()
        s.join(proxy.url)  # so that the service retries at once
        s.wait_capacity(str(number), deadline=PATIENCE)
    script = s.folder / "plugin"
    script.write_text(f"#!/bin/sh\necho {token_of(node_user(s.node))} | tee /dev/stderr\nexit 1\n")
    script.chmod(0o755)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}
    s.kubeconfig.write_text(kubeconfig(proxy.url, proxy.ca_file, {"exec": plugin}))
    s.wait(lambda: "because it may contain secrets" in s.log(), PROMPT, "it logs that the plugin failed")
    assert_no_token(s, s.cli("plan").stderr)


def assert_no_token(s: Service, *outputs: str) -> None:
    """No token is in these outputs, the journal, the files, systemd's status line, the Node or its Events."""
    files = [path.read_text() for path in s.runtime_directory.iterdir() if path.is_file()]
    notified = [notification.line for notification in s.notifications.all()]
    on_node = json.dumps([s.cluster.node(s.node), s.events()])
    for text in (*outputs, *files, *notified, on_node, s.log()):
        assert "secret-of" not in text


def test_without_room_for_the_annotation_nothing_is_published(cluster: Cluster, s: Service) -> None:
    """The annotation has no room, so nothing is published; the condition reports it."""
    node = f"/api/v1/nodes/{s.node}"
    cluster.admin.patch(node, {"metadata": {"annotations": {"other.example/notes": "x" * (MOST - 40)}}})
    s.start()
    assert (s.condition()["status"], s.condition()["reason"]) == ("False", "Denied")
    assert "Too long: may not be more than 262144 bytes" in s.condition()["message"]
    assert s.capacity() is None
    cluster.admin.patch(node, {"metadata": {"annotations": {"other.example/notes": None}}})
    s.reload()
    assert s.capacity() == "1"
    assert s.condition()["status"] == "True"


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
