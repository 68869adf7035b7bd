"""Runs lanes, or single parts: python -m tests.lanes [--complete] NAME...

Exit status: 0 if nothing failed; 1 if a part failed or, with --complete, was left out. The last line totals all
tests, as "N passed, N failed", followed by ", N skipped" if any were skipped.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.lanes.job import Outcome
from tests.lanes.parts import ALONE, LANES, Part, lane
from tests.lanes.run import Lane, counts


def main(arguments: Sequence[str]) -> int:
    names = [name for name in arguments if name != "--complete"]
    if not names or not {*LANES, *ALONE}.issuperset(names):
        print(f"usage: python -m tests.lanes [--complete] {'|'.join([*LANES, *ALONE])}...", file=sys.stderr)
        return 2
    parts: dict[str, Part] = {}
    for name in names:
        for part in lane(name):
            parts.setdefault(part.name, part)
    # Handle SIGTERM like Ctrl-C: the parts end before the runner does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = Lane(list(parts.values()))
    try:
        outcomes = run.run()
    except KeyboardInterrupt:
        return 130
    report(" ".join(names), outcomes, time.monotonic() - run.begun)
    has_failed = any(outcome.failed for outcome in outcomes)
    is_incomplete = "--complete" in arguments and bool(_missing(outcomes))
    return int(has_failed or is_incomplete)


def report(name: str, outcomes: Sequence[Outcome], seconds: float) -> None:
    print(f"\n{name}: {_minutes(seconds)}, and {_minutes(sum(o.cpu for o in outcomes))} of CPU")
    for outcome in outcomes:
        print(f"  {outcome.part.name:14}{outcome.seconds:6.0f} s {outcome.cpu:6.0f} s of CPU  {counts(outcome)}")
    for outcome in outcomes:
        lines = [f"flaky: {test}" for test in outcome.flaky] + [f"FAILED {test}" for test in outcome.failed]
        print("".join(f"{line}\n" for line in sorted(lines)), end="")
    skipped = Counter(reason for o in outcomes for reason in o.skipped.values())
    left_out = [f"{number} tests: {reason}" for reason, number in skipped.items()]
    for missing in _missing(outcomes):
        parts = [outcome.part.name for outcome in outcomes if outcome.left_out == missing]
        left_out.append(f"{', '.join(parts)}: {missing}")
    for line in left_out:
        print(f"left out: {line}")
    if left_out:
        print("The result is partial.")
    passed, failed = sum(o.passed for o in outcomes), sum(len(o.failed) for o in outcomes)
    and_skipped = f", {sum(skipped.values())} skipped" if skipped else ""
    print(f"{passed} passed, {failed} failed{and_skipped}")


def _missing(outcomes: Sequence[Outcome]) -> set[str]:
    return {outcome.left_out for outcome in outcomes if outcome.left_out}


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
