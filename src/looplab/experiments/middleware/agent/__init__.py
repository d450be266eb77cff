"""The agent of a part: starts its programs on chosen processors, and reports what they use.

Compose cannot: each cell of a run has other nodes and processors, and no container may reach the engine.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from looplab.errors import LabError
from looplab.system.json_client import Service

PORT = 9200
# Bare metal listens in the network of the first node.
HOST_PORT = 9201
# The secret that every order to a node or to the balancer carries.
TOKEN = "nodes"
# The variable with the token of orders to bare metal, which ./lab starts.
HOST_TOKEN = "HOST_TOKEN"
# An agent gives up after the system's own time, and then stops what it has started.
STOP_TIMEOUT_S = 60.0


@dataclass
class AgentClient:
    """One agent as the controller asks it: `name` is its host or alias."""

    name: str
    port: int
    token: str

    def ask(self, what: str, body: Mapping[str, Any] | None = None, timeout_s: float = 10.0) -> Any:
        """Return its answer to POST /what. Raises LabError."""
        service = Service(self.name, f"See `docker compose logs`, service {self.name}.")
        return service.ask(f"http://{self.name}:{self.port}/{what}", "POST", body or {}, timeout_s, self.token)

    def stop(self) -> None:
        """Stop its programs; an agent that does not answer has none."""
        with contextlib.suppress(LabError):
            self.ask("stop", timeout_s=STOP_TIMEOUT_S)
