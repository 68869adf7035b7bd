"""Determines this machine's Node: from the credentials' user, the configuration, or the host name."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass

from capacityd.model.errors import NodeDenied
from capacityd.model.text import printable
from capacityd.node import Review
from capacityd.node.cluster_access import ClusterAccess

_NODE_USER = "system:node:"


@dataclass(frozen=True, slots=True)
class Identity:
    """Our user and Node according to the API server."""

    user: str
    """The user name; "" if the API server does not report it."""
    node: str
    is_own_node: bool
    """Whether the user is this Node's kubelet, so that the Node cannot be another machine's."""
    cached: bool
    """Whether the identity comes from an earlier SelfSubjectReview."""


def identify(review: Review, configured: str | None, hostname: str, *, cached: bool) -> Identity:
    """Determines the credentials' user and the Node to use. Raises NodeDenied if the configuration names another Node.

    cached: whether the review comes from an earlier request. configured: node_name in the configuration.
    """
    user, node = review.user, review.node
    reported = user.removeprefix(_NODE_USER) if user.startswith(_NODE_USER) else node
    if reported and configured and reported != configured:
        raise NodeDenied(
            f'node_name is "{printable(configured)}", but the credentials belong to Node "{reported}". '
            "Remove node_name, or use a kubeconfig of that Node"
        )
    # The kubelet derives its name from the host name in the same way.
    name = reported or configured or hostname.strip().lower()
    return Identity(user, name, bool(reported) and user == _NODE_USER + reported, cached)


def token_user(token: str) -> str:
    """Returns what stays the same if this user's token is renewed: a JSON Web Token's user and Node, else the token."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return repr((claims["sub"], claims.get("kubernetes.io", {}).get("node")))
    except (ValueError, LookupError, TypeError, AttributeError):
        return token


def credentials_hash(access: ClusterAccess) -> str:
    """Returns a hash that differs between users of kubeconfigs."""
    # Clusters may share a loopback address, but not a certificate authority.
    secret = "\0".join((access.kubeconfig, access.server, access.authority or "", access.user))
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
