"""The scene of a history of faults (fault_histories.py): a real Node, service and machine, and faults for them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from tests.cluster.admission import create_denial, delete_denial, is_denied
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.etcd import no_space
from tests.cluster.identity import create_node
from tests.cluster.kubelet import Kubelet, kubelet
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, Service, service_on_machine
from tests.cluster.truth import Change
from tests.cluster.webhook import Webhook, webhook
from tests.support.machines import usb_device

SEATS, POOL, FRESH = "example.com/seats", "example.com/pool", "example.com/fresh"
MAX_AGE, REFRESH = 20.0, 8.0
"""Seconds: the max_age of FRESH, and how often its file is written."""


@dataclass
class Scene:
    """Everything on which faults and changes act. prepared_scene() creates it."""

    cluster: Cluster
    service: Service
    kubelet: Kubelet | None
    webhook: Webhook | None
    numbers: dict[str, int] = field(default_factory=lambda: {DONGLE: 2, SEATS: 4, POOL: 5, FRESH: 3})
    """The machine's quantity of each resource."""
    changes: list[Change] = field(default_factory=list)
    """The changes of the quantities so far."""
    refreshed: threading.Event = field(default_factory=threading.Event)
    """Whether the file of the resource FRESH is written again and again."""
    seats_folder: Path = Path()
    """The folder in which the service reads the seats."""
    turns: Iterator[str] = field(default_factory=lambda: cycle((DONGLE, SEATS, POOL)))
    """Which quantity changes next."""

    @property
    def node(self) -> str:
        return self.service.node

    def note(self, *names: str) -> None:
        """Records the present quantities of these resources."""
        self.changes.append(Change(time.time(), {name: self.numbers[name] for name in names}))

    def change(self, name: str | None = None) -> None:
        """Raises a quantity by 1. By default, the resources take turns."""
        name = name or next(self.turns)
        self.numbers[name] += 1
        if name == DONGLE:
            self.service.machine.plug(f"1-{self.numbers[name]}")
        else:
            write_number(self.seats_folder if name == SEATS else self.service.folder / "pool", self.numbers[name])
        self.note(name)

    def has_node(self) -> bool:
        """Whether the Node exists."""
        nodes = self.cluster.admin.get("/api/v1/nodes")["items"]
        return any(node["metadata"]["name"] == self.node for node in nodes)


def write_number(folder: Path, number: int) -> None:
    """Writes the number into the file `number` of this folder, in one step."""
    new = folder / "new"
    new.write_text(str(number))
    new.rename(folder / "number")


# Each fault is a context manager: it begins with the context, and ends with it.


@contextmanager
def runtime_not_ready(scene: Scene) -> Iterator[None]:
    """The kubelet starts before its runtime, and zeroes its Node. At the end, its Node is ready."""
    assert scene.kubelet is not None
    if scene.kubelet.runs:  # not while the Node is missing
        scene.kubelet.stop()
    for file in scene.kubelet.device_plugins.iterdir():
        file.unlink(missing_ok=True)
    scene.kubelet.stop_runtime()
    scene.kubelet.start(wait=False)
    yield
    scene.kubelet.start_runtime()


@contextmanager
def mount_over_folder(scene: Scene) -> Iterator[None]:
    """A mount hides the folder of the seats, and stays. No event reports it, so the next comparison finds it."""
    over = scene.service.folder / "over"
    over.mkdir()
    scene.numbers[SEATS] *= 3
    write_number(over, scene.numbers[SEATS])
    scene.service.machine.run("mount", "--bind", over, scene.seats_folder)
    scene.seats_folder = over
    scene.note(SEATS)
    yield


@contextmanager
def inotify_used_up(scene: Scene) -> Iterator[None]:
    """The service can watch no more files, and the folder of the pool is replaced."""
    set_inotify_limit(scene, 0)
    folder = scene.service.folder / "pool"
    folder.rename(scene.service.folder / f"old-{time.monotonic_ns()}")
    folder.mkdir()
    scene.change(POOL)
    yield
    set_inotify_limit(scene, 1000)


def set_inotify_limit(scene: Scene, number: int) -> None:
    """Sets the limit of inotify instances in the service's own user namespace."""
    assert scene.service.process is not None
    user = f"--user=/proc/{scene.service.process.pid}/ns/user"
    scene.service.machine.run("nsenter", user, "sh", "-c", f"echo {number} >/proc/sys/user/max_inotify_instances")


@contextmanager
def policy_denies(scene: Scene) -> Iterator[None]:
    """A policy denies each change of a resource."""
    name = f"denies-{scene.node}"
    create_denial(scene.cluster, name, scene.node, SEATS)
    scene.change(SEATS)
    yield
    delete_denial(scene.cluster, name)
    wait_until(lambda: not is_denied(scene.cluster, scene.node, SEATS), PATIENCE, "the policy is gone")


