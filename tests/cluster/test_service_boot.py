"""The service starts before its machine joins a cluster."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.processes import PATIENCE
from tests.cluster.service import PROMPT, service_on_machine
from tests.support.machines import usb_device


def test_the_machine_joins(cluster: Cluster) -> None:
    """The kubeconfig appears first, then its certificate (behind a link, as with a kubelet). Both are file events.

    Then the API server becomes reachable. The Node appears last, and the watch reports it.
    """
    name = cluster.node_name()
    with service_on_machine(cluster, usb_device("1-1"), node=name) as service:
        service.kubeconfig.unlink()
        service.disconnect()
        service.start()  # the service is ready after its first probe
        why = f"the kubeconfig {service.kubeconfig} does not exist. Has the kubelet joined the cluster?"
        assert service.notifications.count(f"STATUS=waiting for a kubeconfig: {why}")
        current = service.folder / "pki" / "kubelet-client-current.pem"
        joined = cluster.kubeconfig(node_user(name), service.folder / "joined", credentials="certificate")
        document = json.loads(joined.read_text())
        (user,) = (entry["user"] for entry in document["users"])
        certificate = Path(user["client-certificate"])
        user |= {"client-certificate": str(current), "client-key": str(current)}
        passes = service.passes()
        new = service.folder / "new"
        new.write_text(json.dumps(document))
        new.rename(service.kubeconfig)
        service.wait_error("client-certificate named in")
        # The second pass sees a certificate that came before the service watched its path.
        service.wait_passes(2, passes)
        # The folder with the certificate appears in one step, because a pass may begin between two steps.
        new_folder = service.folder / "pki.new"
        new_folder.mkdir()
        (new_folder / current.name).symlink_to(certificate)
        new_folder.rename(current.parent)
        service.wait_error("Connection refused")
        service.connect()
        service.wait_error("Has the kubelet registered?")
        service.wait(lambda: service.watched, PATIENCE, "the service watches for the Node")
        cluster.create_node(name)
        service.wait_capacity("1")
        service.wait(lambda: "recovered" in service.log(), PROMPT, "there is no error left")
        assert service.log().count("Has the kubelet registered?") == 1, "each error is logged once"
        cluster.admin.delete(f"/api/v1/nodes/{name}")
        service.wait_error("Has the kubelet registered?")
