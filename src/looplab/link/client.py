"""Talk to a link emulator's service; nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from looplab.errors import EXIT_INVALID, EXIT_MACHINE, EXIT_USAGE, LabError
from looplab.link.settings import LinkSettings

URL = "http://127.0.0.1:9107"
TIMEOUT_S = 20.0


def apply(links: Sequence[LinkSettings], url: str = URL) -> dict[str, Any]:
    """Set all links at once; {"backend", "links"}. Raises LabError (exit code 2 for bad settings)."""
    return _call(url, "PUT", "/links", [link.as_json() for link in links])


def state(url: str = URL, pings: int = 0, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Back end, and of each link settings, counts and delays; with `pings` also the round trip to each peer.

    Raises LabError where no emulator answers.
    """
    return _call(url, "GET", f"/links?ping={pings}" if pings else "/links", timeout_s=timeout_s)


def clear(url: str = URL, timeout_s: float = TIMEOUT_S) -> None:
    """Every link as it was. Raises LabError where no emulator answers."""
    _call(url, "DELETE", "/links", timeout_s=timeout_s)


def probe(peer: str, count: int = 200, interval_ms: float = 5, size_bytes: int = 64, url: str = URL) -> dict[str, Any]:
    """UDP probes to the peer's responder: there_ms, back_ms, rtt_ms. Raises LabError where none comes back."""
    wanted = {"peer": peer, "count": count, "interval_ms": interval_ms, "size_bytes": size_bytes}
    return _call(url, "POST", "/probe", wanted, timeout_s=TIMEOUT_S + 30 + count * interval_ms / 1000)


def _call(url: str, method: str, path: str, body: object = None, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:
            result: dict[str, Any] = json.load(reply)
            return result
    except urllib.error.HTTPError as error:
        raise _refused(error) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise LabError(
            f"The link emulator at {url} does not answer: {error}.",
            "See `docker compose logs` of the link's sidecar: it ended, or was never started.",
            EXIT_MACHINE,
        ) from None


def _refused(error: urllib.error.HTTPError) -> LabError:
    try:
        said = json.load(error)
        message, remedy = str(said["message"]), str(said["remedy"])
    except (ValueError, KeyError, TypeError):
        message, remedy = f"The link emulator answered {error.code}.", "See its log."
    code = EXIT_USAGE if error.code == 400 else EXIT_MACHINE if error.code == 503 else EXIT_INVALID
    return LabError(message, remedy, code)
