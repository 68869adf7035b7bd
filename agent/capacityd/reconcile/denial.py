"""What the API server, an admission policy or a webhook denies, and when it is tried again. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.node import Condition, Stored
from capacityd.model.pace import pause
from capacityd.model.plan import Change
from capacityd.model.reasons import RetryCause


@dataclass(frozen=True, slots=True)
class Denial:
    """Something that the API server rejects, or does not store as it was sent."""

    sent: str
    """What was sent, as text: another number, or another condition, may be accepted."""
    text: str
    """Why it is denied, for people."""
    since: float
    retry_at: float
    """When it is tried again."""

    def holds(self, sent: str, uptime: float) -> bool:
        """Whether sending this now would only be denied again."""
        return self.sent == sent and uptime < self.retry_at


def is_paused(denial: Denial | None, uptime: float) -> bool:
    """Whether something was denied, and is not to be tried again yet."""
    return denial is not None and uptime < denial.retry_at


def denial_after(last: Denial | None, sent: str, text: str, uptime: float) -> Denial:
    """What to remember of something that was just denied. last: its previous denial. sent, text: as in Denial."""
    since = last.since if last and last.sent == sent else uptime
    return Denial(sent, text, since, retry_at=uptime + pause(RetryCause.OTHER, uptime - since))


def sent_text(change: Change) -> str:
    """What a patch sends for a change, as text."""
    return "none" if change.desired is None else str(change.desired)


def condition_text(condition: Condition) -> str:
    """What a condition says, as text."""
    return f"{condition.status} {condition.reason} {condition.message}"


def why_altered(sent: str, has: Stored) -> str:
    """Why a key is denied whose number was stored differently."""
    return f"the API server accepted {sent} but stored {has.text}; does an admission webhook or policy change it?"
