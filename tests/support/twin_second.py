"""A second instance of the twin on the same topics: a cell begins once both are ready and ends once both are done."""

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from looplab.experiments.twin.instance.orders import COUNTS, Counts, Order
from looplab.run.samples import SharedSamples
from looplab.system.json_service import Request, Service, serve
from support.parts import HOST, Child
from support.waiting import until

# Its client has a name of its own at the broker: else it would take the first one's session.
_PROGRAM = (
    "import sys; from pathlib import Path; from looplab.experiments.twin.instance import worker; "
    "client = worker.MqttClient; "
    "worker.MqttClient = lambda target, name, *more: client(target, name + '-second', *more); "
    "sys.exit(worker.main(Path(sys.argv[1]), 0))"
)
LIMIT_S = 10.0


class SecondInstance:
    """Serves the instance's interface at `url`: hands each request on to the first, has its own worker store, too.

    Both stamp the samples in `live`; the worker's counts and order are in `folder`.
    """

    def __init__(self, first_url: str, live: Path, folder: Path, start: Callable[[list[str]], Child]) -> None:
        folder.mkdir()
        (folder / "samples.bin").symlink_to(live / "samples.bin")
        self._first = Service("first instance", "")
        self._first_url, self._folder, self._start = first_url, folder, start
        self._counts = Counts(folder)
        self._worker: Child | None = None
        self._order: Order | None = None
        routes = {"POST /begin": self._begin, "GET /state": self._state, "POST /end": self._end}
        self._server = serve(HOST, 0, routes, "free a port")
        self.url = f"http://{HOST}:{self._server.server_address[1]}"

    def _begin(self, request: Request) -> dict[str, Any]:
        found = self._first.ask(f"{self._first_url}/begin", "POST", request.body)
        self._order = Order(**request.body)
        self._counts.clear()
        self._order.write(self._folder)
        self._worker = self._start([sys.executable, "-c", _PROGRAM, str(self._folder)])
        return found

    def _state(self, _request: Request) -> dict[str, Any]:
        """Return the first one's state; not ready before this one is."""
        found = self._first.ask(f"{self._first_url}/state", "GET")
        for worker in found["workers"]:
            worker["ready"] = min(worker["ready"], self._counts.row(0)[COUNTS.index("ready")])
        return found

    def _end(self, request: Request) -> dict[str, Any]:
        """End the order once each of its messages was stored by one and found by the other; the test counts them."""
        order = self._order
        assert order is not None
        copies = SharedSamples(self._folder / "samples.bin")["copies"]
        with contextlib.suppress(AssertionError):
            until(
                lambda: all(copies[row] > 0 for row in range(order.first, order.last + 1)),
                "a copy of every message",
                LIMIT_S,
            )
        # A copy too many has time to show, too.
        time.sleep(0.1)
        self._close_worker()
        return self._first.ask(f"{self._first_url}/end", "POST", request.body)

    def close(self) -> None:
        self._close_worker()
        self._server.shutdown()
        self._server.server_close()

    def _close_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
