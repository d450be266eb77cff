"""Ask the capture's service."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from looplab.capture import Application, CapturedConnections
from looplab.system.json_client import Service

URL = "http://127.0.0.1:9109"
DISSECT_TIMEOUT_S = 660.0
_CAPTURE = Service("capture", "See `docker compose logs` of the capture's service.")


def check(url: str = URL) -> None:
    """Raise LabError (exit code 3) unless the service answers."""
    _CAPTURE.ask(f"{url}/", "GET")


def start(broker_port: int, url: str = URL) -> None:
    """Begin a capture; return once packets are taken. Raises LabError."""
    _CAPTURE.ask(f"{url}/start", "POST", {"broker_port": broker_port})


def stop_application(application: Application, url: str) -> dict[str, Any]:
    """End a capture at a broker; return what exchange.Exchange found, "captured" and "dropped". Raises LabError."""
    return _CAPTURE.ask(f"{url}/stop", "POST", {"application": asdict(application)}, DISSECT_TIMEOUT_S)


def stop(connections: Sequence[CapturedConnections], url: str = URL) -> dict[str, Any]:
    """End the capture; return {"captured", "dropped", "segments", "packets"}, see segments.count. Raises LabError."""
    return _CAPTURE.ask(f"{url}/stop", "POST", {"connections": connections}, DISSECT_TIMEOUT_S)
