"""The parameters of one run, read from the environment that params.env and .env give its container."""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Self

from looplab.errors import UsageError
from looplab.experiments.middleware import EXPERIMENT, NAME, NODES, LoadCell
from looplab.experiments.middleware.devices import DevicePlan
from looplab.experiments.middleware.placement import (
    ONE_NODE_OPTIMUM,
    PUBLISHED_OPTIMUM,
    default_cores,
    default_layouts,
    default_loads,
    others,
    siblings,
)
from looplab.experiments.middleware.systems import SYSTEMS, load
from looplab.spec.parameters import REPETITIONS, Option, RunParameters, choice, integer, number, param, switch, words
from looplab.spec.reader import Reader, as_text
from looplab.system.machine_facts import usable_processors

FOLDER = EXPERIMENT.scenarios.replace("*", "")
CONTAINER = "container"
PLACES = (CONTAINER, "bare")
DEVICES = Option(
    "--devices", "DEVICES", "N,…", "simulated devices: 100,200, or shares of this machine's limit: 50%,100%"
)
CORES = Option("--cores", "CORES", "N,…", "processors of the middleware (middleware)")
WHERE = Option("--where", "WHERE", "…", "container,bare: in containers, on bare metal, or both (middleware)")
LAYOUTS = Option("--layouts", "LAYOUTS", "NxC,…", "nodes x cores, e.g. 1x2-direct,1x2,2x1 (middleware-nodes)")
SECONDS = Option("--seconds", "LOAD_S", "S", "how long each repetition loads the middleware")
MIDDLEWARE = Option("--middleware", "MIDDLEWARE", "", "the system under test", SYSTEMS)
# A layout is nodes x cores of each, with "-direct" behind it if there is no balancer.
LAYOUT = re.compile("([1-9][0-9]?)x([1-9][0-9]?)(-direct)?")
MOST_DEVICES = 100_000
# The paper sends three requests to each node before the load, and all devices begin at the same time.
THREE, LOAD = WARM_UPS = ("three", "load")
TOGETHER, SPREAD = STARTS = ("together", "spread")
# Stopping the middleware and reading the database take this long in each repetition.
OVERHEAD_S = 7.0
# Measuring the limit takes this long. A run does so if its loads are shares of the limit.
LIMIT_S = 30.0


def read_layout(text: str) -> tuple[bool, int, int]:
    """Return balancer, nodes, cores of a node: 5x4, or 1x20-direct without a balancer. Raises ValueError."""
    match = LAYOUT.fullmatch(text)
    if match is None or (match[3] and match[1] != "1"):
        raise ValueError(text)
    return not match[3], int(match[1]), int(match[2])


def _layout(text: str) -> str:
    read_layout(text)
    return text


