"""The parameters of one run, read from the environment that params.env and .env give its container."""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from looplab.errors import UsageError
from looplab.experiments.middleware import EXPERIMENT, NAME, NODES, LoadCell
from looplab.experiments.middleware.devices import TOKEN
from looplab.experiments.middleware.placement import default_cores, default_layouts, default_loads, others
from looplab.experiments.middleware.systems import SYSTEMS, load
from looplab.spec.parameters import REPETITIONS, Option, RunParameters, integer, number, param
from looplab.spec.reader import HOST, Reader

FOLDER = EXPERIMENT.scenarios.replace("*", "")
CONTAINER, BARE = "container", "bare"
PLACES = (CONTAINER, BARE)
DEVICES = Option(
    "--devices", "DEVICES", "N,…", "simulated devices: 100,200, or shares of this machine's limit: 50%,100%"
)
CORES = Option("--cores", "CORES", "N,…", "processors of the middleware (middleware)")
WHERE = Option("--where", "WHERE", "…", "container,bare: in containers, on bare metal, or both (middleware)")
LAYOUTS = Option("--layouts", "LAYOUTS", "NxC,…", "nodes x cores, e.g. 1x2-direct,1x2,2x1 (middleware-nodes)")
SECONDS = Option("--seconds", "LOAD_S", "S", "how long each repetition loads the middleware")
MIDDLEWARE = Option("--middleware", "MIDDLEWARE", "", "the system under test", SYSTEMS)
DIRECT = "direct"
LAYOUT = re.compile(rf"([1-9][0-9]?)x([1-9][0-9]?)(-{DIRECT})?")
# What a repetition takes besides warm-up and load: stopping and starting the middleware, reading the database.
OVERHEAD_S = 12.0
# Loads may be shares of the limit that the run measures first, which takes so long.
LIMIT_S = 30.0
SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?)%")


@dataclass(frozen=True)
class Layout:
    """So many nodes of so many processors each, with the balancer in front or without."""

    nodes: int
    cores: int
    balancer: bool


@dataclass(frozen=True, kw_only=True)
class MiddlewareParameters(RunParameters):
    """What one run does; `messages` are the seconds of a repetition, a row of samples.csv each.

    With `shares` of the machine's limit, `devices` is empty until `at_limit` knows it.
    """

    repetitions: int = integer(7, 1, 1000, option=REPETITIONS, quick="1", full="7")
    deadline_ms: int = integer(5000, 10, 600_000)
    system: str = param(option=MIDDLEWARE)
    system_version: str
    devices: tuple[int, ...] = param(option=DEVICES, quick="100")
    shares: tuple[float, ...]
    limit_per_s: float | None
    load_processes: int
    load_hosts: tuple[str, ...] = param(
        lambda get, name: tuple(filter(None, get.list(name, "", _host, "hosts, e.g. 192.0.2.7,192.0.2.7:9211")))
    )
    cores: tuple[int, ...] = param(option=CORES)
    containers: tuple[bool, ...] = param(
        lambda get, name: tuple(where == CONTAINER for where in get.words(name, f"{CONTAINER} {BARE}", PLACES)),
        option=WHERE,
    )
    layouts: tuple[str, ...] = param(option=LAYOUTS)
    seconds: int = param(option=SECONDS, quick="8", full="600")
    warm_up_s: int = integer(10, 1, 600, quick="4", full="60")
    period_ms: int = integer(1000, 10, 600_000)
    payload_bytes: int = integer(36, 1, 100_000)
    drop_probability: float = number(0.01, 0, 1)
    memory_limit_bytes: int = param(
        lambda get, name: get.integer(name, 0, 0, 1_000_000) * 1_000_000, variable="MEMORY_LIMIT_MB"
    )
    token_life_s: int = integer(3600, 1, 86_400)
    certificate_life_s: int = integer(2_592_000, 1, 100_000_000)
    processors: int
    order_seed: int = integer(0, 0, 2**31, matters=False)

    @property
    def cells(self) -> list[LoadCell]:
        """Return every condition, each of which has `repetitions`."""
        if self.scenario == NODES:
            shapes = [(True, one.balancer, one.nodes, one.cores) for one in map(read_layout, self.layouts)]
        else:
            shapes = [(container, False, 1, cores) for container in self.containers for cores in self.cores]
        # As many cells, though their loads are not known yet.
        loads = self.devices or (0,) * len(self.shares)
        return [LoadCell.keyed(*shape, devices) for shape in shapes for devices in loads]

    @property
    def sending_s(self) -> float:
        return len(self.cells) * self.repetitions * self.seconds

    @property
    def whole_s(self) -> float:
        measured_s = len(self.cells) * self.repetitions * (self.seconds + self.warm_up_s + OVERHEAD_S)
        return measured_s + (LIMIT_S if self.shares else 0.0)

    @property
    def requests(self) -> int:
        """How many requests the devices of all repetitions post under load."""
        devices = sum(cell.devices for cell in self.cells)
        return round(devices * self.repetitions * self.seconds * 1000 / self.period_ms)

    @property
    def most_nodes(self) -> int:
        """How many nodes the largest cell has."""
        return max(cell.nodes for cell in self.cells)

    def at_limit(self, limit_per_s: float) -> "MiddlewareParameters":
        """Return these parameters with the loads of a machine that answers so many requests a second at most.

        Raises LabError (exit code 2) if two loads become the same.
        """
        devices = tuple(round(share / 100 * limit_per_s * self.period_ms / 1000) for share in self.shares)
        if 0 in devices or len(set(devices)) < len(devices):
            raise UsageError(
                f"At {limit_per_s:.1f} requests a second, {_text(self.shares)} % are not different loads.",
                "Give DEVICES as numbers, or raise PERIOD_MS.",
            )
        return replace(self, devices=devices, limit_per_s=round(limit_per_s, 1))

    def as_json(self) -> dict[str, Any]:
        """The effective parameters as run.json stores them."""
        where = [CONTAINER if container else BARE for container in self.containers]
        more = {"where": where, "others": others(self.processors)}
        return {**asdict(self), **more}


