"""Determines this machine's Node: from the credentials' user, the configuration, or the host name."""

from __future__ import annotations

import base64
import json
import ssl
from uuid import UUID

from capacityd.model.errors import NodeUnauthorized
from capacityd.model.node import NodeState
from capacityd.model.text import printable
from capacityd.node import Identity, Machine
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.tls import CERTIFICATE

KUBELET_PREFIX = "system:node:"
"""A kubelet's user name is this prefix and the name of its Node."""


def identify(access: ClusterAccess, user: str, bound_node: str, configured: str | None, hostname: str) -> Identity:
    """Determines the Node to use.

    The Node's name comes from the user name of a kubelet, or from the Node that a token is bound to. For other
    credentials, the name comes from the configuration or, by default, from the host name.

    user: the user of the credentials; "" if unknown. bound_node: the Node that the token is bound to; "" if unknown.
    configured: node_name in the configuration, if set. Raises NodeUnauthorized if the configuration and the credentials
    name different Nodes.
    """
    is_kubelet = user.startswith(KUBELET_PREFIX)
    reported = user.removeprefix(KUBELET_PREFIX) if is_kubelet else bound_node
    if reported and configured and reported != configured:
        raise NodeUnauthorized(
            f'node_name is "{printable(configured)}", but the credentials belong to Node "{reported}". '
            "Remove node_name, or use a kubeconfig of that Node"
        )
    return Identity(
        # By default, the kubelet makes its Node's name from the host name in the same way.
        node=reported or configured or hostname.strip().lower(),
        is_certain=bool(reported or configured),
        # A kubeconfig that impersonates a kubelet may be a copy from another machine, for example in an image.
        is_own_node=is_kubelet and reported != "" and not access.impersonated,
        basis=basis_of(access, configured, hostname),
    )


def basis_of(access: ClusterAccess, configured: str | None, hostname: str) -> str:
    """Returns a text that changes if the credentials' files, the configured name or the host name change."""
    return repr((access.digest, configured, hostname))


def node_of(access: ClusterAccess) -> str:
    """The Node that the credentials name, without a request to the API server; "" if they name none."""
    if user := access.impersonated:
        return user.removeprefix(KUBELET_PREFIX) if user.startswith(KUBELET_PREFIX) else ""
    if access.token:
        return _node_of_token(access.token)
    return _node_of_certificate(access.certificate or "")


def _node_of_token(token: str) -> str:
    """The Node to which a ServiceAccount's token is bound; "" for any other token.

    The token is a JSON Web Token. The claims are in privateClaims of k8s.io/kubernetes, pkg/serviceaccount/claims.go.
    """
    try:
        _, payload, _ = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return str(claims["kubernetes.io"]["node"]["name"])
    except (ValueError, KeyError, TypeError):
        return ""


def _node_of_certificate(certificate: str) -> str:
    """The Node's name in a kubelet's client certificate; "" for any other certificate.

    certificate: PEM, which may also contain the key.
    """
    found = CERTIFICATE.search(certificate)
    if found is None:
        return ""
    try:
        der = ssl.PEM_cert_to_DER_cert(found[0])
    except ValueError:
        return ""
    # In DER, the byte before the common name is the name's length, because the name has at most 64 characters (X.690,
    # 8.1.3).
    start = der.find(KUBELET_PREFIX.encode())
    if start < 1:
        return ""
    length = der[start - 1]
    user = der[start : start + length].decode(errors="replace")
    return user.removeprefix(KUBELET_PREFIX)


def require_own_machine(identity: Identity, state: NodeState, machine: Machine) -> None:
    """Raises NodeUnauthorized if the Node is another machine's.

    With a kubelet's credentials, nothing is checked, because a kubelet has access to its own Node only. With any other
    credentials, the Node must have this machine's id, and must not have another machine's UUID. Clones of an image may
    share a machine-id, but the firmware or the hypervisor gives each machine a UUID of its own.
    """
    if identity.is_own_node or machine.machine_id is None:
        return
    their_uuid, our_uuid = _uuid(state.system_uuid), _uuid(machine.system_uuid)
    if not machine.machine_id or state.machine_id != machine.machine_id:  # two missing ids do not match
        difference = "its machineID is not the one in /etc/machine-id"
    elif their_uuid and our_uuid and their_uuid != our_uuid:
        difference = (
            "its systemUUID is not the one in /sys/class/dmi/id/product_uuid, although the machine-id is equal: give "
            "each machine its own machine-id (machine-id(5))"
        )
    else:
        return
    # The message omits the ids, because only root may read the UUID, and the Node's ids may be any text.
    raise NodeUnauthorized(
        f'Node "{state.name}" belongs to another machine: {difference}. Set node_name to the name under which this '
        "machine's kubelet registered"
    )


def _uuid(text: str) -> UUID | None:
    """Parses a machine's UUID; None for any other text.

    A kubelet that cannot read the firmware's UUID reports another text as systemUUID, such as the machine-id, which has
    no hyphens (GetSystemUUID in google/cadvisor, lib/utils/sysfs/sysfs.go).
    """
    try:
        return UUID(text) if "-" in text else None
    except ValueError:
        return None
