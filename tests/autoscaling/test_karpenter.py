"""The real Karpenter treats our NodeOverlay and our condition as karpenter.md shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.autoscaling.world import karpenter_world
from tests.support.pages import play, same

PAGE = Path(__file__).with_name("karpenter.md")


@pytest.mark.timeout(1800)
def test_the_page_shows_what_karpenter_does() -> None:
    text = PAGE.read_text()
    with karpenter_world() as world:
        played = play(text, world)
    assert same(played) == same(text), played


def main() -> None:
    """Rewrites the outputs on the page."""
    with karpenter_world() as world:
        PAGE.write_text(play(PAGE.read_text(), world))


if __name__ == "__main__":
    main()
