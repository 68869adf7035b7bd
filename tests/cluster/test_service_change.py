"""Another writer changes the label of a resource while the service runs."""

from __future__ import annotations

import pytest

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, Service


@pytest.mark.protocol
def test_a_label_follows_the_number_and_is_restored(cluster: Cluster, service: Service) -> None:
    def label() -> str | None:
        value: str | None = cluster.node(service.node)["metadata"]["labels"].get(DONGLE)
        return value

    service.configure(f"{DONGLES}label = true\n")
    service.start()
    assert (service.capacity(), label()) == ("1", "1")
    service.machine.plug("1-2")
    service.wait_capacity("2")
    assert label() == "2"
    theirs = {"metadata": {"labels": {DONGLE: "7"}}}
    cluster.admin.patch(f"/api/v1/nodes/{service.node}", theirs)
    wait_until(lambda: label() == "2", PATIENCE, "the label is restored")
    service.configure(DONGLES)
    service.reload()
    wait_until(lambda: label() is None, PATIENCE, "the label is removed")
    assert service.published() == {DONGLE: 2}
