"""Ask a link emulator's service."""

from collections.abc import Sequence
from typing import Any

from looplab.link.settings import LinkSettings
from looplab.system.json_client import Service

URL = "http://127.0.0.1:9107"
TIMEOUT_S = 20.0
_EMULATOR = Service(
    "link emulator", "See `docker compose logs` of the link's sidecar: it has ended, or was never started."
)


def apply(links: Sequence[LinkSettings], url: str = URL, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Set these links and no others; return {"backend", "links"}. Raises LabError (exit code 2 for bad settings)."""
    return _EMULATOR.ask(f"{url}/links", "PUT", [link.as_json() for link in links], timeout_s)


def state(url: str = URL, pings: int = 0, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Return back end, and of each link settings, counts and delays; with `pings` the round trip to each peer, too.

    Raises LabError if no emulator answers.
    """
    return _EMULATOR.ask(f"{url}/links?ping={pings}" if pings else f"{url}/links", "GET", timeout_s=timeout_s)
