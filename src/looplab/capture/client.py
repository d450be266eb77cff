"""Ask the capture's service."""

from collections.abc import Sequence
from typing import Any

from looplab.errors import EXIT_MACHINE, LabError
from looplab.system.json_service import Service

URL = "http://127.0.0.1:9109"
DISSECT_TIMEOUT_S = 660.0
_CAPTURE = Service("capture", "See `docker compose logs qd-capture`.")


def answers(url: str = URL) -> bool:
    """Return whether the service is there."""
    try:
        _CAPTURE.ask(url, "GET")
    except LabError as error:
        # The service offers nothing to GET, and says so.
        return error.exit_code != EXIT_MACHINE
    return True


def start(broker_port: int, url: str = URL) -> None:
    """Begin a capture; return once packets are taken. Raises LabError."""
    _CAPTURE.ask(f"{url}/start", "POST", {"broker_port": broker_port})


def stop(
    publisher_ports: Sequence[int], subscriber_ports: Sequence[int], since_s: float, url: str = URL
) -> dict[str, Any]:
    """End the capture; return {"captured", "dropped", "segments", "packets"}, see segments.count. Raises LabError."""
    wanted = {"publisher_ports": publisher_ports, "subscriber_ports": subscriber_ports, "since_s": since_s}
    return _CAPTURE.ask(f"{url}/stop", "POST", wanted, DISSECT_TIMEOUT_S)
