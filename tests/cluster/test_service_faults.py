"""Faults between the running service and the API server, a killed service, and a runtime directory without room."""

from __future__ import annotations

import json
import signal
import threading
from functools import partial

from tests.cluster import faults
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.faults import Action
from tests.cluster.processes import PATIENCE
from tests.cluster.proxy import Proxy
from tests.cluster.service import PROMPT, Service, service

GET, PATCH = "GET", "PATCH"


def refusal(code: int, message: str = "no") -> Action:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return faults.status(code, json.dumps(body).encode(), {"Content-Type": "application/json"})


# One fault of each kind. tests/unit/node tests a broken answer to each method and each refusal.
FAULTS = (
    (PATCH, faults.reset(), "closed the connection"),
    (GET, faults.stall(), "did not respond in time"),
    (GET, refusal(401), "rejected the credentials"),
    (PATCH, refusal(403, 'nodes "n" is forbidden: not yet ready to handle request'), "is unavailable (HTTP 403)"),
    (GET, faults.echo(500, "boom"), "(a text with the token, "),
)
"""Method, action, and what the service logs. The last one quotes the credentials."""


def test_faults_that_end_are_logged_once_and_retried(proxied: Service, proxy: Proxy) -> None:
    """The service shows no credentials. Each fault has a resource of its own."""
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
        s.wait(partial(logged_since, s, begin, error), PATIENCE, "it logs the error")
        assert len(met.matched) == 1
        s.join(proxy.url)  # so that the service retries at once
        s.wait_capacity("1", names[number], PATIENCE)
        s.wait(partial(logged_since, s, begin, "recovered"), PATIENCE, "there is no error left")
        assert s.log().count(error, begin) == 1, "it is logged once"
        proxy.faults.clear()

    s.disconnect(proxy.url)
    passes = s.passes()
    s.machine.plug("2-1", serial=f"S{len(FAULTS)}")
    s.wait_passes(4, passes, PROMPT)
    assert s.log().count("refused the connection") == 1
    assert "refused the connection" in s.status()["problems"][0]["message"]
    s.connect(proxy.url)
    s.wait_capacity("1", names[-1])

    files = [path.read_text() for path in s.runtime_directory.iterdir() if path.is_file()]
    notified = [notification.line for notification in s.notifications.all()]
    on_node = json.dumps([s.cluster.node(s.node), s.events()])
    for text in (*files, *notified, on_node, s.log(), s.cli("status").stdout, s.cli("plan").stderr):
        assert "secret-of" not in text


def logged_since(s: Service, begin: int, text: str) -> bool:
    return text in s.log()[begin:]


def test_the_service_is_killed(proxied: Service, proxy: Proxy) -> None:
    """A pass holds its PATCH back. The next service publishes the number, and writes it once."""
    s = proxied
    s.requests()
    go = threading.Event()
    held = proxy.fault(faults.hold(go), PATCH)
    s.machine.plug("1-2")
    s.wait(lambda: held.matched, PATIENCE, "a pass is under way")
    s.stop(signal.SIGKILL)
    go.set()
    s.start()
    s.wait_capacity("2")
    assert [request.verb for request in s.requests()].count("patch") == 1, "no double write"
    assert s.last_applied() == {DONGLE: 2}


def test_a_full_runtime_directory(cluster: Cluster) -> None:
    """Numbers rise and fall as ever, and `status` says what it cannot show."""
    name, full = "example.com/a", "No space left on device"
    with service(cluster) as s:
        s.runtime_directory.mkdir()
        s.machine.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", s.runtime_directory)
        machine_has(s, 4)
        s.configure(f'[resources."{name}"]\nfile = {{ path = "{s.folder}/a" }}\n')
        fill = s.runtime_directory / "fill"
        s.machine.run("sh", "-c", f"dd if=/dev/zero of={fill} bs=4k status=none || :")
        s.start(ready=False, settled=False)
        s.wait_capacity("4", name)
        s.wait(lambda: "the configuration check failed and is retried: " in s.log(), PROMPT, "it is logged")
        for number in (5, 3):
            machine_has(s, number)
            s.wait_capacity(str(number), name)
        s.wait(lambda: s.condition()["status"] == "True", PROMPT, "nothing is wrong")
        stale = f"! {s.runtime_directory} is not writable: {full}; the information below is stale"
        assert stale in s.cli("status").stdout
        assert s.log().count(full) == 1, "it is logged once"

        s.machine.run("rm", fill)
        machine_has(s, 6)
        s.wait_capacity("6", name)
        s.wait(lambda: s.cli("status").returncode == 0, PATIENCE, "status shows all")
        assert s.last_applied() == {name: 6}
        assert "Traceback" not in s.log()


def machine_has(s: Service, number: int) -> None:
    new = s.folder / "a.new"
    new.write_text(str(number))
    new.rename(s.folder / "a")
