"""What a kubeconfig's user may contain beside credentials: a user to impersonate. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_UNSUPPORTED = {
    "auth-provider": "Kubernetes 1.26 removed it; use an exec plugin",
    "username": "Kubernetes 1.19 removed passwords",
    # With a group, the API server denies the impersonation of a token's own Node (KEP-5284).
    **dict.fromkeys(("as-groups", "as-uid", "as-user-extra"), "only the user can be impersonated (as)"),
}


def user_problem(user: Mapping[str, object]) -> str:
    """Why this user of a kubeconfig is not supported, as the end of a sentence; "" if it is."""
    for key, advice in _UNSUPPORTED.items():
        if user.get(key):
            return f"uses {key}: {advice}"
    impersonated = user.get("as")
    if isinstance(impersonated, str) and not (impersonated.isascii() and impersonated.isprintable()):
        return "names a user with invalid characters (as)"
    return ""
