"""A node or the balancer: starts and stops its programs when the controller orders it, and reports what they use."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from looplab.errors import EXIT_GOOD, MachineError
from looplab.experiments.middleware.agent import PORT, TOKEN, balancer
from looplab.experiments.middleware.agent.programs import RunningPrograms
from looplab.experiments.middleware.placement import of_node, others
from looplab.experiments.middleware.systems import folder_of, load
from looplab.system import own_process
from looplab.system.json_client import read_token
from looplab.system.json_service import Request, serve
from looplab.system.machine_facts import usable_processors


class Agent:
    """Carries out orders one by one; a node's programs are in `folder`, if that is not where the image has them.

    A node divides the `usable` processors of its own machine: on a Swarm each node has another.
    """

    def __init__(self, folder: str, usable: Sequence[int]) -> None:
        self._folder, self._usable = folder, usable
        self.programs = RunningPrograms()
        # PR_SET_PDEATHSIG kills a program when the thread that started it ends, so this thread lasts.
        self._starter = ThreadPoolExecutor(1)

    def routes(self) -> dict[str, Callable[[Request], dict[str, Any]]]:
        return {"POST /start": self._start, "POST /stop": self._stop, "POST /facts": self._facts}

    def _start(self, request: Request) -> dict[str, Any]:
        body = request.body
        system = load(body["system"])
        processors: list[int] = []
        if upstreams := body.get("upstreams"):
            programs = [balancer.program(system, upstreams)]
        else:
            programs = system.node(self._folder or folder_of(system.name), body["hosts"], body["secrets"])
            processors = of_node(body["number"], body["cores"], self._usable)
        self._starter.submit(self.programs.start, programs, processors, system.start_timeout_s).result()
        return {"processors": processors}

    def _stop(self, _request: Request) -> dict[str, Any]:
        self._starter.submit(self.programs.stop).result()
        return {}

    def _facts(self, _request: Request) -> dict[str, Any]:
        return self.programs.facts()


def order_token() -> str:
    """Return the token of an order: of bare metal what ./lab gave; else that of this start, which may be renewed."""
    return os.environ.get("AGENT_TOKEN") or read_token(TOKEN)


@own_process.program("lab-agent")
def main() -> int:
    """Carry out orders until a signal; return the exit code."""
    parser = argparse.ArgumentParser(prog="agent")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--programs", default="")
    options = parser.parse_args()
    usable = usable_processors()
    # The agent must not take processor time from the middleware.
    os.sched_setaffinity(0, others(usable))
    stopped = own_process.stop_event()
    agent = Agent(options.programs, usable)
    try:
        if not order_token():
            raise MachineError("The agent has no token.", "`docker compose up` has `prepare` write one.")
        serve("0.0.0.0", options.port, agent.routes(), "Another one may hold it: `./lab down` ends it.", order_token)
        print("ready for orders", flush=True)
        stopped.wait()
        return EXIT_GOOD
    finally:
        agent.programs.stop()


if __name__ == "__main__":
    sys.exit(main())
