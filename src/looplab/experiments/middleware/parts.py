"""The parts of a run: what the controller asks of nodes, balancer and devices, and whether data services answer."""

import contextlib
import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.experiments.middleware import LoadCell, agent, devices
from looplab.experiments.middleware.agent import balancer
from looplab.experiments.middleware.agent.programs import connects
from looplab.experiments.middleware.load import Load
from looplab.experiments.middleware.parameters import MiddlewareParameters
from looplab.experiments.middleware.placement import of_node
from looplab.experiments.middleware.systems import address_of, load, part, read_secrets
from looplab.run.cells import wait_for
from looplab.system.direct_http import open_direct
from looplab.system.json_client import Service, read_token

# An agent gives up after the system's own time, and then stops what it has started.
STOP_TIMEOUT_S = 60.0
FACTS_TIMEOUT_S = 10.0
ASK_TIMEOUT_S = 30.0
# The token of orders to the agent of bare metal, which ./lab starts.
HOST_TOKEN = "HOST_TOKEN"
NGINX = "balancer"
# As published, each node is asked to register a device, to take a notification, and to remove a device.
WARM_UP_REQUESTS = 3


@dataclass(frozen=True)
class Agent:
    """One agent: `name` is its host or alias."""

    name: str
    port: int = agent.PORT
    token: str = field(default_factory=partial(read_token, agent.TOKEN))

    def ask(self, what: str, body: Mapping[str, Any] | None = None, timeout_s: float = FACTS_TIMEOUT_S) -> Any:
        """Return its answer to POST /what. Raises LabError."""
        url = f"http://{self.name}:{self.port}/{what}"
        service = Service(self.name, f"See `docker compose logs`, service {self.name}.")
        return service.ask(url, "POST", body or {}, timeout_s, self.token)

    def check(self) -> None:
        """Raise LabError unless it is there."""
        self.ask("facts", {"light": True})

    def address(self) -> str:
        return address(self.name)


def address(name: str) -> str:
    """Return the address of a part. Raises LabError (exit code 3) if its name is unknown."""
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise MachineError(f"{name} has no address: {error}.", "Is it running?") from error


@dataclass
class Snapshot:
    """What services of nodes and balancer used at one moment: CPU time, memory, processors by name."""

    cpu_s: dict[str, float] = field(default_factory=dict)
    memory_bytes: dict[str, int] = field(default_factory=dict)
    processors: dict[str, list[int]] = field(default_factory=dict)
    services: set[tuple[str, str]] = field(default_factory=set)
    dead: list[str] = field(default_factory=list)
    killed_for_memory: int = 0
    durations_us: dict[int, int] = field(default_factory=dict)

    def add(self, part: str, facts: Mapping[str, Any]) -> None:
        for name, service in facts["services"].items():
            self.cpu_s[name] = self.cpu_s.get(name, 0.0) + service["cpu_s"]
            self.memory_bytes[name] = self.memory_bytes.get(name, 0) + service["memory_bytes"]
            self.processors[name] = sorted({*self.processors.get(name, []), *service["processors"]})
            self.services.add((part, name))
            if service["ended"] is not None:
                self.dead.append(f"{name} of {part}: exit code {service['ended']}")
        self.killed_for_memory += facts["killed_for_memory"]
        for text, count in facts["durations_us"].items():
            self.durations_us[int(text)] = self.durations_us.get(int(text), 0) + count