@contextmanager
def webhook_denies(scene: Scene) -> Iterator[None]:
    """A webhook denies each change of a resource."""
    assert scene.webhook is not None
    scene.webhook.denied = DONGLE
    scene.change(DONGLE)
    yield
    scene.webhook.denied = ""


@contextmanager
def condition_removed(scene: Scene) -> Iterator[None]:
    """A webhook removes the condition from each write."""
    assert scene.webhook is not None
    scene.webhook.removes_condition = True
    scene.change()
    yield
    scene.webhook.removes_condition = False


@contextmanager
def second_agent(scene: Scene) -> Iterator[None]:
    """Another machine has the same credentials and configuration, and other numbers."""
    with service_on_machine(scene.cluster, usb_device("2-1"), node=scene.node, name="second") as second:
        write_files(second, {SEATS: 11, POOL: 11, FRESH: 3})
        second.start(wait=False)
        yield
        second.stop(signal.SIGTERM)


@contextmanager
def source_too_old(scene: Scene) -> Iterator[None]:
    """The file of FRESH is not written any more, so its reading becomes unknown after MAX_AGE."""
    scene.refreshed.clear()
    path = scene.service.folder / "fresh" / "number"
    scene.changes.append(Change(path.stat().st_mtime + MAX_AGE, {FRESH: None}))
    yield
    refresh(scene)
    scene.refreshed.set()
    scene.note(FRESH)


def refresh(scene: Scene) -> None:
    """Gives the file of FRESH the present time."""
    os.utime(scene.service.folder / "fresh" / "number")


@contextmanager
def node_missing(scene: Scene) -> Iterator[None]:
    """The Node is deleted, and later registered anew."""
    if scene.kubelet:
        scene.kubelet.stop()
    scene.cluster.admin.delete(f"/api/v1/nodes/{scene.node}")
    yield
    if scene.kubelet:
        if not scene.kubelet.runs:
            scene.kubelet.start(wait=False)
        wait_until(scene.has_node, PATIENCE, "the kubelet has registered")
    else:
        create_node(scene.cluster, scene.node)


@contextmanager
def store_full(scene: Scene) -> Iterator[None]:
    """etcd refuses writes (NOSPACE)."""
    with no_space(scene.cluster):
        scene.change()
        yield


Fault = Callable[[Scene], AbstractContextManager[None]]
FAULTS: Mapping[str, Fault] = {
    "runtime": runtime_not_ready,
    "mount": mount_over_folder,
    "inotify": inotify_used_up,
    "policy": policy_denies,
    "webhook": webhook_denies,
    "condition": condition_removed,
    "agent": second_agent,
    "max_age": source_too_old,
    "anew": node_missing,
    "nospace": store_full,
}


def resources(folder: Path) -> str:
    """The configuration, in TOML. folder: contains a folder for each file, such as seats/number."""
    tables = [DONGLES]
    for name, options in {SEATS: "", POOL: "", FRESH: f', max_age = "{MAX_AGE:.0f}s"'}.items():
        path = folder / name.partition("/")[2] / "number"
        tables.append(f'[resources."{name}"]\nfile = {{ path = "{path}"{options} }}\n')
    return "".join(tables)


@contextmanager
def prepared_scene(cluster: Cluster, kinds: Collection[str]) -> Iterator[Scene]:
    """A scene with what these kinds of faults need. The service has published all, and the condition is True."""
    with ExitStack() as stack:
        nodes_kubelet = stack.enter_context(kubelet(cluster)) if "runtime" in kinds else None
        if nodes_kubelet:
            nodes_kubelet.start()
        name = nodes_kubelet.name if nodes_kubelet else create_node(cluster)
        needs_webhook = not {"webhook", "condition"}.isdisjoint(kinds)
        hook = stack.enter_context(webhook(cluster, name)) if needs_webhook else None
        dongles = usb_device("1-1"), usb_device("1-2")
        service = stack.enter_context(service_on_machine(cluster, *dongles, node=name, kubelet=nodes_kubelet))
        scene = Scene(cluster, service, nodes_kubelet, hook)
        write_files(service, scene.numbers)
        if "inotify" in kinds:
            service.command = ["unshare", "--user", "--map-root-user", *service.command]
        scene.seats_folder = service.folder / "seats"
        scene.refreshed.set()
        scene.note(*scene.numbers)
        with _refreshing(scene):
            service.start()
            yield scene


def write_files(service: Service, numbers: Mapping[str, int]) -> None:
    """Writes the files with these numbers, and the configuration that reads them."""
    for name in (SEATS, POOL, FRESH):
        folder = service.folder / name.partition("/")[2]
        folder.mkdir()
        write_number(folder, numbers[name])
    service.configure(resources(service.folder))


@contextmanager
def _refreshing(scene: Scene) -> Iterator[None]:
    """Writes the file of FRESH again and again, while scene.refreshed is set."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(REFRESH):
            if scene.refreshed.is_set():
                refresh(scene)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
