"""How hard hypothesis tries: the same examples each time, or a night of new ones with HYPOTHESIS_PROFILE=thorough.

No test has a deadline.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("usual", deadline=None, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))
