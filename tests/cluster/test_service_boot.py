"""The service starts before its machine joins a cluster, and the machine later joins again under another name."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import groups_of, kubeconfig, node_user
from tests.cluster.processes import PATIENCE
from tests.cluster.service import PROMPT, Service, service
from tests.support.machines import usb_device


def test_the_machine_joins(cluster: Cluster) -> None:
    """The kubeconfig appears first, then its certificate (behind a link, as with a kubelet). Both are file events.

    Then the API server becomes reachable. The Node appears last, and the watch reports it.
    """
    name = cluster.node_name()
    with service(cluster, usb_device("1-1"), node=name) as s:
        s.kubeconfig.unlink()
        s.disconnect()
        s.start()  # the service is ready after its first probe
        why = f"the kubeconfig {s.kubeconfig} does not exist. Has the kubelet joined the cluster?"
        assert s.notifications.count(f"STATUS=waiting for a kubeconfig: {why}")
        pair = s.folder / "pki" / "kubelet-client-current.pem"
        made = cluster.kubeconfig(node_user(name), s.folder / "joined", credentials="certificate")
        document = json.loads(made.read_text())
        (user,) = (entry["user"] for entry in document["users"])
        now = Path(user["client-certificate"])
        user |= {"client-certificate": str(pair), "client-key": str(pair)}
        passes = s.passes()
        new = s.folder / "new"
        new.write_text(json.dumps(document))
        new.rename(s.kubeconfig)
        s.wait(lambda: "client-certificate named in" in s.last_pass().error, PROMPT, "it has read the kubeconfig")
        s.wait_passes(2, passes)  # the second pass sees a certificate that came before the service watched its path
        # In one step, because a pass may begin between two steps.
        made_beside = s.folder / "pki.new"
        made_beside.mkdir()
        (made_beside / pair.name).symlink_to(now)
        made_beside.rename(pair.parent)
        s.wait(lambda: "refused the connection" in s.last_pass().error, PROMPT, "it tries to connect")
        s.connect()
        s.wait(lambda: "Has the kubelet registered?" in s.last_pass().error, PROMPT, "it requests the Node")
        s.wait(lambda: s.watched, PATIENCE, "it watches for the Node")
        cluster.create_node(name)
        s.wait_capacity("1")
        s.wait(lambda: "recovered" in s.log(), PROMPT, "there is no error left")
        assert s.log().count("Has the kubelet registered?") == 1, "each error is logged once"
        cluster.admin.delete(f"/api/v1/nodes/{name}")
        s.wait(lambda: "Has the kubelet registered?" in s.last_pass().error, PROMPT, "it waits again")


def test_a_renamed_machine(cluster: Cluster, s: Service) -> None:
    """The kubelet joins again under another name. The kubeconfig stays, the file with the certificate is replaced."""
    pem = s.folder / "kubelet-client-current.pem"
    cluster.authority.client(node_user(s.node), groups_of(node_user(s.node)), pem)
    user = {"client-certificate": str(pem), "client-key": str(pem)}
    s.kubeconfig.write_text(kubeconfig(cluster.url, cluster.ca_file, user))
    s.start()
    s.wait_capacity("1")
    other = cluster.create_node()
    renewed = s.folder / "kubelet-client-new.pem"
    cluster.authority.client(node_user(other), groups_of(node_user(other)), renewed)
    with cluster.audit.requests(node_user(other)) as requests:
        renewed.rename(pem)
        s.wait(lambda: cluster.capacity(other).get(DONGLE) == "1", PROMPT, "the Node has the new name")
    assert [r for r in requests.all() if r.code == 403] == []
