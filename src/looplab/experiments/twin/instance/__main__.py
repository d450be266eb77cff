"""The twin instance's program: runs the workers of the open order, and replaces those that die."""

import multiprocessing
import os
import sys
from pathlib import Path
from threading import Event

from looplab.experiments.twin.instance import worker
from looplab.experiments.twin.instance.orders import MOST_WORKERS, Order, WorkerCounts, read_order
from looplab.experiments.twin.instance.store import conninfo
from looplab.system import own_process

PROCESS_NAME = "lab-twin"
LOOK_S = 0.05
END_S = 5.0
# A worker shares what is imported already, so it starts at once.
FORK = multiprocessing.get_context("fork")


class Instance:
    """Follows the order file in `folder`, which is shared with the controller, until `stop`.

    A successor of an instance that was killed continues its order.
    """

    def __init__(self, folder: Path, stop: Event) -> None:
        self._folder, self._stop = folder, stop
        self._counts = WorkerCounts(folder)
        self._order: Order | None = None
        self._workers: list[multiprocessing.context.ForkProcess] = []

    def run(self) -> None:
        """Run the workers of the open order and no others."""
        self._end()
        while not self._stop.wait(LOOK_S):
            order = read_order(self._folder)
            if order != self._order:
                self._end()
                self._order = order
                self._workers = [self._start(number) for number in range(order.count if order else 0)]
            for number, process in enumerate(self._workers):
                if not process.is_alive():
                    self._counts.row(number)[0] = 0
                    self._workers[number] = self._start(number)
        self._end()

    def _end(self) -> None:
        """End all workers; the controller reads their counts once none is ready."""
        for process in self._workers:
            process.terminate()
        for process in self._workers:
            process.join(END_S)
            process.kill()
            process.join()
        self._workers = []
        for number in range(MOST_WORKERS):
            self._counts.row(number)[0] = 0

    def _start(self, number: int) -> multiprocessing.context.ForkProcess:
        process = FORK.Process(target=worker.run, args=(self._order, number, self._folder, self._stop))
        process.start()
        return process


def main() -> int:
    """Serve until SIGTERM. Reads LIVE_DIR and DATABASE."""
    own_process.set_name(PROCESS_NAME)
    # The workers have the same one.
    os.environ["DATABASE"] = conninfo(os.environ, "writer")
    Instance(Path(os.environ.get("LIVE_DIR") or "/live"), own_process.stop_event()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
