"""Readings and plans as the JSON that others may rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capacityd.model import Absent, Quantity, Reading

if TYPE_CHECKING:  # a probe has no use for it
    from capacityd.capacity import Plan


def reading_as_dict(name: str, reading: Reading) -> dict[str, object]:
    """name, outcome, quantity, reason, evidence; and rejected, if it was asked for."""
    found: dict[str, object] = {"name": name, "outcome": "quantity", "quantity": None, "reason": "", "evidence": []}
    if isinstance(reading, Quantity):
        evidence = [{"device": e.device, "contributes": e.contributes, "note": e.note} for e in reading.evidence]
        found |= {"quantity": reading.value, "reason": reading.warning, "evidence": evidence}
    else:
        found["outcome"] = "absent" if isinstance(reading, Absent) else "unknown"
        found["reason"] = reading.reason
    if reading.rejections:
        found["rejected"] = [
            {"device": r.device, "reason": r.reason, "differs": [c.as_dict() for c in r.differs]}
            for r in reading.rejections
        ]
    if reading.explanation is not None:
        found["explanation"] = reading.explanation.as_dict()
    return found


def plan_as_dict(plan: Plan) -> dict[str, object]:
    """node, changes, patch."""
    changes = [
        {"name": c.name, "action": c.action, "old": c.old, "new": c.new, "reason": c.reason} for c in plan.changes
    ]
    return {"node": plan.node, "changes": changes, "patch": list(plan.patch)}
