"""Which Node is this machine's: from the user of the credentials, the configuration, or the host name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from capacityd.model.errors import NodeDenied
from capacityd.model.text import printable
from capacityd.node import Review
from capacityd.node.cluster_access import ClusterAccess

_NODE_USER = "system:node:"


@dataclass(frozen=True, slots=True)
class Identity:
    """Our user and Node, according to the API server."""

    user: str
    """"" if the API server does not say."""
    node: str
    is_own_node: bool
    """The user is this Node's kubelet, so the Node cannot be another machine's."""
    cached: bool
    """Known from an earlier SelfSubjectReview."""


def identify(review: Review, configured: str | None, hostname: str, *, cached: bool) -> Identity:
    """Determines whose the credentials are and which Node to use. Raises NodeDenied if the configuration names another.

    cached: whether the review is of an earlier request. configured: node_name in the configuration.
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


def cache_key(access: ClusterAccess) -> str:
    """Returns a hash that differs between users of kubeconfigs."""
    # Clusters may have the same loopback address, but not the same certificate authority.
    secret = "\0".join((access.kubeconfig, access.server, access.authority or "", access.user))
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
