"""The service that drives devices when a controller asks: it keeps their entries, runs a plan, returns its requests."""

# ruff: noqa: E402
from gevent import monkey

# This comes first: it replaces the sockets of the standard library.
monkey.patch_all()

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import gevent
from gevent.pool import Group

from looplab.errors import MachineError
from looplab.experiments.middleware.devices import PORT, PROCESS, DevicePlan, count, order_token
from looplab.experiments.middleware.devices.device import Device, Fleet
from looplab.experiments.middleware.service import run_service
from looplab.experiments.middleware.systems import client_of
from looplab.system.json_service import Request


class DeviceService:
    """One process of devices."""

    def __init__(self) -> None:
        self._entries: dict[int, Mapping[str, Any]] = {}
        self._fleet: Fleet | None = None
        self._devices = Group()
        self._load_cpu_s: list[float] = []

    def routes(self) -> dict[str, Callable[[Request], dict[str, Any]]]:
        return {
            "POST /entries": self._take,
            "POST /begin": self._begin,
            "POST /progress": self._progress,
            "POST /end": self._end,
            "POST /facts": lambda _request: {},
        }

    def _take(self, request: Request) -> dict[str, Any]:
        """Take what the devices from number `first` on need to be known."""
        self._entries.update(enumerate(request.body["entries"], request.body["first"]))
        return {}

    def _begin(self, request: Request) -> dict[str, Any]:
        self._devices.kill()
        body = request.body
        plan = DevicePlan(**body["plan"])
        self._load_cpu_s = []
        self._fleet = fleet = Fleet(plan, self._entries, client_of(body["system"]).Adapter)
        for number in plan.numbers:
            self._devices.spawn(Device(fleet, number).run)
        self._note_cpu()
        gevent.spawn_later(plan.end_ns / 1e9, self._note_cpu)
        return {}

    def _note_cpu(self) -> None:
        self._load_cpu_s += [time.process_time(), time.perf_counter()]

    def _progress(self, _request: Request) -> dict[str, Any]:
        """Return the requests that ended since last asked, which are then forgotten."""
        fleet = self._running()
        ended, fleet.ended = fleet.ended, []
        return {"now_ns": fleet.now_ns(), "left": len(self._devices), "ended": ended}

    def _end(self, request: Request) -> dict[str, Any]:
        """Stop every device, whatever it waits for; return the last requests, and what this process used."""
        fleet = self._running()
        self._devices.kill()
        return {
            **self._progress(request),
            "waiting": [(device, *sent) for device, sent in fleet.waiting.items()],
            "count": fleet.count,
            "drops": fleet.drops,
            "processor_share": self._share(),
            "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

    def _share(self) -> float | None:
        """Return the share of a processor that this process used during the load."""
        if len(self._load_cpu_s) != 4:
            return None
        used_s, at_s, used_then_s, then_s = self._load_cpu_s
        return round((used_then_s - used_s) / (then_s - at_s), 4)

    def _running(self) -> Fleet:
        if self._fleet is None:
            raise MachineError("No devices run.", "POST /begin first.")
        return self._fleet


def main() -> int:
    """Serve until a signal, as process number `argv[1]` of several; the first one starts the others."""
    number = int(sys.argv[1]) if sys.argv[1:] else 0
    further = [] if number else [_another(one) for one in range(1, count())]

    def stop() -> None:
        for one in further:
            one.terminate()

    return run_service(PROCESS, PORT + number, DeviceService().routes(), order_token, stop)


def _another(number: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "looplab.experiments.middleware.devices", str(number)])


if __name__ == "__main__":
    sys.exit(main())
