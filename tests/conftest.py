"""How hard hypothesis tries: HYPOTHESIS_PROFILE=thorough for a night's worth. No test has a deadline."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("usual", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))
