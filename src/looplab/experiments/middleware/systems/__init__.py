"""The middlewares that can be measured: a folder each, with the same files.

| file | gives |
|---|---|
| `system.toml` | its version, its data services, the programs of a node with their environment |
| `client.py` | `provision(ask, password, devices, token)`: an entry for each device |
| | `Adapter(entry)`: what one device asks of the middleware; each question returns the status of the answer |
| | `warm_up(ask, send, entry, name)`: the three published requests before a load |
| | `stored(hosts, secrets, prefix)`: the names of the messages that it keeps |
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

# `prepare` writes the passwords here.
SECRETS = Path("/run/looplab/services")
SYSTEMS = ("magistrala", "devicehive")
# A function of method, path, bearer token and body that returns the JSON of the answer. Raises LabError.
Ask = Callable[[str, str, str, object], Any]
# A device's request of method, path, headers and body that returns the status. Raises OSError if no answer comes.
Send = Callable[[str, str, Mapping[str, str], bytes], int]


@dataclass(frozen=True)
class ServiceProgram:
    """One program of a part: `port` takes a connection once it is ready.

    A line that it prints with `marked` in it has the duration of one request.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    marked: str = ""
    folder: str = "/"


@dataclass(frozen=True)
class System:
    """One middleware as its system.toml has it; `data` are the ports of the data services that all nodes share.

    `ports` are those of a node that devices reach, by the beginning of a path ("" for all others). A node takes about
    `start_s` to get ready, and has failed after `start_timeout_s`. {options} in a command stands for all `options`.
    """

    name: str
    version: str
    start_s: float
    start_timeout_s: float
    data: Mapping[str, int]
    ports: Mapping[str, int]
    environment: Mapping[str, str]
    programs: Sequence[Mapping[str, Any]]
    options: Sequence[str] = ()

    @property
    def services(self) -> tuple[str, ...]:
        """The names of a node's programs, in the order in which they start."""
        return tuple(one["name"] for one in self.programs)

    def node(self, folder: str, hosts: Mapping[str, str], secrets: Mapping[str, str]) -> list[ServiceProgram]:
        """Return the programs of a node: the system's own are in `folder`, the data services on `hosts`."""
        known = {"programs": folder, **hosts, **{f"{name}_secret": secret for name, secret in secrets.items()}}
        return [self._program(ServiceProgram(**one), known) for one in self.programs]

    def _program(self, program: ServiceProgram, known: Mapping[str, str]) -> ServiceProgram:
        words = [word for one in program.command for word in (self.options if one == "{options}" else (one,))]
        environment = {**self.environment, **program.environment}
        return replace(
            program,
            command=[word.format(**known) for word in words],
            environment={name: value.format(**known) for name, value in environment.items()},
            folder=program.folder.format(**known),
        )


def is_success(status: int) -> bool:
    return 200 <= status < 300


def address_of(routes: Mapping[str, str], path: str) -> str:
    """Return the address of the longest beginning of `path` that `routes` has."""
    return routes[max((start for start in routes if path.startswith(start)), key=len)]


def load(name: str) -> System:
    """Return the system of that name. Raises FileNotFoundError if there is none."""
    return System(name, **tomllib.loads((Path(__file__).parent / name / "system.toml").read_text()))


def folder_of(system: str) -> str:
    """Return the folder of a system's programs in its image."""
    return f"/opt/{system}"


def client_of(system: str) -> Any:
    """Return what asks a system: the module `client` of its folder."""
    return import_module(f"{__name__}.{system}.client")


def read_secrets() -> dict[str, str]:
    """Return each mounted secret by its name."""
    return {path.name: path.read_text().strip() for path in sorted(SECRETS.glob("*"))}
