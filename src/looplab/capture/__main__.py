"""The capture's service, on 127.0.0.1 of the network namespace it watches.

    POST /start {"broker_port"}: begins a capture; one that was begun before is dropped
    POST /stop {"connections": [[publisher's port, subscriber's port, since_s, until_s], …]}: ends it; the figures of
        segments.count

An error is {"message", "remedy"}. Everything runs after the cell, or in tcpdump's own process: nothing here touches
the thread that measures.
"""

import os
import sys
import threading
from typing import Any

from looplab.capture import CapturedConnections
from looplab.capture.tcpdump import Capture
from looplab.errors import EXIT_GOOD, LabError
from looplab.system import own_process
from looplab.system.json_service import serve
from looplab.system.network_namespace import ways_out

PORT = 9109
LOOK_S = 0.25


class CaptureService:
    """Holds at most one capture."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._capture: Capture | None = None

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Begin a capture; return once packets are taken."""
        with self._lock:
            self.close()
            self._capture = Capture(int(request["broker_port"]))
            return {}

    def stop(self, request: dict[str, Any]) -> dict[str, Any]:
        """End the capture and return its figures."""
        with self._lock:
            capture, self._capture = self._capture, None
            if capture is None:
                raise LabError("No capture was begun: its service was restarted meanwhile.", "Repeat the run.")
            return capture.figures(
                [
                    CapturedConnections(int(publisher), int(subscriber), float(since_s), float(until_s))
                    for publisher, subscriber, since_s, until_s in request["connections"]
                ]
            )

    def close(self) -> None:
        """Leave no tcpdump behind."""
        with self._lock:
            if self._capture is not None:
                self._capture.abandon()
                self._capture = None


def main() -> int:
    """Serve until SIGTERM, or until the container ends whose packets these are: its next start has another network."""
    service = CaptureService()
    stop = own_process.stop_event()
    routes = {
        "POST /start": lambda request: service.start(request.body),
        "POST /stop": lambda request: service.stop(request.body),
    }
    try:
        serve("127.0.0.1", int(os.environ.get("CAPTURE_PORT") or PORT), routes, "Set `CAPTURE_PORT`.")
    except LabError as error:
        print(f"capture: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    there = bool(ways_out())
    while not stop.wait(LOOK_S):
        if there and not ways_out():
            print("capture: the container whose packets these were has ended, and so does its capture", flush=True)
            break
    service.close()
    return EXIT_GOOD


if __name__ == "__main__":
    sys.exit(main())
