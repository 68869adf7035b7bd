"""Webhooks and policies that deny or alter writes to a Node's status, for the models of an API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.support.judge import node_view as view
from tests.support.nodes import merge

_REASON = "not on my Nodes"
_MESSAGES = {
    "webhook": f'admission webhook "w.example.com" denied the request: {_REASON}',
    "policy": f"nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: {_REASON}",
    "opaque": "the server rejected our request due to an error in our request",
    "storage": "etcdserver: request is too large",
}
"""The API server's message, by kind of denial."""


@dataclass(frozen=True, slots=True)
class Denies:
    """A validating webhook or policy that denies writes that change one capacity key or label."""

    name: str
    code: int
    kind: str = "webhook"
    """webhook, policy (the answer has a cause), opaque (the answer looks like a failed guard or a conflict), or storage
    (a server error, as if etcd could not store the Node)."""
    most: int | None = None
    """The quantity up to which changes are allowed, as is a removal. None: every change is denied."""

    def applies(self, before: str | None, after: str | None) -> bool:
        """Whether a change of the key from `before` to `after` is denied. None stands for a missing key."""
        if before == after:
            return False
        return self.most is None or (after is not None and int(after) > self.most)

    def status(self) -> tuple[int, str, Sequence[Mapping[str, str]]]:
        """The code, the message and the causes of the answer."""
        message = _MESSAGES[self.kind]
        return self.code, message, [{"message": message}] if self.kind == "policy" else []


@dataclass(frozen=True, slots=True)
class Alters:
    """A mutating webhook or policy.

    key: a capacity key, "annotation" or "condition", which it sets. value: the new value (None: it removes the key).
    """

    key: str
    value: str | None

    @property
    def is_about_itself(self) -> bool:
        """Whether it alters the annotation or the condition."""
        return self.key in ("annotation", "condition")


def alter(after: dict[str, Any], before: Mapping[str, Any], alters: Alters) -> None:
    """Alters the Node `after` a client's write, as a mutating webhook does."""
    capacity = after["status"].setdefault("capacity", {})
    if alters.key == "annotation":
        merge(after["metadata"].setdefault("annotations", {}), {view.PUBLISHED: alters.value})
    elif alters.key == "condition":
        after["status"]["conditions"] = [c for c in after["status"]["conditions"] if c["type"] != view.CONDITION]
        if alters.value is not None:
            altered = {"type": view.CONDITION, "status": "Unknown", "reason": "Altered", "message": alters.value}
            after["status"]["conditions"].append(altered)
    elif capacity.get(alters.key) != before["status"].get("capacity", {}).get(alters.key):
        merge(capacity, {alters.key: alters.value})


_KEYS = st.sampled_from(("example.com/a", "example.com/b", "example.com/c"))
_CODES = st.one_of(st.sampled_from([401, 403, 404, 409, 410, 413, 422, 429, 500, 503]), st.integers(400, 599))

denials = st.one_of(  # the arguments are: a key, the code, and the kind
    st.builds(Denies, _KEYS, _CODES),
    st.builds(Denies, _KEYS, st.sampled_from([401, 403, 413, 422]), st.just("policy")),
    st.builds(Denies, _KEYS, st.sampled_from([409, 422]), st.just("opaque")),
    st.builds(Denies, _KEYS, st.sampled_from([500, 503]), st.just("storage")),
    st.builds(Denies, _KEYS, st.sampled_from([403, 500]), most=st.integers(0, 5)),
)
alterations = st.one_of(
    st.builds(Alters, _KEYS, st.sampled_from([None, "3", "1k"])),
    st.builds(Alters, st.just("annotation"), st.sampled_from([None, "", "{}", '{"example.com/a":1}', "garbage"])),
    st.builds(Alters, st.just("condition"), st.sampled_from([None, "altered"])),
)
