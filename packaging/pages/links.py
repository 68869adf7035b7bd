"""Links of a page that is copied to another place."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

# A fenced block, a span of code, or the target of a link. Only the target is changed.
_PART = re.compile(
    r"^(?P<fence>```+).*?^(?P=fence)$|(?P<ticks>`+)(?:(?!\n\n).)+?(?P=ticks)|(?<=\]\()(?P<target>[^()\s]+)(?=\))",
    re.DOTALL | re.MULTILINE,
)


def relocate(text: str, page: str, places: Mapping[str, str], elsewhere: str) -> str:
    """Returns the page with links that are right where it is copied to.

    page: its path in the repository. places: where each copied file of the repository is. elsewhere: the address of the
    repository, for links to files that are not copied.
    """

    def changed(match: re.Match[str]) -> str:
        return match[0] if match["target"] is None else _target(match["target"], page, places, elsewhere)

    return _PART.sub(changed, text)


def _target(target: str, page: str, places: Mapping[str, str], elsewhere: str) -> str:
    path, sharp, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return target
    linked = os.path.normpath(PurePosixPath(page).parent / path)
    if linked not in places:
        return f"{elsewhere}/{linked}{sharp}{anchor}"
    return os.path.relpath(places[linked], PurePosixPath(places[page]).parent) + sharp + anchor
