"""One part of the middleware: `node` and `balancer` wait for orders, a data service starts at once and ends with it."""

import argparse
import os
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_MACHINE, LabError, MachineError
from looplab.experiments.middleware.agent import PORT, TOKEN, balancer
from looplab.experiments.middleware.agent.programs import Programs
from looplab.experiments.middleware.placement import others
from looplab.experiments.middleware.systems import Place, folder_of, load, part, read_secrets
from looplab.system import own_process
from looplab.system.json_client import read_token
from looplab.system.json_service import Request, serve

NODE, BALANCER = "node", "balancer"
LOOK_S = 0.2
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
            programs = [balancer.program(system, body["upstreams"], body["certificate_life_s"])]
        else:
            folder = self._folder or folder_of(system.name)
            place = Place(folder, body["hosts"], body["secrets"], body["token_life_s"])
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
    """Run the part that the command line names; return the exit code."""
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
        if options.part not in (NODE, BALANCER):
            return _data(agent, options, stop)
        print("ready for orders", flush=True)
        stop.wait()
        return EXIT_GOOD
    except LabError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    finally:
        agent.programs.stop()


def _data(agent: Agent, options: argparse.Namespace, stop: threading.Event) -> int:
    """Run one data service; it ends with its program, or at a signal. Another system's service does nothing."""
    system = load(options.system)
    if options.part not in system.data:
        print(f"{options.system} has no {options.part}", flush=True)
        stop.wait()
        return EXIT_GOOD
    hosts = {name: _address(os.environ.get(f"{name.upper()}_HOST", name)) for name in system.data}
    place = Place(folder_of(system.name), hosts, read_secrets())
    program = part(options.system, "programs").data(options.part, place)
    own = others(os.cpu_count() or 1)
    started = agent.worker.submit(agent.programs.start, [program], own, system.start_timeout_s)
    while not stop.wait(LOOK_S):
        if started.done():
            # Raises what went wrong.
            started.result()
            if (code := agent.programs.ended()) is not None:
                print(f"{options.part} ended with exit code {code}", file=sys.stderr, flush=True)
                return EXIT_MACHINE
    return EXIT_GOOD


def _address(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError:
        # It starts later, or is this very part.
        return host


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agent")
    parser.add_argument("part")
    parser.add_argument("--system", default=os.environ.get("MIDDLEWARE") or "magistrala")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--programs", default="")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
