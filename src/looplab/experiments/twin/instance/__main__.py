"""The twin instance's program: runs the workers of the open order, and replaces those that die."""

import os
import subprocess
import sys
from pathlib import Path

from looplab.experiments.twin.instance.orders import MOST_WORKERS, Order, WorkerCounts, read_order
from looplab.experiments.twin.instance.store import conninfo
from looplab.system import own_process

PROCESS_NAME = "lab-twin"
LOOK_S = 0.05
END_S = 5.0


class Instance:
    """Follows the order file in `folder`, which is shared with the controller.

    A successor of an instance that was killed continues its order.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counts = WorkerCounts(folder)
        self._order: Order | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self.stop()

    def follow(self) -> None:
        """Run the workers of the open order and no others."""
        order = read_order(self._folder)
        if order != self._order:
            self.stop()
            self._order = order
            self._workers = [self._start(number) for number in range(order.count if order else 0)]
        for number, worker in enumerate(self._workers):
            if worker.poll() is not None:
                self._counts.row(number)[0] = 0
                self._workers[number] = self._start(number)

    def stop(self) -> None:
        """End all workers; the controller reads their counts once none is ready."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            own_process.end_child(worker, END_S)
        self._workers = []
        for number in range(MOST_WORKERS):
            self._counts.row(number)[0] = 0

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        program = "looplab.experiments.twin.instance.worker"
        return subprocess.Popen([sys.executable, "-m", program, str(self._folder), str(number)])


def main() -> int:
    """Serve until SIGTERM. Reads LIVE_DIR and DATABASE."""
    own_process.set_name(PROCESS_NAME)
    stop = own_process.stop_event()
    os.environ["DATABASE"] = conninfo(os.environ, "writer")
    instance = Instance(Path(os.environ.get("LIVE_DIR") or "/live"))
    while not stop.wait(LOOK_S):
        instance.follow()
    instance.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
