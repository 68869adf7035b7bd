"""Determines this machine's Node: from the credentials' user, the configuration, or the host name."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
from dataclasses import dataclass

from capacityd.model.errors import NodeOfOtherMachine, NodeUnauthorized
from capacityd.model.node import NodeState
from capacityd.model.quoting import length_text
from capacityd.model.text import printable
from capacityd.node import Machine, Review
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.system_uuid import is_of_another_machine

_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
KUBELET_PREFIX = "system:node:"
"""A kubelet's user name is this prefix and the name of its Node."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Our user and Node."""

    user: str
    """The user name; "" if it is not known."""
    node: str
    is_certain: bool
    """Whether the credentials or the configuration name the Node. Otherwise, node is only the host name."""
    is_own_node: bool
    """Whether the credentials are those of this Node's kubelet, so that the Node must be this machine's."""


def identify(review: Review | None, configured: str | None, hostname: str) -> Identity:
    """Determines the credentials' user and the Node to use.

    The Node's name comes from the user name of a kubelet, or from the Node that a token is bound to. For other
    credentials, the name comes from the configuration or, by default, from the host name.

    review: None if the API server does not allow a review. configured: node_name in the configuration, if it is set.
    Raises NodeUnauthorized if the configuration names another Node than the credentials.
    """
    # By default, the kubelet makes its Node's name from the host name in the same way.
    name = configured or hostname.strip().lower()
    if review is None:
        return Identity(user="", node=name, is_certain=bool(configured), is_own_node=False)
    is_kubelet = review.user.startswith(KUBELET_PREFIX)
    reported = review.user.removeprefix(KUBELET_PREFIX) if is_kubelet else review.node  # "" if there is no Node
    if reported and configured and reported != configured:
        raise NodeUnauthorized(
            f'node_name is "{printable(configured)}", but the credentials belong to Node "{reported}". '
            "Remove node_name, or use a kubeconfig of that Node"
        )
    # A kubeconfig that impersonates a kubelet may have been copied from another machine, in an image.
    is_own_node = is_kubelet and reported != "" and not review.impersonated
    is_certain = bool(reported or configured)
    return Identity(user=review.user, node=reported or name, is_certain=is_certain, is_own_node=is_own_node)


def node_of_certificate(certificate: str) -> str:
    """The Node's name in a kubelet's client certificate; "" for any other certificate.

    certificate: PEM, which may also contain the key.
    """
    found = _CERTIFICATE.search(certificate)
    if found is None:
        return ""
    try:
        der = ssl.PEM_cert_to_DER_cert(found[0])
    except ValueError:
        return ""
    # In DER, a byte with the length comes before the text of the common name, which has at most 64 characters (X.690,
    # 8.1.3).
    start = der.find(KUBELET_PREFIX.encode())
    if start < 1:
        return ""
    length = der[start - 1]
    user = der[start : start + length].decode(errors="replace")
    return user.removeprefix(KUBELET_PREFIX)


def is_kubelet_of(user: str, node: str) -> bool:
    """Whether this user is the kubelet of this Node, so that the credentials decide the Node's name."""
    return user == f"{KUBELET_PREFIX}{node}"


def token_user(token: str) -> str:
    """Returns a text that stays the same if this user's token is renewed.

    For a JSON Web Token, this is the user and the Node in the token. For any other token, it is the whole token.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(f"{payload}=="))  # JSON Web Tokens leave out the padding
        return repr((claims["sub"], claims.get("kubernetes.io", {}).get("node")))
    except (ValueError, LookupError, TypeError, AttributeError):
        return token


def require_own_machine(identity: Identity, state: NodeState, machine: Machine) -> None:
    """Raises NodeOfOtherMachine if the Node is another machine's.

    With a kubelet's credentials, nothing is checked, because a kubelet has access to its own Node only. With any other
    credentials, the Node must have this machine's id, and must not have another machine's UUID.
    """
    if identity.is_own_node or machine.machine_id is None:
        return
    require_machine(state, machine.machine_id, machine.system_uuid)


def require_machine(state: NodeState, machine_id: str, system_uuid: str) -> None:
    """Raises NodeOfOtherMachine if the Node does not belong to the machine with this id and UUID.

    system_uuid: "" if it is not known.
    """
    if not _has_machine_id(state, machine_id):
        theirs = _shown_id(state.machine_id) or "not set"
        ours = _shown_id(machine_id) or "none (/etc/machine-id is empty)"
        raise NodeOfOtherMachine(
            f'Node "{state.name}" belongs to another machine: its machineID is {theirs}, this machine\'s is {ours}. '
            "Set node_name to the name under which this machine's kubelet registered"
        )
    if is_of_another_machine(theirs=state.system_uuid, ours=system_uuid):
        raise NodeOfOtherMachine(
            f'Node "{state.name}" belongs to another machine, which has the same machine-id: its systemUUID '
            "is not the one in /sys/class/dmi/id/product_uuid. Set node_name to the name under which this "
            "machine's kubelet registered, and give each machine its own machine-id (machine-id(5))"
        )


def _has_machine_id(state: NodeState, machine_id: str) -> bool:
    # Two empty ids are unknown, not equal.
    return bool(machine_id) and state.machine_id == machine_id


def _shown_id(machine_id: str) -> str:
    """A machine's id for a message. Of a text that is not an id, only the length is shown."""
    is_id = re.fullmatch("[0-9A-Fa-f-]{0,64}", machine_id)
    return machine_id if is_id else f"not an id ({length_text(machine_id)})"


def credentials_hash(access: ClusterAccess) -> str:
    """Returns a hash that differs between the users of all kubeconfigs and clusters."""
    # The authority distinguishes clusters that have the same address on the loopback interface.
    secret = "\0".join((access.kubeconfig, access.server, access.authority or "", access.user_key))
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
