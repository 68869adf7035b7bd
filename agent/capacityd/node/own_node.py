"""Determines this machine's Node: from the credentials' user, the configuration, or the host name."""

from __future__ import annotations

import base64
import json
import re
import ssl
from uuid import UUID

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import NodeUnauthorized
from capacityd.model.node import NodeState
from capacityd.model.text import printable
from capacityd.node.identity import Identity, Machine, User
from capacityd.node.tls import CERTIFICATE

KUBELET_PREFIX = "system:node:"
"""A kubelet's user name is this prefix and the name of its Node."""
_KUBELET_IN_DER = re.compile(rb"(.)" + KUBELET_PREFIX.encode(), re.DOTALL)
"""The start of a kubelet's common name in a certificate, and the byte before it.

In DER, this byte is the length of the common name, because the name has at most 64 characters (X.690, 8.1.3)."""


def identify(access: ClusterAccess, user: User, configured_name: str | None, hostname: str) -> Identity:
    """Determines the Node to use.

    The Node's name comes from the user name of a kubelet, or from the Node that a token is bound to. For other
    credentials, the name comes from the configuration or, by default, from the host name.

    configured_name: node_name in the configuration, if set. Raises NodeUnauthorized if the configuration and the
    credentials name different Nodes.
    """
    kubelets_node = _node_of_user(user.name)
    name = kubelets_node or user.bound_node
    if name and configured_name and name != configured_name:
        raise NodeUnauthorized(
            f'node_name is "{printable(configured_name)}", but the credentials belong to Node "{name}". '
            "Remove node_name, or use a kubeconfig of that Node"
        )
    return Identity(
        # By default, the kubelet makes its Node's name from the host name in the same way.
        node=name or configured_name or hostname.strip().lower(),
        is_certain=bool(name or configured_name),
        # A kubeconfig that impersonates a kubelet may be a copy from another machine, for example in an image.
        is_own_node=kubelets_node != "" and not access.impersonated,
    )


def node_in_credentials(access: ClusterAccess) -> str:
    """The Node that the credentials name, without a request to the API server; "" if they name none."""
    if access.impersonated:
        return _node_of_user(access.impersonated)
    if access.token:
        return _node_of_token(access.token)
    return _node_of_certificate(access.certificate or "")


def _node_of_user(user: str) -> str:
    """The Node of a kubelet's user name; "" for any other user."""
    if not user.startswith(KUBELET_PREFIX):
        return ""
    return user.removeprefix(KUBELET_PREFIX)


def _node_of_token(token: str) -> str:
    """The Node to which a ServiceAccount's token is bound; "" for any other token.

    The token is a JSON Web Token. The claims are in privateClaims of k8s.io/kubernetes, pkg/serviceaccount/claims.go.
    """
    try:
        _header, payload, _signature = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=="))  # surplus padding is ignored
        return str(claims["kubernetes.io"]["node"]["name"])
    except (ValueError, KeyError, TypeError):
        return ""


def _node_of_certificate(certificate: str) -> str:
    """The Node's name in a kubelet's client certificate; "" for any other certificate. certificate: PEM."""
    try:
        der = ssl.PEM_cert_to_DER_cert(CERTIFICATE.findall(certificate)[0])
    except (ValueError, IndexError):
        return ""
    match = _KUBELET_IN_DER.search(der)
    if match is None:
        return ""
    length = match[1][0]  # the value of the byte
    start = match.end(1)
    common_name = der[start : start + length].decode(errors="replace")
    return _node_of_user(common_name)


def require_own_machine(identity: Identity, state: NodeState, machine: Machine) -> None:
    """Raises NodeUnauthorized if the Node is another machine's.

    With a kubelet's credentials, nothing is checked, because a kubelet has access to its own Node only. With any other
    credentials, the Node must have this machine's id, and must not have another machine's UUID. Clones of an image may
    share a machine-id, but the firmware or the hypervisor gives each machine a UUID of its own.
    """
    if identity.is_own_node or machine.machine_id is None:
        return
    node_uuid = _uuid(state.system_uuid)
    machine_uuid = _uuid(machine.system_uuid)
    if not machine.machine_id or state.machine_id != machine.machine_id:  # two missing ids do not match
        difference = "its machineID is not the one in /etc/machine-id"
    elif node_uuid and machine_uuid and node_uuid != machine_uuid:
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
