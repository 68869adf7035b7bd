"""When the cause of a wrong number has gone, the Node is right within a minute, even if no event says so."""

from __future__ import annotations

import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from capacityd.reconcile.memory import MIN_INTERVAL
from tests.cluster.admission import create_denial, delete_denial
from tests.cluster.agent import DONGLE, capacityd
from tests.cluster.controlplane import Cluster
from tests.cluster.dated_certificates import late_authority
from tests.cluster.identity import create_node
from tests.cluster.nodewatch import NodeWatch, Version, watch_node
from tests.cluster.processes import PATIENCE
from tests.cluster.proxy import Proxy
from tests.cluster.service import PROMPT, Service, service
from tests.cluster.test_story import denied
from tests.cluster.webhook import webhook
from tests.support.denials import Alters
from tests.support.machines import usb_device

pytestmark = pytest.mark.whole

MINUTE = 75.0
"""Seconds to wait for what happens within a minute."""

SEATS = "example.com/seats"

LATE = 50.0
"""Seconds until a certificate is valid: longer than the watcher tries with it."""

WRITES = 10
"""Writes of two agents on one Node after one has noticed the other: at most 6 in a row, then each once a minute."""


def configure_seats(s: Service, number: int, kubernetes: str = "", **service: str) -> Path:
    """Configures a resource whose number is in a file, in a folder of its own. Returns the file."""
    file = s.folder / "licences" / "seats"
    file.parent.mkdir(exist_ok=True)
    write(file, number)
    s.configure(f'[resources."{SEATS}"]\nfile = {{ path = "{file}" }}\n', kubernetes, **service)
    return file


def write(file: Path, number: int) -> None:
    """Replaces the file in one step."""
    new = file.with_name("new")
    new.write_text(str(number))
    new.rename(file)


def mount_over(s: Service, folder: Path, name: str) -> Path:
    """Mounts another folder over this one on the machine. Returns the other folder, which is visible from outside."""
    other = s.folder / name
    other.mkdir()
    s.machine.run("mount", "--bind", other, folder)
    return other


def test_a_mount_hides_a_watched_folder(s: Service) -> None:
    file = configure_seats(s, 4)
    s.start()
    over = mount_over(s, file.parent, "over")
    write(over / file.name, 6)
    s.wait_capacity("6", SEATS, MINUTE)
    write(over / file.name, 7)
    s.wait_capacity("7", SEATS)
    s.machine.run("umount", file.parent)
    s.wait_capacity("4", SEATS, MINUTE)


def test_a_mount_hides_the_folder_of_the_missing_kubeconfig(s: Service) -> None:
    """As on machines that mount a disk over /var/lib/kubelet at boot. The kubeconfig appears on that disk."""
    expected = s.folder / "kubelet" / "kubeconfig"
    expected.parent.mkdir()
    s.config.write_text(s.config.read_text().replace(str(s.kubeconfig), str(expected)))
    s.start()
    assert "does not exist" in s.last_pass().error
    over = mount_over(s, expected.parent, "disk")
    (over / "kubeconfig").write_bytes(s.kubeconfig.read_bytes())
    s.wait_capacity("1", deadline=MINUTE)


def test_a_file_is_no_longer_written(s: Service) -> None:
    """No event says that a file is older than max_age."""
    file = configure_seats(s, 4)
    s.config.write_text(s.config.read_text().replace(f'"{file}" }}', f'"{file}", max_age = "20s" }}'))
    s.start()
    assert s.condition()["status"] == "True"
    s.wait(lambda: s.condition()["status"] == "False", MINUTE, "it is too old")
    assert "max_age is 20 s" in s.condition()["message"]
    assert s.capacity(SEATS) == "4", "unknown is not zero"
    write(file, 5)
    s.wait_capacity("5", SEATS)
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, "it is written again")


LIMITS = {"max_inotify_instances": 0, "max_inotify_watches": 1}


@pytest.mark.parametrize("limit", LIMITS)
def test_no_more_files_can_be_watched(s: Service, limit: str) -> None:
    """The limits are those of a user namespace, in which only the service runs."""
    file = configure_seats(s, 4)
    set_limit = f'echo {{}} >/proc/sys/user/{limit}; exec "$@"'
    private = ["unshare", "--user", "--map-root-user", "sh", "-c", set_limit.format(LIMITS[limit]), "sh"]
    s.command = [*private, *capacityd(), "--config", s.config, "run"]
    s.start()
    write(file, 6)
    s.wait_capacity("6", SEATS, MINUTE)
    status = s.status()
    assert any("no more files can be watched" in error for error in status["event_source_errors"])
    assert "degraded" in s.cli("status").stdout
    assert s.process is not None
    inside = ["nsenter", f"--user=/proc/{s.process.pid}/ns/user", "sh", "-c", set_limit.format(1000), "sh", "true"]
    s.machine.run(*inside)
    s.wait(lambda: not s.status()["event_source_errors"], MINUTE, "its event sources are open")
    write(file, 7)
    s.wait_capacity("7", SEATS)
    assert s.cli("status").returncode == 0


def test_a_role_is_bound_later(cluster: Cluster) -> None:
    """At first the credentials of the machine have no right at all."""
    node = create_node(cluster)
    user = f"agent-of-{node}"
    with service(cluster, usb_device("1-1"), node=node) as s:
        s.configure(kubernetes=f'node_name = "{node}"')
        cluster.kubeconfig(user, s.kubeconfig, credentials="certificate", groups=[])
        s.start()
        assert "may not get" in s.last_pass().error
        cluster.grant(user, "create", "events")
        cluster.grant(user, "watch", "nodes")
        cluster.grant(user, "patch", "nodes/status")
        cluster.grant(user, "get", "nodes")
        s.wait_capacity("1", deadline=MINUTE)
        s.wait(lambda: s.condition().get("status") == "True", PROMPT, "the condition is True")
        s.wait_watched()


