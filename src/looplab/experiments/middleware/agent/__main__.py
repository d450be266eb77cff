"""A node or the balancer: starts and stops its programs when the controller orders it, and reports what they use."""

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from looplab.experiments.middleware.agent import PORT, TOKEN, balancer
from looplab.experiments.middleware.agent.programs import RunningPrograms
from looplab.experiments.middleware.service import run_service
from looplab.experiments.middleware.systems import folder_of, load
from looplab.system.json_client import read_token
from looplab.system.json_service import Request


class Agent:
    """Carries out orders one by one; a node's programs are in `folder`, if that is not where the image has them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.programs = RunningPrograms()
        # PR_SET_PDEATHSIG kills a program when the thread that started it ends, so this thread lasts.
        self._starter = ThreadPoolExecutor(1)

    def routes(self) -> dict[str, Callable[[Request], dict[str, Any]]]:
        return {"POST /start": self._start, "POST /stop": self._stop, "POST /facts": self._facts}

    def _start(self, request: Request) -> dict[str, Any]:
        body = request.body
        system = load(body["system"])
        if upstreams := body.get("upstreams"):
            programs = [balancer.program(system, upstreams)]
        else:
            programs = system.node(self._folder or folder_of(system.name), body["hosts"], body["secrets"])
        self._starter.submit(self.programs.start, programs, body["processors"], system.start_timeout_s).result()
        return {}

    def _stop(self, _request: Request) -> dict[str, Any]:
        self._starter.submit(self.programs.stop).result()
        return {}

    def _facts(self, _request: Request) -> dict[str, Any]:
        return self.programs.facts()


def order_token() -> str:
    """Return the token of an order: of bare metal what ./lab gave; else that of this start, which may be renewed."""
    return os.environ.get("AGENT_TOKEN") or read_token(TOKEN)


def main() -> int:
    """Carry out orders until a signal; return the exit code."""
    parser = argparse.ArgumentParser(prog="agent")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--programs", default="")
    options = parser.parse_args()
    agent = Agent(options.programs)
    return run_service("lab-agent", options.port, agent.routes(), order_token, agent.programs.stop)


if __name__ == "__main__":
    sys.exit(main())
