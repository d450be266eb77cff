"""The parameters of one run of twin, read from the environment that params.env and .env give its container."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import ClassVar, Self

from looplab.experiments.twin import NAME, PROTOTYPE, ROW, WRITE_MODES, TwinCell
from looplab.experiments.twin.message import LEAST_BYTES
from looplab.spec.cell import Cell
from looplab.spec.parameters import (
    INTERVALS,
    MESSAGES,
    REPETITIONS,
    Option,
    OrderedParameters,
    choice,
    integer,
    matching,
    number,
    numbers,
    param,
    qos_list,
    switch,
    words,
)
from looplab.spec.reader import HOST, Reader

FOLDER = f"compose/experiments/{NAME}"
LIMIT, BROKERS = "twin-limit", "twin-brokers"
# The paper does not print its write mode: `published` is that of the group's code, the prototype.
OTHER_NAMES = {"published": PROTOTYPE}
USUAL_MODE = {"thesis": PROTOTYPE, "corrected": ROW}
SINGLE, CENTRAL, DISTRIBUTED = PLACEMENTS = ("single", "central", "distributed")
# A machine holds its broker alone, or all parts that the paper has on it.
BROKER, ALL = CONFINES = ("broker", "all")
USUAL_CONFINE = {"thesis": ALL, "corrected": BROKER, LIMIT: BROKER}
WRITE_MODE = Option("--write-mode", "WRITE_MODE", "MODE,…", f"how the twin stores: {', '.join(WRITE_MODES)}")
CONFINE = Option("--confine", "CONFINE", "", "what a machine holds: the broker, or broker and instance", CONFINES)
# The estimate of a run's length assumes that a session takes this long to open.
SESSION_MS = 10.0
# The start of workers, the scans and the queries of a cell take this long.
CELL_OVERHEAD_S = 2.0
# The size of machines by the defaults of compose/experiments/twin; `./lab run` sets what this computer has room for.
PLAIN_SCALE = 0.5
# The paper prints 67 ms and 10 ms; the other intervals are ours.
PUBLISHED_MS = "100 80 67 50 40 20 10"
DRAIN_S = (1, 3600)
_PLACE = rf"{HOST}:[0-9]{{1,5}}"


def _modes(get: Reader, name: str) -> tuple[str, ...]:
    named = get.words(name, get.default(USUAL_MODE), (*WRITE_MODES, *OTHER_NAMES))
    return tuple(dict.fromkeys(OTHER_NAMES.get(mode, mode) for mode in named))


@dataclass(frozen=True, kw_only=True)
class TwinParameters(OrderedParameters):
    """What one run does.

    With `search` a cell's rate is searched in steps of `step_s`, and the rows of a cell are those of its last step:
    as many as a step has at the highest rate.
    """

    lower: ClassVar[str] = "MESSAGES, REPETITIONS, MAX_RATE_PER_S or the number of INTERVALS_MS, BROKERS and WRITE_MODE"
    scenario: str = choice(NAME, (NAME, BROKERS, LIMIT), matters=False)
    # twin-brokers places brokers in five ways: with several intervals it would take more than three minutes.
    intervals_ms: tuple[float, ...] = numbers(
        PUBLISHED_MS, 0.05, 60_000, option=INTERVALS, quick={"": "100,50,10", BROKERS: "10"}
    )
    messages: int = integer(1000, 5, 1_000_000, option=MESSAGES, quick="200")
    brokers: tuple[int, ...] = param(
        lambda get, name: tuple(map(int, get.words(name, "1", ("1", "2", "4")))),
        "1",
        option=Option("--brokers", "BROKERS", "1,2,4", "number of brokers, one cell each"),
    )
    placements: tuple[str, ...] = words(DISTRIBUTED, PLACEMENTS[1:])
    write_modes: tuple[str, ...] = param(_modes, USUAL_MODE, option=WRITE_MODE, factor=True)
    qos: tuple[int, ...] = qos_list("1")
    iterations: int = integer(1, 1, 1000, option=REPETITIONS, quick="1")
    devices: int = integer(1, 1, 100, factor=True)
    workers: int = integer(1, 1, 4, factor=True)
    # This many machines send in place of the controller; 0: the controller sends (docs/many-hosts.md).
    device_workers: int = integer(0, 0, 100, factor=True)
    # On a Swarm each part has its own PID namespace, so nobody can read the processes of the others.
    swarm: bool = switch(False, factor=True)
    payload_bytes: int = integer(64, LEAST_BYTES, 100_000, factor=True)
    max_inflight: int = integer({"thesis": 20, "corrected": 0, LIMIT: 0}, 0, 65_535, factor=True)
    persistence: bool = switch(False, factor=True)
    confine: str = choice(USUAL_CONFINE, CONFINES, option=CONFINE, factor=True)
    machine_scale: float = number(PLAIN_SCALE, 0.01, 100)
    drain_timeout_s: int = integer(300, *DRAIN_S)
    deadline_ms: int = param(lambda get, name: 1000 * get.integer(name, 300, *DRAIN_S), variable="DRAIN_TIMEOUT_S")
    search: bool = False
    step_s: float = number(10, 1, 600, quick="3")
    search_steps: int = integer(12, 3, 100, quick="8")
    max_rate_per_s: int = integer(10_000, 10, 100_000, quick="4000")
    delay_limit_ms: int = integer(100, 1, 60_000)
    tcp_nodelay: bool = switch({"thesis": False, "corrected": True}, factor=True)
    # The addresses of the brokers in a run without Compose.
    broker_hosts: str = matching("", rf"({_PLACE}(,{_PLACE})*)?", "host:port,…", matters=False)

    def checked(self, environment: Mapping[str, str]) -> Self:
        if self.scenario != LIMIT:
            return self
        messages = ceil(self.max_rate_per_s * self.step_s)
        return replace(self, search=True, messages=messages, intervals_ms=(1000 / self.max_rate_per_s,))

    @property
    def published_cells(self) -> list[TwinCell]:
        ways = [(n, where) for n in self.brokers for where in (self.placements if n > 1 else (SINGLE,))]
        return [
            TwinCell.keyed(interval_ms, *way, mode, qos, iteration)
            for iteration, mode, qos, way, interval_ms in product(
                range(self.iterations), self.write_modes, self.qos, ways, self.intervals_ms
            )
        ]

    def message_ms(self, cell: Cell) -> float:
        """Return about how long a message takes to be sent, and stored by those who take."""
        assert isinstance(cell, TwinCell)
        mode = WRITE_MODES[cell.write_mode]
        store_ms = mode.sleep_ms + (0 if mode.keeps_session else SESSION_MS)
        return 0.0 if self.search else max(cell.interval_ms, store_ms / cell.brokers)

    @property
    def overhead_s(self) -> float:
        return self.search_steps * (CELL_OVERHEAD_S + self.step_s) if self.search else CELL_OVERHEAD_S

    def hosts(self, cell: TwinCell) -> list[tuple[str, int]]:
        if cell.placement == CENTRAL:
            return [(f"central-{cell.brokers}", 1883 + at) for at in range(cell.brokers)]
        if self.broker_hosts:
            named = [host.rpartition(":") for host in self.broker_hosts.split(",")]
            return [(host, int(port)) for host, _, port in named[: cell.brokers]]
        return [(f"broker-{at + 1}", 1883) for at in range(cell.brokers)]

    def device_of(self, row: int) -> int:
        """Return the device of a message, counted from 1."""
        return row % self.devices + 1

    def broker_of(self, row: int) -> int:
        """Return the broker that a message went through, counted from 1."""
        cell: TwinCell = self.cells[row // len(self.rows(0))]
        return row // self.devices % cell.brokers + 1


PARAMETERS = TwinParameters
