"""The capture's service, on 127.0.0.1 of the network namespace it watches.

    POST /start {"broker_port"}: begins a capture; one that was begun before is dropped
    POST /stop {"publisher_ports", "subscriber_ports", "since_s"}: ends it; the figures of segments.count

An error is {"message", "remedy"}. Everything runs after the cell, or in dumpcap's own process: nothing here touches
the thread that measures.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from http.server import ThreadingHTTPServer
from typing import Any

from looplab.capture.dumpcap import Capture
from looplab.errors import EXIT_GOOD, EXIT_MACHINE, LabError
from looplab.system.json_service import JsonHandler
from looplab.system.network_namespace import ways_out

PORT = 9109
LOOK_S = 0.25
MAX_REQUEST_BYTES = 65536


class Service:
    """At most one capture."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._capture: Capture | None = None

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns once packets are taken."""
        with self._lock:
            self._drop()
            self._capture = Capture(int(request["broker_port"]))
            return {}

    def stop(self, request: dict[str, Any]) -> dict[str, Any]:
        """The figures of the capture that was begun."""
        with self._lock:
            capture, self._capture = self._capture, None
            if capture is None:
                raise LabError("No capture was begun: its service was restarted meanwhile.", "Repeat the run.")
            return capture.figures(
                [int(port) for port in request["publisher_ports"]],
                [int(port) for port in request["subscriber_ports"]],
                float(request["since_s"]),
            )

    def close(self) -> None:
        """Leave no dumpcap behind."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._capture is not None:
            self._capture.abandon()
            self._capture = None


def _handler(service: Service) -> type[JsonHandler]:
    actions = {"/start": service.start, "/stop": service.stop}

    class Handler(JsonHandler):
        def do_POST(self) -> None:  # noqa: N802 (the name that http.server calls)
            try:
                length = int(self.headers.get("Content-Length", "0"))
                if self.path not in actions or not 0 < length <= MAX_REQUEST_BYTES:
                    self.reply(404, {"message": "There is no such thing.", "remedy": "POST /start or /stop."})
                    return
                self.reply(200, actions[self.path](json.loads(self.rfile.read(length))))
            except LabError as error:
                self.reply(503, {"message": error.message, "remedy": error.remedy})
            except (ValueError, KeyError, TypeError) as error:
                self.reply(400, {"message": f"Not understood: {error!r}", "remedy": "See this module's head."})

    return Handler


def main() -> int:
    """Serve until SIGTERM, or until the container ends whose packets these are: its next start has another network."""
    service = Service()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # A flag: an exception raised by a signal can be lost in a finalizer.
        signal.signal(number, lambda *_: stop.set())
    try:
        server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("CAPTURE_PORT") or PORT)), _handler(service))
    except OSError as error:
        print(f"capture: port {PORT} cannot be opened: {error.strerror}", file=sys.stderr, flush=True)
        return EXIT_MACHINE
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    there = bool(ways_out())
    while not stop.wait(LOOK_S):
        if there and not ways_out():
            print("capture: the container whose packets these were has ended, and so does its capture", flush=True)
            break
    service.close()
    return EXIT_GOOD


if __name__ == "__main__":
    sys.exit(main())
