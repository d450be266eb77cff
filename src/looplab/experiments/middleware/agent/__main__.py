"""A node or the balancer: starts and stops its programs when the controller orders it, and reports what they use."""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from looplab.errors import EXIT_GOOD, MachineError
from looplab.experiments.middleware.agent import PORT, TOKEN, balancer
from looplab.experiments.middleware.agent.programs import RunningPrograms
from looplab.experiments.middleware.placement import of_node, others
from looplab.experiments.middleware.systems import folder_of, load
from looplab.system import own_process
from looplab.system.json_client import read_token
from looplab.system.json_service import Request, Routes, serve
from looplab.system.machine_facts import usable_processors


def routes(running: RunningPrograms, folder: str, usable: Sequence[int]) -> Routes:
    """Return what carries out orders one by one; a node's programs are in `folder`, "" where the image has them.

    A node divides the `usable` processors of its own machine: on a Swarm each node has another.
    """
    # PR_SET_PDEATHSIG kills a program when the thread that started it ends, so this thread lasts.
    starter = ThreadPoolExecutor(1)

    def start(request: Request) -> dict[str, Any]:
        body = request.body
        system = load(body["system"])
        processors: list[int] = []
        if upstreams := body.get("upstreams"):
            programs = [balancer.program(system, upstreams)]
        else:
            programs = system.node(folder or folder_of(system.name), body["hosts"], body["secrets"])
            processors = of_node(body["number"], body["cores"], usable)
        starter.submit(running.start, programs, processors, system.start_timeout_s).result()
        return {"processors": processors}

    def stop(_request: Request) -> dict[str, Any]:
        starter.submit(running.stop).result()
        return {}

    return {"POST /start": start, "POST /stop": stop, "POST /facts": lambda _request: running.facts()}


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
    running = RunningPrograms()
    try:
        if not order_token():
            raise MachineError("The agent has no token.", "`docker compose up` has `prepare` write one.")
        orders = routes(running, options.programs, usable)
        serve("0.0.0.0", options.port, orders, "Another one may hold it: `./lab down` ends it.", order_token)
        print("ready for orders", flush=True)
        stopped.wait()
        return EXIT_GOOD
    finally:
        running.stop()


if __name__ == "__main__":
    sys.exit(main())
