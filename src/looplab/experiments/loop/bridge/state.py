"""What the bridge shows other programs of its machine, without the network: a small file in memory.

`bridge.json` holds how it is set up and connected, rewritten when that changes, at idle moments. The bridge holds a
lock beside it for as long as it lives.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from looplab.system.lock import Held, hold, holder

STATE_FILE, LOCK = "bridge.json", "bridge.lock"


class BridgeState:
    """The bridge's file in `folder`, None for no file; a full or missing folder must not stop the bridge."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._written = ""
        with suppress(OSError, Held):
            self._lock = hold(folder / LOCK, "the bridge") if folder else None

    def write(self, state: dict[str, Any]) -> None:
        """Write the file if `state` has changed."""
        text = json.dumps(state)
        if self._folder is None or text == self._written:
            return
        fresh = self._folder / f"{STATE_FILE}.new"
        with suppress(OSError):
            fresh.write_text(text)
            fresh.replace(self._folder / STATE_FILE)
            self._written = text


def read(folder: Path) -> dict[str, Any] | None:
    """Return what the bridge wrote last, None if there is no bridge or nothing of it can be read."""
    if not holder(folder / LOCK):
        return None
    try:
        facts = json.loads((folder / STATE_FILE).read_text())
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None
