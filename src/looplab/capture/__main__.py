"""The capture's service, on 127.0.0.1 of the network namespace it watches, or on CAPTURE_BIND.

    GET /: {}
    POST /start {"broker_port"}: begins a capture; one that was begun before is dropped
    POST /stop {"connections": [[publisher's port, subscriber's port, since_s, until_s], …]}: ends it; the figures of
        segments.count
    POST /stop {"application": {"request_topic", …}}: ends one at the broker; the figures of exchange.Exchange

With CAPTURE_PORT_FROM_START it captures at a broker of that port as soon as it runs. From outside its network namespace
the host CAPTURE_CONTROL alone may ask.

An error is {"message", "remedy"}. Everything runs after the cell, or in tcpdump's own process: nothing here touches
the thread that measures.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from looplab.capture import Application, CapturedConnections
from looplab.capture.exchange import Exchange
from looplab.capture.segments import Segment, count
from looplab.capture.tcpdump import Capture
from looplab.errors import EXIT_GOOD, LabError
from looplab.system import own_process
from looplab.system.json_service import Request, Routes, check_client, serve

PORT = 9109
LOOK_S = 0.25


class CaptureService:
    """Holds at most one capture."""

    def __init__(self, port: int = 0) -> None:
        self._lock = threading.RLock()
        self._capture = Capture(port, at_broker=True) if port else None
        self._port = port

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Begin a capture; return once packets are taken."""
        with self._lock:
            self.close()
            self._capture = Capture(int(request["broker_port"]))
            return {}

    def stop(self, request: dict[str, Any]) -> dict[str, Any]:
        """End the capture and return its figures."""
        with self._lock:
            dissect = self._dissector(request)
            capture, self._capture = self._capture, None
            if capture is None:
                raise LabError("No capture was begun: its service was restarted meanwhile.", "Repeat the run.")
            return capture.figures(dissect)

    def _dissector(self, request: dict[str, Any]) -> Callable[[Iterable[Segment]], dict[str, Any]]:
        """Return what dissects the segments as a request asks. Raises ValueError for a key or filter that is none."""
        if "application" in request:
            return partial(Exchange.of, Application(**request["application"]), port=self._port)
        return partial(count, connections=[CapturedConnections(*one) for one in request["connections"]])

    def close(self) -> None:
        """Leave no tcpdump behind."""
        with self._lock:
            if self._capture is not None:
                self._capture.abandon()
                self._capture = None


@own_process.program("lab-capture")
def main() -> int:
    """Serve until SIGTERM, or until the container ends whose packets these are: its next start has another network."""
    stop = own_process.stop_event()
    control, bind = os.environ.get("CAPTURE_CONTROL", ""), os.environ.get("CAPTURE_BIND") or "127.0.0.1"

    def guarded(act: Callable[[dict[str, Any]], dict[str, Any]], request: Request) -> dict[str, Any]:
        check_client(request, control, "CAPTURE_CONTROL")
        return act(request.body)

    service = CaptureService(int(os.environ.get("CAPTURE_PORT_FROM_START") or 0))
    routes: Routes = {
        "GET /": lambda _request: {},
        "POST /start": partial(guarded, service.start),
        "POST /stop": partial(guarded, service.stop),
    }
    serve(bind, int(os.environ.get("CAPTURE_PORT") or PORT), routes, "Set `CAPTURE_PORT`.")
    there = bool(own_process.ways_out())
    while not stop.wait(LOOK_S):
        if there and not own_process.ways_out():
            print("capture: the container whose packets these were has ended, and so does its capture", flush=True)
            break
    service.close()
    return EXIT_GOOD


if __name__ == "__main__":
    sys.exit(main())
