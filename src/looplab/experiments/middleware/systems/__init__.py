"""The middlewares that can be measured: a folder each, with the same modules.

| module | gives |
|---|---|
| `__init__.py` | `SYSTEM`: what it is, which services it has |
| `programs.py` | `node(place)`: the programs of a node |
| `client.py` | `provision(ask, password, devices, token)`: an entry for each device |
| | `Adapter(entry)`: what one device asks of the middleware |
| | `warm_up(ask, client, entry, name)`: the three published requests before a load |
| | `stored(hosts, secrets, prefix)`: the names of the messages that it keeps |
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from looplab.errors import MachineError

# A token outlives any run, because no device asks for another one.
TOKEN_LIFE_S = 30 * 86_400
# `prepare` writes the passwords here.
SECRETS = Path("/run/looplab/services")
SYSTEMS = ("magistrala", "devicehive")
POSTGRES, REDIS = 5432, 6379
# The user who owns the databases of every system (images/magistrala/make-database).
OWNER = "magistrala"
# A function of method, path, bearer token and body that returns the JSON of the answer. Raises LabError.
Ask = Callable[[str, str, str, object], Any]


@dataclass(frozen=True)
class System:
    """One middleware: its version, the services of a node, the data services that all nodes share with their ports.

    `ports` are those of a node that devices reach, by the beginning of a path ("" for all others). A node takes about
    `start_s` to get ready, and has failed after `start_timeout_s`.
    """

    name: str
    version: str
    services: tuple[str, ...]
    data: Mapping[str, int]
    ports: Mapping[str, int]
    start_s: float = 5.0
    start_timeout_s: float = 90.0


@dataclass(frozen=True)
class ServiceProgram:
    """One program of a part: `health` is the URL or the TCP port that answers once it is ready.

    A line that it prints with `marked` in it has the duration of one request.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    health: str | int = 0
    marked: str = ""
    folder: str = "/"


@dataclass(frozen=True)
class NodePlace:
    """Where a part runs: `programs` is the folder of the system's own programs, `hosts` are the data services."""

    programs: str
    hosts: Mapping[str, str]
    secrets: Mapping[str, str]


def in_turn(*commands: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that becomes the last of `commands` once the ones before have ended well."""
    *first, last = map(shlex.join, commands)
    return "sh", "-ec", "; ".join([*first, f"exec {last}"])


class MiddlewareAnswer(NamedTuple):
    """What the middleware answered: its status, and whether that is a success."""

    status: int
    good: bool


class Client(Protocol):
    """A device's connections, as an adapter uses them."""

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer. Raises OSError if none comes."""


def address_of(routes: Mapping[str, str], path: str) -> str:
    """Return the address of the longest beginning of `path` that `routes` has."""
    return routes[max((start for start in routes if path.startswith(start)), key=len)]


def load(name: str) -> System:
    """Return the system of that name. Raises ModuleNotFoundError if there is none."""
    system: System = import_module(f"{__name__}.{name}").SYSTEM
    return system


def folder_of(system: str) -> str:
    """Return the folder of a system's programs in its image."""
    return f"/opt/{system}"


def part(system: str, name: str) -> Any:
    """Return the module `name` of a system's folder."""
    return import_module(f"{__name__}.{system}.{name}")


def read_secrets() -> dict[str, str]:
    """Return each mounted secret by its name. Raises LabError (exit code 3) if there is none."""
    secrets = {path.name: path.read_text().strip() for path in sorted(SECRETS.glob("*"))}
    if not secrets:
        raise MachineError(f"No secret is mounted in {SECRETS}.", "Start it with `docker compose up`.")
    return secrets
