"""A killed service, and a runtime directory without room."""

from __future__ import annotations

import signal
import threading

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE
from tests.cluster.proxy import Exchange, Proxy
from tests.cluster.service import PROMPT, Service, service


def test_the_service_is_killed(proxy: Proxy, s: Service) -> None:
    """The service is killed while a proxy holds a PATCH back. The next service publishes the number with one PATCH."""
    s.connect(proxy.url)
    s.join(proxy.url)
    s.start()
    s.requests()
    held, go = threading.Event(), threading.Event()

    def hold(exchange: Exchange) -> None:
        held.set()
        go.wait(PATIENCE)
        exchange.relay()

    proxy.actions.append(hold)
    s.machine.plug("1-2")
    s.wait(held.is_set, PATIENCE, "a pass is under way")
    s.stop(signal.SIGKILL)
    go.set()
    s.start()
    s.wait_capacity("2")
    assert [request.verb for request in s.requests()].count("patch") == 1, "no double write"
    assert s.published() == {DONGLE: 2}


def test_a_full_runtime_directory(cluster: Cluster) -> None:
    """Numbers are still published and removed. `status` says what it cannot show."""
    name, full = "example.com/a", "No space left on device"
    with service(cluster) as s:
        s.runtime_directory.mkdir()
        s.machine.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", s.runtime_directory)
        machine_has(s, 4)
        s.configure(f'[resources."{name}"]\nfile = {{ path = "{s.folder}/a" }}\n')
        fill = s.runtime_directory / "fill"
        s.machine.run("sh", "-c", f"dd if=/dev/zero of={fill} bs=4k status=none || :")
        s.start(wait=False)
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
        assert s.published() == {name: 6}
        assert "Traceback" not in s.log()


def machine_has(s: Service, number: int) -> None:
    new = s.folder / "a.new"
    new.write_text(str(number))
    new.rename(s.folder / "a")
