"""All versions of a Node that a watch delivers, over its own connection to the API server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from capacityd.model.quantity import whole_quantity
from tests.cluster.agent import condition_of, published_on
from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN, token_of
from tests.cluster.processes import PATIENCE, wait_until


@dataclass(frozen=True, slots=True)
class Version:
    """A Node as the watch delivered it."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    received: float
    """Seconds since the epoch."""
    node: Any

    @property
    def published(self) -> dict[str, int]:
        return published_on(self.node)

    @property
    def condition(self) -> dict[str, Any]:
        return condition_of(self.node)

    @property
    def allocatable(self) -> dict[str, str]:
        return dict(self.node["status"].get("allocatable", {}))

    @property
    def not_allocatable(self) -> list[str]:
        """Published names that are not fully allocatable."""
        stored = self.allocatable
        return [
            name
            for name, number in self.published.items()
            if name not in stored or (whole_quantity(stored[name]) or 0) < number
        ]

    @property
    def wrongly_true(self) -> bool:
        """Whether the condition is True although something that is published is not allocatable."""
        return self.condition.get("status") == "True" and bool(self.not_allocatable)


class NodeWatch:
    """The versions delivered so far. watch_node() creates it."""

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self.problems: list[BaseException] = []
        self.ended = False

    def __iter__(self) -> Iterator[Version]:
        return iter(tuple(self.versions))

    def run(self, api: Api, name: str, timeout: int) -> None:
        try:
            query = {"fieldSelector": f"metadata.name={name}", "timeoutSeconds": str(timeout)}
            for event in api.watch("/api/v1/nodes", **query):
                if event["type"] == "ERROR":
                    raise RuntimeError(event["object"])
                self.versions.append(Version(event["type"], time.time(), event["object"]))
                if self.ended:
                    break
        except BaseException as error:  # noqa: BLE001  # the test reports it
            self.problems.append(error)


@contextmanager
def watch_node(cluster: Cluster, name: str) -> Iterator[NodeWatch]:
    """Watches a Node, which need not exist yet. When the context ends, the watch has delivered all versions."""
    watch = NodeWatch()
    api = Api(cluster.url, cluster.ca_file, token_of(ADMIN))
    thread = threading.Thread(target=watch.run, args=(api, name, 3600), daemon=True)
    thread.start()
    try:
        yield watch
        _catch_up(cluster, name, watch)
    finally:
        watch.ended = True
    assert not watch.problems, watch.problems[0]


def _catch_up(cluster: Cluster, name: str, watch: NodeWatch) -> None:
    """Makes a last write, and waits until the watch has delivered it."""
    cluster.admin.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"tests.example/last": "x"}}})
    wait_until(
        lambda: watch.problems or "tests.example/last" in watch.versions[-1].node["metadata"]["labels"],
        PATIENCE,
        "the watch has delivered the last version",
    )


def wrongly_true_after_others(versions: Sequence[Version]) -> list[Version]:
    """The versions whose condition is wrongly True because another writer changed allocatable.

    Raises AssertionError if capacityd wrote such a version. Only its writes change the condition or the annotation.
    """
    found = []
    for before, after in zip([None, *versions], versions, strict=False):
        if not after.wrongly_true:
            continue
        ours = before is None or (before.condition, before.published) != (after.condition, after.published)
        assert not ours, f"capacityd wrote True: {after.not_allocatable} of {after.published} in {after.allocatable}"
        found.append(after)
    return found
