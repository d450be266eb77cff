"""One part of the middleware: `node` and `balancer` wait for orders, a data service starts at once and ends with it."""

import argparse
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_MACHINE, LabError, UsageError
from looplab.experiments.middleware.agent import PORT, balancer
from looplab.experiments.middleware.agent.programs import Programs
from looplab.experiments.middleware.placement import others
from looplab.experiments.middleware.systems import Place, Program, load, part, read_secrets
from looplab.system import processes
from looplab.system.json_service import Request, serve

NODE, BALANCER = "node", "balancer"
PROGRAMS = "/opt/magistrala"
REMEDY = "Another agent may hold it: `./lab down` ends it."


class Agent:
    """Carries out orders on the main thread: a program ends with the thread that started it."""

    def __init__(self, folder: str, token: str, public: str) -> None:
        self._folder = folder
        self._public = public
        self._token = token
        self._programs = Programs()
        self._orders: queue.Queue[tuple[Callable[[], object], queue.Queue[BaseException | None]]] = queue.Queue()

    def routes(self) -> dict[str, Callable[[Request], dict[str, Any]]]:
        return {"POST /start": self._start, "POST /stop": self._stop, "POST /facts": self._facts}

    def work(self, stop: threading.Event) -> None:
        """Carry out orders until `stop`, then stop the programs."""
        while not stop.is_set():
            try:
                act, done = self._orders.get(timeout=0.2)
            except queue.Empty:
                continue
            try:
                act()
                done.put(None)
            except Exception as error:
                done.put(error)
        self._programs.stop()

    def run(self, program: Program, processors: list[int]) -> int:
        """Start a data service and return its exit code once it ends."""
        self._programs.start([program], processors)
        print(f"{program.name} is ready on processors {processors}", flush=True)
        return self._programs.wait()

    def stop(self) -> None:
        self._programs.stop()

    def _start(self, request: Request) -> dict[str, Any]:
        body = self._allowed(request)
        if body["part"] == BALANCER:
            programs = [balancer.program(load(body["system"]), body["upstreams"], body["certificate_life_s"])]
        else:
            place = Place(
                self._folder, body["hosts"], body["secrets"], public=self._public, token_life_s=body["token_life_s"]
            )
            programs = part(body["system"], "programs").node(place)
        self._order(lambda: self._programs.start(programs, body["processors"]))
        certificate = balancer.CERTIFICATE.read_text() if body["part"] == BALANCER else ""
        return {**self._programs.facts(), "certificate": certificate}

    def _stop(self, request: Request) -> dict[str, Any]:
        self._allowed(request)
        self._order(self._programs.stop)
        return {}

    def _facts(self, request: Request) -> dict[str, Any]:
        light = bool(self._allowed(request).get("light"))
        durations = {} if light else self._programs.durations()
        return {**self._programs.facts(light=light), "durations_us": durations}

    def _allowed(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = request.body or {}
        if body.get("token", "") != self._token:
            raise UsageError("The order has the wrong token.", "Only the run that started this agent may.")
        return body

    def _order(self, act: Callable[[], object]) -> None:
        done: queue.Queue[BaseException | None] = queue.Queue()
        self._orders.put((act, done))
        if (error := done.get()) is not None:
            raise error


def main() -> int:
    """Run the part that the command line names; return the exit code."""
    options = _options()
    processes.set_name("lab-agent")
    agent = Agent(options.programs, options.token, options.bind)
    # The agent itself must not take time from the middleware.
    os.sched_setaffinity(0, others(os.cpu_count() or 1))
    stop = processes.stop_event()
    try:
        serve(options.bind, options.port, agent.routes(), REMEDY)
        if options.part in (NODE, BALANCER):
            print("ready for orders", flush=True)
            agent.work(stop)
            return EXIT_GOOD
        return _data(agent, options, stop)
    except LabError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code


def _data(agent: Agent, options: argparse.Namespace, stop: threading.Event) -> int:
    """Run one data service; it ends with its program, or at a signal. Another system's service does nothing."""
    if options.part not in load(options.system).data:
        print(f"{options.system} has no {options.part}", flush=True)
        stop.wait()
        return EXIT_GOOD
    hosts = {name: _address(os.environ.get(f"{name.upper()}_HOST", name)) for name in load(options.system).data}
    place = Place(options.programs, hosts, read_secrets())
    program = part(options.system, "programs").data(options.part, place)
    threading.Thread(target=_stop_when, args=(stop, agent), daemon=True).start()
    code = agent.run(program, others(os.cpu_count() or 1))
    if stop.is_set():
        return EXIT_GOOD
    print(f"{options.part} ended with exit code {code}", file=sys.stderr, flush=True)
    return EXIT_MACHINE


def _stop_when(stop: threading.Event, agent: Agent) -> None:
    stop.wait()
    agent.stop()


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
    parser.add_argument("--bind", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--token", default=os.environ.get("AGENT_TOKEN", ""))
    parser.add_argument("--programs", default=PROGRAMS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