def read_layout(text: str) -> Layout:
    """Return a layout: 5x4, or 1x20-direct without a balancer. Raises ValueError."""
    match = LAYOUT.fullmatch(text)
    if match is None or (match[3] and match[1] != "1"):
        raise ValueError(text)
    return Layout(int(match[1]), int(match[2]), not match[3])


PARAMETERS = MiddlewareParameters


def read_parameters(environment: Mapping[str, str] = os.environ) -> MiddlewareParameters:
    """Read and check every parameter; raises LabError (exit code 2) naming the variable at fault."""
    get = Reader(environment, FOLDER)
    processors = os.cpu_count() or 1
    scenario = get.choice("SCENARIO", NAME, (NAME, NODES))
    system = load(get.choice("MIDDLEWARE", "magistrala", SYSTEMS))
    loads = get.list("DEVICES", _text(default_loads()), _load, "numbers of devices, e.g. 100,200, or shares: 50%,100%")
    seconds = get.integer("LOAD_S", 60, 2, 3600)
    parameters = MiddlewareParameters.of(
        get,
        scenario=scenario,
        system=system.name,
        system_version=system.version,
        devices=tuple(int(load) for load in loads if isinstance(load, int)),
        shares=tuple(load for load in loads if isinstance(load, float)),
        limit_per_s=None,
        load_processes=get.integer("LOAD_PROCESSES", len(others(processors)), 1, 64),
        cores=get.list("CORES", _text(default_cores(processors)), _count(processors), f"from 1 to {processors}"),
        layouts=get.list("LAYOUTS", _text(default_layouts(processors)), _layout, "e.g. 1x2-direct,1x2,2x1"),
        messages=seconds,
        seconds=seconds,
        processors=processors,
    )
    _check_loads(parameters)
    _check_layouts(parameters)
    _check_load_hosts(parameters, environment)
    return parameters


def _check_loads(parameters: MiddlewareParameters) -> None:
    if parameters.devices and parameters.shares:
        raise UsageError(
            "DEVICES mixes numbers of devices and shares of the machine's limit.",
            f"Give one or the other: --devices, or DEVICES in {FOLDER}/params.env.",
        )


def _check_layouts(parameters: MiddlewareParameters) -> None:
    for cell in parameters.cells:
        if cell.cores > parameters.processors:
            raise UsageError(
                f"LAYOUTS: a node of {cell.cores} cores does not fit on {parameters.processors} processors.",
                f"Lower the cores in LAYOUTS ({FOLDER}-nodes/params.env or --layouts).",
            )


def _check_load_hosts(parameters: MiddlewareParameters, environment: Mapping[str, str]) -> None:
    if not parameters.load_hosts:
        return
    if not all(cell.balancer for cell in parameters.cells):
        raise UsageError(
            "LOAD_HOSTS: devices on another host reach the balancer alone, and a cell of this run has none.",
            f"Use ./lab run {NODES} with layouts such as 1x1,2x1.",
        )
    if not environment.get(TOKEN):
        raise UsageError(
            f"LOAD_HOSTS needs {TOKEN}: the devices obey only a run that knows this secret.",
            f"Set {TOKEN} to the same secret here and on each of these hosts.",
        )


def _host(text: str) -> str:
    if text and not re.fullmatch(rf"{HOST}(:[0-9]{{1,5}})?", text):
        raise ValueError(text)
    return text


def _count(most: int) -> Any:
    def read(text: str) -> int:
        if not re.fullmatch(r"[1-9][0-9]{0,5}", text) or int(text) > most:
            raise ValueError(text)
        return int(text)

    return read


def _load(text: str) -> int | float:
    """Return a number of devices, or a share in percent. Raises ValueError."""
    if match := SHARE.fullmatch(text):
        if not 0 < float(match[1]) <= 500:
            raise ValueError(text)
        return float(match[1])
    return int(_count(100_000)(text))


def _layout(text: str) -> str:
    read_layout(text)
    return text


def _text(values: Any) -> str:
    return " ".join(map(str, values))
