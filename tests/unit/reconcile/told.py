"""Histories that are told act by act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tests.support.model.acts import Act
from tests.support.model.world import World

History: TypeAlias = Sequence[tuple[Act, float]]
"""Acts, each with the seconds that pass after it."""


def tell(world: World, history: History) -> None:
    """Lets the history happen. Raises BrokenPromise."""
    for act, pause in history:
        act.happens(world)
        world.run(pause)
