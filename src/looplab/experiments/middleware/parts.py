"""The parts of a run: what the controller asks of nodes and balancer, and whether data services answer."""

import contextlib
import os
import socket
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.experiments.middleware import LoadCell, agent
from looplab.experiments.middleware.agent import STOP_TIMEOUT_S, balancer
from looplab.experiments.middleware.agent.programs import connects
from looplab.experiments.middleware.load import DeviceLoad
from looplab.experiments.middleware.parameters import MiddlewareParameters
from looplab.experiments.middleware.systems import address_of, client_of, is_success, load, read_secrets
from looplab.run.cells import wait_for
from looplab.system.json_client import Service, read_token

ASK_TIMEOUT_S = 30.0
BALANCER = "balancer"
MIDDLEWARE = Service("middleware", "See `docker compose logs` of the node.")


def address_of_part(name: str) -> str:
    """Return the address of a part. Raises MachineError if its name is unknown."""
    with MachineError.of_os(f"{name} has no address", "Is it running?"):
        return socket.gethostbyname(name)


def balancer_certificate() -> str:
    """Return the certificate that the balancer made at its start; the devices trust no other. Raises MachineError."""
    with MachineError.of_os("The balancer shows no certificate", "See its log."):
        return ssl.get_server_certificate((BALANCER, balancer.PORT), timeout=ASK_TIMEOUT_S)


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


@dataclass
class Snapshot:
    """What services of nodes and balancer used at one moment: CPU time, memory, processors by name."""

    cpu_s: Counter[str] = field(default_factory=Counter)
    memory_bytes: Counter[str] = field(default_factory=Counter)
    processors: dict[str, set[int]] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)
    killed_for_memory: int = 0
    durations_us: Counter[int] = field(default_factory=Counter)

    def add(self, part: str, wanted: Sequence[str], facts: Mapping[str, Any]) -> None:
        """Add the facts of a part, which should run the services `wanted`."""
        self.dead += [f"{name} of {part}: gone" for name in wanted if name not in facts["services"]]
        for name, service in facts["services"].items():
            self.cpu_s[name] += service["cpu_s"]
            self.memory_bytes[name] += service["memory_bytes"]
            self.processors.setdefault(name, set()).update(service["processors"])
            if service["ended"] is not None:
                self.dead.append(f"{name} of {part}: exit code {service['ended']}")
        self.killed_for_memory += facts["killed_for_memory"]
        self.durations_us.update({int(us): count for us, count in facts["durations_us"].items()})


