"""A node or the balancer: starts and stops its programs when the controller orders it, and reports what they use."""

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from looplab.errors import EXIT_GOOD, LabError, MachineError
from looplab.experiments.middleware.agent import PORT, TOKEN, balancer
from looplab.experiments.middleware.agent.programs import Programs
from looplab.experiments.middleware.placement import others
from looplab.experiments.middleware.systems import Place, folder_of, load, part
from looplab.system import own_process
from looplab.system.json_client import read_token
from looplab.system.json_service import Request, serve

BALANCER = "balancer"
REMEDY = "Another agent may hold it: `./lab down` ends it."


class Agent:
    """Carries out orders one by one, on a thread that lasts: a program ends with the thread that started it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.programs = Programs()
        self.worker = ThreadPoolExecutor(1)

    def routes(self) -> dict[str, Callable[[Request], dict[str, Any]]]:
        return {"POST /start": self._start, "POST /stop": self._stop, "POST /facts": self._facts}

    def _start(self, request: Request) -> dict[str, Any]:
        body = request.body
        system = load(body["system"])
        if body["part"] == BALANCER:
            programs = [balancer.program(system, body["upstreams"])]
        else:
            folder = self._folder or folder_of(system.name)
            place = Place(folder, body["hosts"], body["secrets"])
            programs = part(system.name, "programs").node(place)
        self.worker.submit(self.programs.start, programs, body["processors"], system.start_timeout_s).result()
        return {"certificate": balancer.CERTIFICATE.read_text() if body["part"] == BALANCER else ""}

    def _stop(self, _request: Request) -> dict[str, Any]:
        self.worker.submit(self.programs.stop).result()
        return {}

    def _facts(self, request: Request) -> dict[str, Any]:
        light = bool(request.body.get("light"))
        durations = {} if light else self.programs.durations()
        return {**self.programs.facts(light=light), "durations_us": durations}


def order_token() -> str:
    """Return the token of an order: of bare metal what ./lab gave; else that of this start, which may be renewed."""
    return os.environ.get("AGENT_TOKEN") or read_token(TOKEN)


def main() -> int:
    """Carry out orders until a signal; return the exit code."""
    options = _options()
    own_process.set_name("lab-agent")
    agent = Agent(options.programs)
    # The agent itself must not take time from the middleware.
    os.sched_setaffinity(0, others(os.cpu_count() or 1))
    stop = own_process.stop_event()
    try:
        if not order_token():
            raise MachineError("The agent has no token.", "`docker compose up` has `prepare` write one.")
        serve("0.0.0.0", options.port, agent.routes(), REMEDY, order_token)
        print("ready for orders", flush=True)
        stop.wait()
        return EXIT_GOOD
    except LabError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    finally:
        agent.programs.stop()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agent")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--programs", default="")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
