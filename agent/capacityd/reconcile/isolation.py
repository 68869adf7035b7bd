"""Which changes to write together next, while the API server denies some of them. Pure.

A part that is denied is halved. So one denied change of n costs about 2 * log2(n) requests. A few changes are tried one
by one: that costs fewer requests if several are denied.
"""

from __future__ import annotations

from dataclasses import dataclass

FEW = 8
"""A denied part with at most so many names is tried name by name."""


@dataclass(frozen=True, slots=True)
class Part:
    """Names whose changes have not been written yet."""

    names: tuple[str, ...]
    denied: bool
    """Whether a patch with all of them was denied, or would be."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """What is still to be tried, last part first."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, names: tuple[str, ...]) -> Isolation:
        """The isolation after a patch with all these names was denied."""
        return cls((Part(names, denied=True),)).simplified()

    @property
    def next_names(self) -> tuple[str, ...]:
        """The names to write in the next patch; empty: each of the others is denied."""
        if not self.parts:
            return ()
        part = self.parts[-1]
        if not part.denied:
            return part.names
        return part.names[: 1 if len(part.names) <= FEW else (len(part.names) + 1) // 2]

    def after(self, *, accepted: bool) -> Isolation:
        """The isolation after the patch with next_names was accepted, or denied."""
        part, tried = self.parts[-1], self.next_names
        rest = part.names[len(tried) :]
        return Isolation((*self.parts[:-1], *_remaining(part, tried, rest, accepted=accepted))).simplified()

    def simplified(self) -> Isolation:
        """Without the last parts that have a single name: nothing is left to try of a name that is denied."""
        parts = self.parts
        while parts and parts[-1].denied and len(parts[-1].names) == 1:
            parts = parts[:-1]
        return Isolation(parts)


def _remaining(part: Part, tried: tuple[str, ...], rest: tuple[str, ...], *, accepted: bool) -> tuple[Part, ...]:
    """What is left of a part, of which these names were tried."""
    if accepted:  # what was denied is among the rest
        return (Part(rest, denied=True),) if rest else ()
    if not rest:  # it had not been tried before
        return (Part(tried, denied=True),)
    if len(part.names) <= FEW:
        return tuple(Part((name,), denied=False) for name in reversed(rest))
    return Part(rest, denied=False), Part(tried, denied=True)
