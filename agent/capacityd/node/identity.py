"""Determines this machine's Node: from the credentials' user, the configuration, or the host name."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass

from capacityd.model.errors import NodeOfOtherMachine, NodeUnauthorized
from capacityd.model.node import NodeState
from capacityd.model.quoting import length_text
from capacityd.model.text import printable
from capacityd.node import Review
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.system_uuid import is_of_another_machine

KUBELET_PREFIX = "system:node:"
"""A kubelet's user name is this prefix and the name of its Node."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Our user and Node."""

    user: str
    """The user name; "" if the API server does not report it."""
    node: str
    is_own_node: bool
    """Whether the user is this Node's kubelet, so that the Node cannot be another machine's."""
    is_guess: bool
    """Whether the Node's name is only the host name, because the API server has denied the SelfSubjectReview."""
    is_cached: bool
    """Whether the identity comes from an earlier SelfSubjectReview."""


def identify(review: Review | None, configured: str | None, hostname: str, *, is_cached: bool) -> Identity:
    """Determines the credentials' user and the Node to use.

    review: None if the API server has denied it. configured: node_name in the configuration, if it is set. hostname:
    this machine's. is_cached: whether the review comes from an earlier request. Raises NodeUnauthorized if the
    configuration names another Node.
    """
    # By default, the kubelet also names its Node after the host name, without blanks around it and in lower case.
    name = configured or hostname.strip().lower()
    if review is None:
        return Identity(user="", node=name, is_own_node=False, is_guess=configured is None, is_cached=is_cached)
    is_kubelet = review.user.startswith(KUBELET_PREFIX)
    reported = review.user.removeprefix(KUBELET_PREFIX) if is_kubelet else review.node  # "" if there is no Node
    if reported and configured and reported != configured:
        raise NodeUnauthorized(
            f'node_name is "{printable(configured)}", but the credentials belong to Node "{reported}". '
            "Remove node_name, or use a kubeconfig of that Node"
        )
    # A kubeconfig that impersonates the Node's kubelet may have come with an image of another machine.
    is_own_node = is_kubelet and reported != "" and not review.impersonated
    node = reported or name
    return Identity(user=review.user, node=node, is_own_node=is_own_node, is_guess=False, is_cached=is_cached)


def is_kubelet_of(user: str, node: str) -> bool:
    """Whether this user is the kubelet of this Node, so that the credentials decide the Node's name."""
    return user == f"{KUBELET_PREFIX}{node}"


def token_user(token: str) -> str:
    """Returns what stays the same if this user's token is renewed.

    This is the user and the Node in a JSON Web Token. Any other token contains neither, so the whole token is returned.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(f"{payload}=="))  # JSON Web Tokens leave out the padding
        return repr((claims["sub"], claims.get("kubernetes.io", {}).get("node")))
    except (ValueError, LookupError, TypeError, AttributeError):
        return token


def is_of_machine(state: NodeState, machine_id: str | None, system_uuid: str) -> bool:
    """Whether the Node is this machine's.

    machine_id: this machine's id; None accepts any Node. system_uuid: this machine's; "" if it is not known.
    """
    if machine_id is None:
        return True
    return _has_machine_id(state, machine_id) and not is_of_another_machine(theirs=state.system_uuid, ours=system_uuid)


def require_own_machine(state: NodeState, machine_id: str | None, system_uuid: str) -> None:
    """Raises NodeOfOtherMachine if the Node is another machine's. machine_id, system_uuid: as in is_of_machine()."""
    if is_of_machine(state, machine_id=machine_id, system_uuid=system_uuid):
        return
    if _has_machine_id(state, machine_id):
        raise NodeOfOtherMachine(
            f'Node "{state.name}" belongs to another machine, which has the same machine-id: its systemUUID '
            "is not the one in /sys/class/dmi/id/product_uuid. Set node_name to the name under which this "
            "machine's kubelet registered, and give each machine its own machine-id (machine-id(5))"
        )
    theirs = _shown_id(state.machine_id) or "not set"
    ours = _shown_id(machine_id or "") or "none (/etc/machine-id is empty)"
    raise NodeOfOtherMachine(
        f'Node "{state.name}" belongs to another machine: its machineID is {theirs}, this machine\'s is {ours}. '
        "Set node_name to the name under which this machine's kubelet registered"
    )


def _has_machine_id(state: NodeState, machine_id: str | None) -> bool:
    # Two empty ids are unknown, not equal.
    return bool(machine_id) and state.machine_id == machine_id


def _shown_id(machine_id: str) -> str:
    """A machine's id for a message: a hexadecimal number, with or without dashes. Of any other text only the length."""
    is_id = re.fullmatch("[0-9A-Fa-f-]{0,64}", machine_id)
    return machine_id if is_id else f"not an id ({length_text(machine_id)})"


def credentials_hash(access: ClusterAccess) -> str:
    """Returns a hash that differs between the users of all kubeconfigs and clusters."""
    # The authority, because clusters may share an address on the loopback interface.
    secret = "\0".join((access.kubeconfig, access.server, access.authority or "", access.user_key))
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
