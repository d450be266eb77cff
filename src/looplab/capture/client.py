"""Talk to the capture's service; nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from looplab.errors import EXIT_MACHINE, LabError

URL = "http://127.0.0.1:9109"
TIMEOUT_S = 20.0
DISSECT_TIMEOUT_S = 660.0


def answers(url: str = URL) -> bool:
    """Whether the service is there."""
    try:
        urllib.request.urlopen(url, timeout=TIMEOUT_S).close()
    except urllib.error.HTTPError as error:
        # It offers nothing to GET.
        error.close()
    except (OSError, http.client.HTTPException):
        return False
    return True


def start(broker_port: int, url: str = URL) -> None:
    """Begin a capture; returns once packets are taken. Raises LabError."""
    _post(url, "/start", {"broker_port": broker_port}, TIMEOUT_S)


def stop(
    publisher_ports: Sequence[int], subscriber_ports: Sequence[int], since_s: float, url: str = URL
) -> dict[str, Any]:
    """End it: {"captured", "dropped", "segments", "packets"}, see segments.count. Raises LabError."""
    wanted = {"publisher_ports": publisher_ports, "subscriber_ports": subscriber_ports, "since_s": since_s}
    return _post(url, "/stop", wanted, DISSECT_TIMEOUT_S)


def _post(url: str, path: str, body: object, timeout_s: float) -> dict[str, Any]:
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:
            result: dict[str, Any] = json.load(reply)
            return result
    except urllib.error.HTTPError as error:
        with error:
            said = json.load(error)
        raise LabError(said["message"], said["remedy"], EXIT_MACHINE) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise LabError(
            f"The capture at {url} does not answer: {error}.", "See `docker compose logs qd-capture`.", EXIT_MACHINE
        ) from None
