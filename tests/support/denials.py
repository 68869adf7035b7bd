"""Admission of writes to a Node's status, like that of webhooks and policies: it denies or alters writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from capacityd.model.label import label_of
from capacityd.model.node import ANNOTATION, CONDITION
from capacityd.node.refusal import HttpError

WEBHOOK = 'admission webhook "w.example.com" denied the request: '
_POLICY = "nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "
GUARD = "the server rejected our request due to an error in our request"
_TOO_LARGE = "etcdserver: request is too large"


@dataclass(frozen=True, slots=True)
class Denies:
    """A validating webhook or policy that denies writes that change one capacity key or label."""

    name: str
    code: int
    kind: str = "webhook"
    """webhook; policy: with a cause; opaque: with the text of a failed guard or of a conflict; storage: a server error,
    as if etcd could not store the Node."""
    most: int | None = None
    """A webhook allows quantities up to this number, and removing the key. None: the webhook denies any change."""

    def applies(self, before: str | None, after: str | None) -> bool:
        """Whether a write that changes the key from before to after is denied. None: the key is absent."""
        return before != after and (self.most is None or (after is not None and int(after) > self.most))

    def reason(self) -> str:
        """The reason that the condition must quote."""
        return {"opaque": "", "storage": _TOO_LARGE}.get(self.kind, "not on my Nodes")

    def error(self) -> HttpError:
        text = {
            "webhook": WEBHOOK + "not on my Nodes",
            "policy": _POLICY + "not on my Nodes",
            "opaque": GUARD,
            "storage": _TOO_LARGE,
        }[self.kind]
        return http_error(self.code, text, [{"message": text}] if self.kind == "policy" else [])


@dataclass(frozen=True, slots=True)
class Alters:
    """A mutating webhook or policy. key: a capacity key, or "annotation" or "condition"; value: None removes it."""

    key: str
    value: str | None


def http_error(
    code: int, message: str, causes: Sequence[Mapping[str, str]] = (), retry_after: float | None = None
) -> HttpError:
    details = {"name": "n1", "kind": "nodes"} | ({"causes": causes} if causes else {})
    status = {"kind": "Status", "status": "Failure", "message": message, "details": details, "code": code}
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:.0f}"}
    return HttpError(code, headers, json.dumps(status).encode())


def capacity_of(document: Mapping[str, Any]) -> dict[str, str]:
    quantities: dict[str, str] = document["status"].setdefault("capacity", {})
    return quantities


def stored_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The capacity, and the labels by their names in a plan."""
    labels: Mapping[str, str] = document["metadata"].get("labels") or {}
    return capacity_of(document) | {label_of(key): value for key, value in labels.items()}


def alter(after: dict[str, Any], before: Mapping[str, Any], alters: Alters) -> None:
    """Alters the Node like a mutating webhook, which runs for the writes of every client."""
    if alters.key == "annotation":
        annotations = after["metadata"].setdefault("annotations", {})
        annotations.pop(ANNOTATION, None)
        if alters.value is not None:
            annotations[ANNOTATION] = alters.value
    elif alters.key == "condition":
        conditions = [c for c in after["status"]["conditions"] if c["type"] != CONDITION]
        ours = {"type": CONDITION, "status": "Unknown", "reason": "Altered", "message": alters.value}
        after["status"]["conditions"] = conditions if alters.value is None else [*conditions, ours]
    elif capacity_of(after).get(alters.key) != before["status"].get("capacity", {}).get(alters.key):
        capacity_of(after).pop(alters.key, None)
        if alters.value is not None:
            capacity_of(after)[alters.key] = alters.value


_OURS = st.sampled_from(("example.com/a", "example.com/b", "example.com/c"))
_CODES = st.one_of(st.sampled_from([401, 403, 404, 409, 410, 413, 422, 429, 500, 503]), st.integers(400, 599))

denials = st.one_of(
    st.builds(Denies, _OURS, _CODES),
    st.builds(Denies, _OURS, st.sampled_from([401, 403, 413, 422]), st.just("policy")),
    st.builds(Denies, _OURS, st.sampled_from([409, 422]), st.just("opaque")),
    st.builds(Denies, _OURS, st.sampled_from([500, 503]), st.just("storage")),
    st.builds(Denies, _OURS, st.sampled_from([403, 500]), most=st.integers(0, 5)),
)
alterations = st.one_of(
    st.builds(Alters, _OURS, st.sampled_from([None, "3", "1k"])),
    st.builds(Alters, st.just("annotation"), st.sampled_from([None, "", "{}", '{"example.com/a":1}', "garbage"])),
    st.builds(Alters, st.just("condition"), st.sampled_from([None, "altered"])),
)