class MiddlewareParts:
    """Every part that one run needs."""

    def __init__(self, p: MiddlewareParameters) -> None:
        self._p = p
        self.system = load(p.system)
        self.secrets = read_secrets()
        token = read_token(agent.TOKEN)
        self._nodes = [AgentClient(f"node-{number + 1}", agent.PORT, token) for number in range(p.most_nodes)]
        self._balancer = AgentClient(BALANCER, agent.PORT, token)
        # Bare metal is reached at the address of the first node, whose network it joins.
        self._host = AgentClient(self._nodes[0].name, agent.HOST_PORT, os.environ.get(agent.HOST_TOKEN, ""))
        self.agents = [
            *self._nodes,
            *([self._balancer] if any(cell.balancer for cell in p.cells) else []),
            *([] if all(cell.container for cell in p.cells) else [self._host]),
        ]
        self.load = DeviceLoad(p.load_processes)
        # What the nodes of the cell that was started divide among them.
        self.processors: set[int] = set()

    def hosts(self) -> dict[str, str]:
        """Return the address of each data service. Raises MachineError."""
        return {name: address_of_part(name) for name in self.system.data}

    def start(self, cell: LoadCell) -> dict[str, Any]:
        """Start the middleware fresh as `cell` has it; return `routes` and `certificate` for its devices.

        Raises LabError if a service does not get ready.
        """
        self.stop()
        for name, port in self.system.data.items():
            away = f"{name} takes no connection on {port}.", f"See `docker compose logs middleware-{name}`."
            wait_for(partial(connects, name, port), self._p.parts_timeout_s, partial(MachineError, *away))
        agents, timeout_s = self._agents_of(cell), self.system.start_timeout_s + STOP_TIMEOUT_S
        same = {"system": self.system.name, "hosts": self.hosts(), "secrets": self.secrets}
        orders = [{**same, "number": number, "cores": cell.cores} for number in range(cell.nodes)]
        with ThreadPoolExecutor(len(agents)) as pool:
            started = pool.map(lambda one, order: one.ask("start", order, timeout_s), agents, orders)
            self.processors = {one for answer in started for one in answer["processors"]}
        addresses = [address_of_part(one.name) for one in agents]
        if not cell.balancer:
            return {"routes": self._routes(addresses[0]), "certificate": ""}
        order = {"system": self.system.name, "upstreams": addresses}
        self._balancer.ask("start", order, timeout_s)
        return {"routes": {"": f"https://{BALANCER}:{balancer.PORT}"}, "certificate": balancer_certificate()}

    def stop(self) -> None:
        self.load.stop()
        with ThreadPoolExecutor(len(self.agents)) as pool:
            list(pool.map(AgentClient.stop, self.agents))

    def provision(self, cell: LoadCell, count: int, token: str) -> None:
        """Make devices known to the middleware that runs as `cell` has it, past its balancer. Raises LabError."""
        ask = partial(self._ask, self._agents_of(cell)[0])
        self.load.entries = client_of(self.system.name).provision(ask, self.secrets["admin"], count, token)

    def warm_up(self, cell: LoadCell, name: str) -> None:
        """Ask each node of the cell the three requests that the paper asks before a load. Raises LabError."""
        # The tests import this module without gevent.
        from looplab.experiments.middleware.devices.device import DeviceConnections

        warm_up = client_of(self.system.name).warm_up
        for number, node in enumerate(self._agents_of(cell)):
            client = DeviceConnections(self._routes(address_of_part(node.name)), "", ASK_TIMEOUT_S)
            status = warm_up(partial(self._ask, node), client.request, self.load.entries[0], f"{name}-{number}")
            client.close()
            if not is_success(status):
                raise MachineError(f"A warm-up request was answered with {status}.", "See its log.")

    def snapshot(self, cell: LoadCell) -> Snapshot:
        """Return what nodes and balancer use now; an agent that does not answer is dead, as is a data service."""
        snapshot = Snapshot()
        parts = [(node, self.system.services) for node in self._agents_of(cell)]
        for one, services in [*parts, *([(self._balancer, (balancer.NGINX,))] if cell.balancer else [])]:
            try:
                snapshot.add(one.name, services, one.ask("facts"))
            except LabError:
                snapshot.dead.append(f"{one.name}: does not answer")
        away = [name for name, port in self.system.data.items() if not connects(name, port)]
        snapshot.dead += [f"{name}: takes no connection" for name in away]
        return snapshot

    def cpu_s(self, cell: LoadCell) -> float | None:
        """Return the CPU time of the middleware so far; None if a node does not answer."""
        try:
            facts = [one.ask("facts") for one in self._agents_of(cell)]
        except LabError:
            return None
        return float(sum(service["cpu_s"] for one in facts for service in one["services"].values()))

    def bare_cpu_s(self) -> float:
        """Return the CPU time of bare metal, which runs in no container, so far; 0 without any. Raises LabError."""
        return float(self._host.ask("facts")["cpu_s"]) if self._host in self.agents else 0.0

    def _agents_of(self, cell: LoadCell) -> list[AgentClient]:
        return self._nodes[: cell.nodes] if cell.container else [self._host]

    def _routes(self, address: str) -> dict[str, str]:
        return {path: f"http://{address}:{port}" for path, port in self.system.ports.items()}

    def _ask(self, node: AgentClient, method: str, path: str, bearer: str, document: object) -> Any:
        """Return the JSON of the answer of the middleware on a node. Raises LabError."""
        url = address_of(self._routes(address_of_part(node.name)), path) + path
        return MIDDLEWARE.ask(url, method, document, ASK_TIMEOUT_S, bearer)
