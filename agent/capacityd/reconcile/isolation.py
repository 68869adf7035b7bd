"""Decides which changes to write together next, while the API server denies some of them. Pure.

A denied part is halved, so isolating one denied change of n takes about 2 * log2(n) requests. A small part is tried
change by change: this takes fewer requests if several changes are denied.
"""

from __future__ import annotations

from dataclasses import dataclass

FEW = 8
"""A denied part with at most this many names is tried name by name."""


@dataclass(frozen=True, slots=True)
class Part:
    """Names whose changes have not been written yet."""

    names: tuple[str, ...]
    denied: bool
    """Whether a patch with all of these names was denied, or would be."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """The parts that are still to be tried. The last part comes first."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, names: tuple[str, ...]) -> Isolation:
        """The isolation after the API server has denied a patch with all of these names."""
        return cls((Part(names, denied=True),)).simplified()

    @property
    def next_names(self) -> tuple[str, ...]:
        """The names to write in the next patch; empty if all remaining names are denied."""
        if not self.parts:
            return ()
        part = self.parts[-1]
        if not part.denied:
            return part.names
        return part.names[: 1 if len(part.names) <= FEW else (len(part.names) + 1) // 2]

    def after(self, *, accepted: bool) -> Isolation:
        """The isolation after the API server has accepted or denied the patch with next_names."""
        part, tried = self.parts[-1], self.next_names
        rest = part.names[len(tried) :]
        return Isolation((*self.parts[:-1], *_remaining(part, tried, rest, accepted=accepted))).simplified()

    def simplified(self) -> Isolation:
        """Drops single-name parts from the end: if a single name is denied, nothing is left to try."""
        parts = self.parts
        while parts and parts[-1].denied and len(parts[-1].names) == 1:
            parts = parts[:-1]
        return Isolation(parts)


def _remaining(part: Part, tried: tuple[str, ...], rest: tuple[str, ...], *, accepted: bool) -> tuple[Part, ...]:
    """The parts that remain of a part after some of its names were tried."""
    if accepted:  # the denied names are among the rest
        return (Part(rest, denied=True),) if rest else ()
    if not rest:  # it had not been tried before
        return (Part(tried, denied=True),)
    if len(part.names) <= FEW:
        return tuple(Part((name,), denied=False) for name in reversed(rest))
    return Part(rest, denied=False), Part(tried, denied=True)