def test_a_certificate_is_not_valid_yet(cluster: Cluster, s: Service, proxy: Proxy) -> None:
    """The clock is behind. Nothing was wrong when the watch ended, and another writer comes meanwhile."""
    s.connect(proxy.url)
    s.join(proxy.url)
    s.start()
    s.wait(lambda: s.last_pass().at and not s.last_pass().waits, PATIENCE, "it has settled")
    proxy.present(late_authority(cluster.authority, s.folder / "late", LATE))
    valid_at = time.time() + LATE
    s.disconnect(proxy.url)
    s.connect(proxy.url)
    s.wait(lambda: "certificate that" in s.status()["not_watched"], PATIENCE, "the watch is lost")
    cluster.set_capacity(s.node, {DONGLE: "0"})
    s.wait(lambda: time.time() > valid_at, PATIENCE, "the certificate is valid")
    s.wait_capacity("1", deadline=MINUTE)
    s.wait_watched()


def test_a_policy_is_lifted(cluster: Cluster, s: Service) -> None:
    name = f"right-again-{s.node}"
    s.start()
    create_denial(cluster, name, s.node, DONGLE, 422, "not today")
    s.wait(lambda: denied(cluster, s.node), PATIENCE, "the API server has noticed the policy")
    s.machine.plug("1-2")
    s.wait(lambda: s.condition().get("reason") == "Denied", PROMPT, "the condition has it")
    delete_denial(cluster, name)
    s.wait(lambda: not denied(cluster, s.node), PATIENCE, "the API server has noticed that the policy is gone")
    s.wait_capacity("2", deadline=MINUTE)
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, "the condition is True")


def test_a_webhook_no_longer_removes_the_condition(cluster: Cluster, s: Service) -> None:
    with webhook(cluster, s.node) as hook:
        hook.alters = (Alters("condition", None),)
        s.start()
        assert (s.capacity(), s.condition()) == ("1", {})
        assert "degraded" in s.cli("status").stdout
        hook.alters = ()
        s.wait(lambda: s.condition().get("status") == "True", MINUTE, "the condition is there")
    s.wait(lambda: s.cli("status").returncode == 0, PROMPT, "nothing is wrong")


def test_two_agents_on_one_node(cluster: Cluster, s: Service) -> None:
    """The condition is False while both write, and each writes at most once a minute after a few writes."""
    configure_seats(s, 4)
    s.start()
    with service(cluster, node=s.node, name="second") as second, watch_node(cluster, s.node) as watch:
        configure_seats(second, 6)
        second.start()
        s.wait(lambda: s.condition()["reason"] == "Overwritten", MINUTE, "one of them has noticed")
        noticed, mark = time.time(), cluster.audit.mark()
        s.wait(lambda: len(writes(cluster, s.node, mark)) >= WRITES, PATIENCE * 3, "both write again and again")
        for quantity in ("4", "6"):
            times = [at for at, written in writes(cluster, s.node, mark) if written == quantity]
            assert all(later - earlier > MIN_INTERVAL - 1 for earlier, later in pairwise(times[-2:]))
        assert {version.condition["status"] for version in later(watch, noticed)} == {"False"}
        for each in (s, second):
            assert "degraded" in each.cli("status").stdout
        second.stop(signal.SIGTERM)
    s.wait(lambda: s.condition()["status"] == "True", 2 * MINUTE, "the other one has gone")
    assert s.last_applied() == {SEATS: 4}


def test_a_webhook_no_longer_removes_the_annotation(cluster: Cluster, s: Service) -> None:
    """While it does, no retry makes the condition True for a moment."""
    file = configure_seats(s, 4)
    s.start()
    with webhook(cluster, s.node) as hook, watch_node(cluster, s.node) as watch:
        hook.alters = (Alters("annotation", None),)
        write(file, 5)
        s.wait(lambda: s.condition()["reason"] == "Denied", PROMPT, "the condition says so")
        rejected, passes = time.time(), s.passes()
        s.wait_passes(1, passes, PATIENCE * 3)
        assert {version.condition["status"] for version in later(watch, rejected)} <= {"False"}
        hook.alters = ()
        s.wait(lambda: s.condition()["status"] == "True", MINUTE, "the annotation is there")
    assert s.last_applied() == {SEATS: 5}


def later(watch: NodeWatch, moment: float) -> list[Version]:
    """The versions of a Node since this moment in which its condition was written, in seconds since the epoch."""
    pairs = pairwise(watch.versions)
    return [after for before, after in pairs if after.received > moment and after.condition != before.condition]


def writes(cluster: Cluster, node: str, mark: int) -> list[tuple[float, str]]:
    """When an agent wrote the seats since this position in the audit log, and which quantity."""
    patches = [r for r in cluster.audit.since(mark) if (r.verb, r.name, r.code) == ("patch", node, 200)]
    ours = [r for r in patches if r.user_agent.startswith("capacityd/")]
    written = [(r.received, r.body.get("status", {}).get("capacity", {}).get(SEATS)) for r in ours]
    return [(at, quantity) for at, quantity in written if quantity is not None]
