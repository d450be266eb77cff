"""The twin instance's program: starts a worker for each broker of the open order, and starts it again if it dies."""

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from looplab.errors import LabError, UsageError
from looplab.experiments.twin.instance.orders import MOST_WORKERS, Counts, Order, end_order, read_order
from looplab.system import processes
from looplab.system.json_service import Request, serve

PORT = 9108
PROCESS_NAME = "lab-twin"
LOOK_S = 0.1
END_S = 5.0


class Instance:
    """The workers of one order at a time; `folder` is shared with the controller."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counts = Counts(folder)
        self._lock = threading.Lock()
        self._workers: list[subprocess.Popen[bytes]] = []
        # A successor of an instance that was killed goes on with its order.
        if (order := read_order(folder)) is not None:
            self._start(order)

    def begin(self, body: dict[str, Any]) -> dict[str, Any]:
        """Start the workers of a new order."""
        order = Order(**body)
        if not 0 < order.count <= MOST_WORKERS:
            raise UsageError(f"{order.count} workers.", f"Ask for 1 to {MOST_WORKERS} workers.")
        with self._lock:
            self._end()
            self._counts.clear()
            order.write(self._folder)
            self._start(order)
        return {}

    def end(self) -> dict[str, Any]:
        """End the workers; return what each has counted."""
        with self._lock:
            found = len(self._workers)
            self._end()
            return {"workers": self._counts.as_json(found)}

    def state(self) -> dict[str, Any]:
        """Return what each worker has counted so far."""
        return {"workers": self._counts.as_json(len(self._workers))}

    def watch(self, stop: threading.Event) -> None:
        """Replace workers that died, until `stop` is set."""
        while not stop.wait(LOOK_S):
            with self._lock:
                for number, worker in enumerate(self._workers):
                    if worker.poll() is not None:
                        self._counts.row(number)[0] = 0
                        self._workers[number] = self._worker(number)

    def close(self) -> None:
        """End the workers, and leave the order to a successor."""
        with self._lock:
            self._stop()

    def _start(self, order: Order) -> None:
        self._workers = [self._worker(number) for number in range(order.count)]

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        program = "looplab.experiments.twin.instance.worker"
        return subprocess.Popen([sys.executable, "-m", program, str(self._folder), str(number)])

    def _end(self) -> None:
        self._stop()
        end_order(self._folder)

    def _stop(self) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(END_S)
            worker.kill()
            worker.wait()
        self._workers = []


def conninfo(environment: dict[str, str]) -> str:
    """Return libpq's connection string; the password comes from the Compose secret in DATABASE_PASSWORD_FILE."""
    if found := environment.get("DATABASE"):
        return found
    password = Path(environment["DATABASE_PASSWORD_FILE"]).read_text(encoding="ascii").strip()
    user, host = environment["DATABASE_USER"], environment["DATABASE_HOST"]
    return f"host={host} dbname=twin user={user} password={password} application_name={user}"


def main() -> int:
    """Serve until SIGTERM. Reads LIVE_DIR, DATABASE or DATABASE_…, INSTANCE_PORT."""
    processes.set_name(PROCESS_NAME)
    stop = processes.stop_event()
    os.environ["DATABASE"] = conninfo(dict(os.environ))
    instance = Instance(Path(os.environ.get("LIVE_DIR") or "/live"))
    routes = {
        "POST /begin": lambda request: instance.begin(_object(request)),
        "POST /end": lambda _request: instance.end(),
        "GET /state": lambda _request: instance.state(),
    }
    try:
        port = int(os.environ.get("INSTANCE_PORT") or PORT)
        serve("0.0.0.0", port, routes, "Stop the other instance, or set `INSTANCE_PORT`.")
    except LabError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    instance.watch(stop)
    instance.close()
    return 0


def _object(request: Request) -> dict[str, Any]:
    if not isinstance(request.body, dict):
        raise ValueError("expected an object")
    return request.body


if __name__ == "__main__":
    sys.exit(main())
