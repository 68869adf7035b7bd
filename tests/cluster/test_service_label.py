"""Labels on the real API server, written by the service with a kubelet's credentials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from capacityd.model.node import ANNOTATION
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, GET, PUBLISHED, Service, service
from tests.support.machines import usb_device

LABELLED = f"{DONGLES}label = true\n"


@contextmanager
def labelled(cluster: Cluster, text: str = LABELLED) -> Iterator[Service]:
    """The service, with one dongle published, as a label as well."""
    with service(cluster, usb_device("1-1")) as s:
        s.configure(text)
        s.start()
        s.wait_capacity("1")
        s.requests()
        yield s


def labels(cluster: Cluster, s: Service) -> dict[str, str]:
    found: dict[str, str] = cluster.node(s.node)["metadata"].get("labels", {})
    return found


def write(cluster: Cluster, s: Service, **changes: str | None) -> None:
    """Another writer changes labels of example.com."""
    metadata = {"labels": {f"example.com/{name}": value for name, value in changes.items()}}
    cluster.admin.patch(f"/api/v1/nodes/{s.node}", {"metadata": metadata})


@pytest.mark.protocol
def test_the_label_follows_the_number_in_the_same_patch(cluster: Cluster) -> None:
    with labelled(cluster) as s:
        assert labels(cluster, s)[DONGLE] == "1"
        s.machine.plug("1-2")
        s.wait_capacity("2")
        assert labels(cluster, s)[DONGLE] == "2"
        assert s.requested() == PUBLISHED
        s.machine.unplug("1-1")
        s.machine.unplug("1-2")
        s.wait_capacity(None)
        assert DONGLE not in labels(cluster, s)
        assert ANNOTATION not in cluster.node(s.node)["metadata"]["annotations"]


@pytest.mark.protocol
@pytest.mark.parametrize("value", ["7", "0", "yes", None])
def test_a_change_by_another_writer_is_undone(cluster: Cluster, value: str | None) -> None:
    with labelled(cluster) as s:
        write(cluster, s, dongle=value)
        wait_until(lambda: labels(cluster, s).get(DONGLE) == "1", PATIENCE, "the label is restored")
        wait_until(lambda: f"label {DONGLE}: {value or 'none'} → 1" in "".join(s.events()), PATIENCE, "an Event")
        assert s.requested() == PUBLISHED


@pytest.mark.protocol
def test_a_label_that_is_not_ours_is_never_written(cluster: Cluster) -> None:
    """The watch also reports other writers' labels, so a pass reads the Node."""
    with labelled(cluster) as s:
        write(cluster, s, other="1")
        write(cluster, s, other=None)
        s.wait_idle()
        assert {*s.requested()} <= {GET}


@pytest.mark.protocol
def test_a_label_of_another_writer_stays_and_the_number_is_published(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1")) as s:
        write(cluster, s, dongle="theirs")
        s.configure(LABELLED)
        s.start()
        s.wait_capacity("1")
        assert labels(cluster, s)[DONGLE] == "theirs"
        assert (s.condition()["status"], s.condition()["reason"]) == ("False", "Refused")
        rows = {(row["kind"], row["name"]): row for row in s.status()["resources"]}
        resource, label = rows["resource", DONGLE], rows["label", DONGLE]
        assert (resource["trouble"], label["trouble"]) == (None, "Refused")
        assert label["capacity"] == "theirs"
        assert json.loads(cluster.node(s.node)["metadata"]["annotations"][ANNOTATION]) == {DONGLE: 1}
        s.configure(f"{LABELLED}adopt = true\n")
        s.reload()
        wait_until(lambda: labels(cluster, s)[DONGLE] == "1", PATIENCE, "the label is adopted")
        wait_until(lambda: s.condition()["status"] == "True", PATIENCE, "all is published")


@pytest.mark.protocol
def test_a_label_that_is_no_longer_configured_goes(cluster: Cluster) -> None:
    with labelled(cluster) as s:
        s.configure(DONGLES)
        s.reload()
        wait_until(lambda: DONGLE not in labels(cluster, s), PATIENCE, "the label is removed")
        assert s.capacity() == "1"
        assert json.loads(cluster.node(s.node)["metadata"]["annotations"][ANNOTATION]) == {DONGLE: 1}