def _count(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not 1 <= (value := int(text)) <= most:
            raise ValueError(text)
        return value

    return read


def _load(text: str) -> int | float:
    """Return a number of devices, or a share in percent. Raises ValueError."""
    if not text.endswith("%"):
        return _count(MOST_DEVICES)(text)
    if not 0 < (share := float(text.removesuffix("%"))) <= 500:
        raise ValueError(text)
    return share


def _loads(kind: type, get: Reader, name: str) -> tuple[Any, ...]:
    """Return the loads of DEVICES that are numbers of devices (int), or shares of the limit (float)."""
    optimum = ONE_NODE_OPTIMUM if get.choice("SCENARIO", NAME, (NAME, NODES)) == NODES else PUBLISHED_OPTIMUM
    expected = "numbers of devices, e.g. 100,200, or shares: 50%,100%"
    loads = get.list(name, as_text(default_loads(optimum)), _load, expected)
    return tuple(one for one in loads if isinstance(one, kind))


def _cores(get: Reader, name: str) -> tuple[int, ...]:
    processors = len(usable_processors())
    return get.list(name, as_text(default_cores(processors)), _count(processors), f"from 1 to {processors}")


def _layouts(get: Reader, name: str) -> tuple[str, ...]:
    return get.list(name, as_text(default_layouts(len(usable_processors()))), _layout, "e.g. 1x2-direct,1x2,2x1")


@dataclass(frozen=True, kw_only=True)
class MiddlewareParameters(RunParameters):
    """What one run does; `messages` are the seconds of a repetition, a row of samples.csv each.

    With `shares` of the machine's limit, `devices` is empty until `at_limit` knows it.
    """

    scenario: str = choice(NAME, (NAME, NODES), matters=False)
    messages: int = integer(60, 2, 3600, variable="LOAD_S")
    repetitions: int = integer(7, 1, 1000, option=REPETITIONS, quick="1")
    deadline_ms: int = integer(5000, 10, 600_000)
    system: str = choice("magistrala", SYSTEMS, option=MIDDLEWARE)
    system_version: str = param(
        lambda get, name: load(get.choice(name, "magistrala", SYSTEMS)).version, variable="MIDDLEWARE"
    )
    devices: tuple[int, ...] = param(partial(_loads, int), option=DEVICES, quick="100")
    shares: tuple[float, ...] = param(partial(_loads, float), variable="DEVICES")
    limit_per_s: float | None = None
    load_processes: int = param(lambda get, name: get.integer(name, len(others(usable_processors())), 1, 64))
    # On a Swarm each part has its own PID namespace, so nobody can read the processes of the others.
    swarm: bool = switch(False, factor=True)
    cores: tuple[int, ...] = param(_cores, option=CORES)
    where: tuple[str, ...] = words(" ".join(PLACES), PLACES, option=WHERE)
    layouts: tuple[str, ...] = param(_layouts, option=LAYOUTS)
    seconds: int = integer(60, 2, 3600, option=SECONDS, quick="8")
    warm_up: str = choice({"thesis": THREE, "corrected": LOAD}, WARM_UPS, factor=True)
    warm_up_s: int = integer(10, 1, 600, quick="4")
    start: str = choice({"thesis": TOGETHER, "corrected": SPREAD}, STARTS, factor=True)
    period_ms: int = integer(1000, 10, 600_000)
    payload_bytes: int = integer(36, 1, 100_000)
    drop_probability: float = number(0.01, 0, 1)
    memory_limit_bytes: int = param(
        lambda get, name: get.integer(name, 0, 0, 1_000_000) * 1_000_000, variable="MEMORY_LIMIT_MB"
    )
    processors: int = field(default_factory=lambda: len(usable_processors()))
    order_seed: int = integer(0, 0, 2**31, matters=False)

    def checked(self, environment: Mapping[str, str]) -> Self:
        if self.devices and self.shares:
            raise UsageError(
                "DEVICES mixes numbers of devices and shares of the machine's limit.",
                f"Give one or the other: --devices, or DEVICES in {FOLDER}/params.env.",
            )
        if (largest := max(cell.cores for cell in self.cells)) > self.processors:
            raise UsageError(
                f"LAYOUTS: a node of {largest} cores does not fit on {self.processors} processors.",
                f"Lower the cores in LAYOUTS ({FOLDER}-nodes/params.env or --layouts).",
            )
        return self

    @property
    def schedule(self) -> list[LoadCell]:
        """Return the cells in the order of measuring: each repetition has all of them, at random."""
        chance = random.Random(self.order_seed)
        return [cell for _ in range(self.repetitions) for cell in chance.sample(self.cells, len(self.cells))]

    @property
    def cells(self) -> list[LoadCell]:
        """Return every condition, each of which has `repetitions`."""
        if self.scenario == NODES:
            shapes = [(True, *read_layout(text)) for text in self.layouts]
        else:
            shapes = [(where == CONTAINER, False, 1, cores) for where in self.where for cores in self.cores]
        # The number of cells is known before the loads are.
        loads = self.devices or (0,) * len(self.shares)
        return [LoadCell.keyed(*shape, devices) for shape in shapes for devices in loads]

    def rows(self, cell: int) -> range:
        """Return the seconds of one repetition: what a run measures one after the other."""
        return range(cell * self.seconds, (cell + 1) * self.seconds)

    def left_s(self, done: int) -> float:
        start_s = load(self.system).start_s + (self.warm_up_s if self.warm_up == LOAD else 0.0)
        limit_s = LIMIT_S if self.shares and self.limit_per_s is None else 0.0
        return (self.samples - done) / self.seconds * (self.seconds + start_s + OVERHEAD_S) + limit_s

    @property
    def requests(self) -> int:
        """How many requests the devices of all repetitions post under load."""
        devices = sum(cell.devices for cell in self.cells)
        return round(devices * self.repetitions * self.seconds * 1000 / self.period_ms)

    @property
    def most_nodes(self) -> int:
        """How many nodes the largest cell has."""
        return max(cell.nodes for cell in self.cells)

    def plan(self, name: str, devices: int, way: Mapping[str, Any], seconds: int, seed: int = 0) -> DevicePlan:
        """Return what the devices do in so many `seconds`; `way` gives them routes and certificate."""
        return DevicePlan(
            name=name,
            first=0,
            devices=devices,
            **way,
            period_ns=self.period_ms * 1_000_000,
            end_ns=seconds * 1_000_000_000,
            deadline_ns=self.deadline_ms * 1_000_000,
            payload_bytes=self.payload_bytes,
            drop_probability=self.drop_probability,
            seed=seed,
            together=self.start == TOGETHER,
        )

    def at_limit(self, limit_per_s: float) -> Self:
        """Return these parameters with the loads of a machine that answers so many requests a second at most.

        Raises LabError (exit code 2) if two loads become the same.
        """
        devices = tuple(round(share / 100 * limit_per_s * self.period_ms / 1000) for share in self.shares)
        if 0 in devices or len(set(devices)) < len(devices):
            raise UsageError(
                f"At {limit_per_s:.1f} requests a second, {as_text(self.shares)} % are not different loads.",
                "Give DEVICES as numbers, or raise PERIOD_MS.",
            )
        return replace(self, devices=devices, limit_per_s=round(limit_per_s, 1))

    def as_json(self) -> dict[str, Any]:
        """The effective parameters as run.json stores them."""
        return {**asdict(self), "others": others(usable_processors()), "siblings": siblings()}


PARAMETERS = MiddlewareParameters
