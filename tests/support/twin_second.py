"""A second instance of the twin on the same topics: a cell begins once both are ready and ends once both are done."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from looplab.experiments.twin.instance.orders import COUNTS_FILE, Order, WorkerCounts, end_order, read_order
from looplab.run.samples import SharedSamples
from support.parts import Child
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
    """Has a worker for each order in `live`; the first instance follows the orders in `first`, which come later.

    Both stamp the samples in `live`; the second one's counts and order are in `folder`.
    """

    def __init__(self, live: Path, folder: Path, start: Callable[[list[str]], Child]) -> None:
        self.first = folder / "first"
        self.first.mkdir(parents=True)
        for place in (folder, self.first):
            (place / "samples.bin").symlink_to(live / "samples.bin")
        (self.first / COUNTS_FILE).symlink_to(live / COUNTS_FILE)
        self._live, self._folder, self._start = live, folder, start
        self._counts = WorkerCounts(folder)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        worker: Child | None = None
        order: Order | None = None
        while not self._stop.wait(0.02):
            now = read_order(self._live)
            if now is not None and order is None:
                self._counts.clear()
                now.write(self._folder)
                worker = self._start([sys.executable, "-c", _PROGRAM, str(self._folder)])
                with contextlib.suppress(AssertionError):
                    until(lambda: self._counts.ready, "the second instance", LIMIT_S)
                now.write(self.first)
            elif now is None and order is not None and worker is not None:
                self._wait_for_copies(order)
                worker.close()
                end_order(self.first)
            order = now

    def _wait_for_copies(self, order: Order) -> None:
        """Wait until each message was stored by one and found by the other; the test counts them."""
        copies = SharedSamples(self._folder / "samples.bin")["copies"]
        rows = range(order.first, order.last + 1)
        with contextlib.suppress(AssertionError):
            until(lambda: all(copies[row] > 0 for row in rows), "a copy of every message", LIMIT_S)
        # A copy too many has time to show, too.
        time.sleep(0.1)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
