"""A killed service, and a runtime directory without room."""

from __future__ import annotations

import signal
import threading

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE
from tests.cluster.proxy import Exchange, Proxy
from tests.cluster.service import PROMPT, Service, service_on_machine


def test_the_service_is_killed(proxy: Proxy, service: Service) -> None:
    """The service is killed while a proxy holds a PATCH back. The next service publishes the number with one PATCH."""
    service.connect(proxy.url)
    service.join(proxy.url)
    service.start()
    service.requests()
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold(exchange: Exchange) -> None:
        is_held.set()
        may_go_on.wait(PATIENCE)
        exchange.relay()

    proxy.actions.append(hold)
    service.machine.plug("1-2")
    service.wait(is_held.is_set, PATIENCE, "the proxy holds a PATCH back")
    service.stop(signal.SIGKILL)
    may_go_on.set()
    service.start()
    service.wait_capacity("2")
    assert [request.verb for request in service.requests()].count("patch") == 1, "no double write"
    assert service.published() == {DONGLE: 2}


def test_a_full_runtime_directory(cluster: Cluster) -> None:
    """Numbers are still published and removed. `status` says what it cannot show."""
    name, no_space = "example.com/a", "No space left on device"
    with service_on_machine(cluster) as service:
        service.runtime_directory.mkdir()
        service.machine.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", service.runtime_directory)
        write_number(service, 4)
        service.configure(f'[resources."{name}"]\nfile = {{ path = "{service.folder}/a" }}\n')
        fill = service.runtime_directory / "fill"
        service.machine.run("sh", "-c", f"dd if=/dev/zero of={fill} bs=4k status=none || :")
        service.start(wait=False)
        service.wait_capacity("4", name)
        service.wait(lambda: "the configuration check failed and is retried: " in service.log(), PROMPT, "it is logged")
        for number in (5, 3):
            write_number(service, number)
            service.wait_capacity(str(number), name)
        service.wait_true()
        stale = f"! {service.runtime_directory} is not writable: {no_space}; the information below is stale"
        assert stale in service.cli("status").stdout
        assert service.log().count(no_space) == 1, "it is logged once"

        service.machine.run("rm", fill)
        write_number(service, 6)
        service.wait_capacity("6", name)
        service.wait(lambda: service.cli("status").returncode == 0, PATIENCE, "status shows all")
        assert service.published() == {name: 6}
        assert "Traceback" not in service.log()


def write_number(service: Service, number: int) -> None:
    """Writes the number into the file that the service reads, in one step."""
    new = service.folder / "a.new"
    new.write_text(str(number))
    new.rename(service.folder / "a")
