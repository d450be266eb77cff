"""How long tests wait for what takes a moment."""

import os
import time
from collections.abc import Callable
from typing import Any

# An emulated machine is slower by a factor: scripts/prove-architecture passes it.
PATIENCE = int(os.environ.get("LAB_PATIENCE", "1"))
# A bound for what hangs, far above what a loaded machine needs.
LIMIT_S = 30.0 * PATIENCE


def until(condition: Callable[[], Any], what: str, limit_s: float = LIMIT_S) -> Any:
    """Return the first true value of `condition`; fail, naming `what` did not come, after `limit_s`.

    Where `condition` raises OSError or LookupError, its part is not ready yet.
    """
    end_s, pause_s = time.monotonic() + limit_s, 0.001
    while True:
        asked_s = time.monotonic()
        error: Exception | None = None
        try:
            if value := condition():
                return value
        except (OSError, LookupError) as caught:
            error = caught
        now_s = time.monotonic()
        if now_s > end_s:
            raise AssertionError(f"did not come within {limit_s:g} s: {what}") from error
        # A question to the engine takes processors from what it asks about: one that took long is put less often.
        time.sleep(max(pause_s, min(2 * (now_s - asked_s), 0.5)))
        pause_s = min(0.02, 1.5 * pause_s)