class Parts:
    """Every part that one run needs."""

    def __init__(self, p: MiddlewareParameters) -> None:
        self.system = load(p.system)
        self.secrets = read_secrets()
        self.nodes = [Agent(f"node-{number + 1}") for number in range(p.most_nodes)]
        self.devices = [
            Agent(host, devices.PORT + number, devices.order_token())
            for host in addresses("devices", p.load_nodes, p.parts_timeout_s)
            for number in range(p.load_processes)
        ]
        self.load = Load(self.devices)
        self._entries: Sequence[Mapping[str, Any]] = []
        self._limit_bytes = p.memory_limit_bytes
        self.balancer = Agent(NGINX) if any(cell.balancer for cell in p.cells) else None
        # It shares the network of the first node.
        bare = Agent(self.nodes[0].name, agent.HOST_PORT, os.environ.get(HOST_TOKEN, ""))
        self.host = None if all(cell.container for cell in p.cells) else bare

    def all(self) -> list[Agent]:
        """Return every agent that must answer before the run begins."""
        more = [one for one in (self.balancer, self.host) if one is not None]
        return [*self.nodes, *self.devices, *more]

    def hosts(self) -> dict[str, str]:
        """Return the address of each data service. Raises LabError (exit code 3)."""
        return {name: address(name) for name in self.system.data}

    def start(self, cell: LoadCell, p: MiddlewareParameters) -> dict[str, Any]:
        """Start the middleware fresh as `cell` has it; return `routes` and `certificate` for its devices.

        Raises LabError (exit code 3) if a service does not get ready.
        """
        self.stop()
        for name, port in self.system.data.items():
            away = f"{name} takes no connection on {port}.", f"See `docker compose logs middleware-{name}`."
            wait_for(partial(connects, name, port), p.parts_timeout_s, partial(MachineError, *away))
        hosts = self.hosts()
        used, timeout_s = self.used(cell), self.system.start_timeout_s + STOP_TIMEOUT_S
        orders = [
            {
                "part": "node",
                "system": self.system.name,
                "hosts": hosts,
                "secrets": self.secrets,
                "processors": of_node(number, cell.cores, p.processors),
            }
            for number in range(cell.nodes)
        ]
        with ThreadPoolExecutor(len(used)) as pool:
            list(pool.map(lambda one, order: one.ask("start", order, timeout_s), used, orders))
        addresses = [one.address() for one in used]
        if not cell.balancer:
            return {"routes": self._routes(addresses[0]), "certificate": ""}
        assert self.balancer is not None
        order = {
            "part": "balancer",
            "system": self.system.name,
            "upstreams": addresses,
            "processors": [],
        }
        answer = self.balancer.ask("start", order, timeout_s)
        return {"routes": {"": f"https://{NGINX}:{balancer.PORT}"}, "certificate": answer["certificate"]}

    def used(self, cell: LoadCell) -> list[Agent]:
        if cell.container:
            return self.nodes[: cell.nodes]
        assert self.host is not None
        return [self.host]

    def stop(self) -> None:
        """Stop every node and the balancer; one that does not answer has stopped."""
        there = [one for one in (*self.nodes, self.balancer, self.host) if one is not None]
        with ThreadPoolExecutor(len(there)) as pool:
            list(pool.map(_stop, there))

    def provision(self, cell: LoadCell, count: int, token: str) -> None:
        """Make devices known to the middleware that runs as `cell` has it, past its balancer. Raises LabError."""
        routes = self._routes(self.used(cell)[0].address())

        client = part(self.system.name, "client")
        self._entries = client.provision(Plain(routes).ask, self.secrets["admin"], count, token)
        self.load.hand_out(self._entries)

    def warm_up(self, cell: LoadCell, name: str) -> int:
        """Ask each node of the cell what the paper asks before a load; return how many requests. Raises LabError."""
        nodes = [Plain(self._routes(one.address())) for one in self.used(cell)]
        for number, node in enumerate(nodes):
            asked = part(self.system.name, "client").warm_up
            if not (answer := asked(node.ask, node, self._entries[0], f"{name}-{number}")).good:
                raise MachineError(f"A warm-up request was answered with {answer.status}.", "See its log.")
        return WARM_UP_REQUESTS * len(nodes)

    def snapshot(self, cell: LoadCell) -> Snapshot:
        """Return what nodes and balancer use now; an agent that does not answer is dead, as is a data service."""
        snapshot = Snapshot()
        asked: Sequence[Agent] = self.used(cell)
        if cell.balancer and self.balancer is not None:
            asked = [*asked, self.balancer]
        for one in asked:
            try:
                snapshot.add(one.name, one.ask("facts"))
            except LabError:
                snapshot.dead.append(f"{one.name}: does not answer")
        away = [name for name, port in self.system.data.items() if not connects(name, port)]
        snapshot.dead += [f"{name}: takes no connection" for name in away]
        return snapshot

    def shortage(self, cell: LoadCell) -> tuple[int, int]:
        """Return how many processes of the cell's nodes the kernel has killed for memory, and the bytes read again."""
        killed = read_again = 0
        for one in self.used(cell):
            with contextlib.suppress(LabError):
                facts = one.ask("facts", {"light": True})
                killed += facts["killed_for_memory"]
                read_again += facts["read_again_bytes"]
        return killed, read_again

    def starved(self, cell: LoadCell, before: tuple[int, int]) -> bool:
        """Return whether a middleware that did not get ready lacked memory since `before`, an earlier shortage.

        It did if the kernel killed for it, or as much as the limit had to be read again.
        """
        killed, read_again = (now - then for now, then in zip(self.shortage(cell), before, strict=True))
        return killed > 0 or 0 < self._limit_bytes <= read_again

    def cpu_s(self, cell: LoadCell) -> float | None:
        """Return the CPU time of the middleware so far; None if a node does not answer."""
        try:
            facts = [one.ask("facts", {"light": True}) for one in self.used(cell)]
        except LabError:
            return None
        return float(sum(service["cpu_s"] for one in facts for service in one["services"].values()))

    def _routes(self, address: str) -> dict[str, str]:
        return {path: f"http://{address}:{port}" for path, port in self.system.ports.items()}


def addresses(name: str, count: int, timeout_s: float) -> list[str]:
    """Return the addresses of a service of `count` containers; of one its name. Raises LabError (exit code 3)."""
    found: list[str] = []

    def complete() -> bool:
        with contextlib.suppress(OSError):
            found[:] = sorted({str(info[4][0]) for info in socket.getaddrinfo(name, None, socket.AF_INET)})
        return len(found) >= count

    if count == 1:
        return [name]
    wait_for(complete, timeout_s, lambda: MachineError(f"{len(found)} of {count} {name} run.", "Lower LOAD_NODES."))
    return found


def _stop(one: Agent) -> None:
    try:
        one.ask("stop", timeout_s=STOP_TIMEOUT_S)
    except LabError:
        return


class Plain:
    """What the controller asks of one node: a connection for each request, by the longest beginning of its path."""

    def __init__(self, routes: Mapping[str, str]) -> None:
        self._routes = routes

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer. Raises OSError."""
        url = address_of(self._routes, path) + path
        request = urllib.request.Request(url, body or None, dict(headers), method=method)
        try:
            with open_direct(request, timeout=ASK_TIMEOUT_S) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def ask(self, method: str, path: str, bearer: str, document: object) -> Any:
        """Return the JSON of the middleware's answer. Raises LabError (exit code 3)."""
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {bearer}"} if bearer else {})}
        try:
            status, text = self.request(
                method, path, headers, b"" if document is None else json.dumps(document).encode()
            )
        except OSError as error:
            raise MachineError(f"{method} {path} has no answer: {error}.", "See `docker compose logs`.") from None
        if status >= 400:
            why = f"The middleware answered {method} {path} with {status}: {text[:300].decode(errors='replace')}"
            raise MachineError(why, "See `docker compose logs` of the node.")
        return json.loads(text) if text.strip() else {}
