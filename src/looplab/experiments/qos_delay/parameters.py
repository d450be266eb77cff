"""The parameters of one run of qos-delay, read from the environment that params.env and .env give its container."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from looplab.errors import UsageError
from looplab.experiments.qos_delay import EXPERIMENT, NAME, DelayCell
from looplab.link.settings import DISTRIBUTIONS
from looplab.spec.cell import Cell
from looplab.spec.parameters import (
    MESSAGES,
    PACING,
    PACINGS,
    REPETITIONS,
    SCHEDULE,
    Option,
    RunParameters,
    check_samples,
    choice,
    host,
    integer,
    number,
    param,
    qos_list,
    switch,
)
from looplab.spec.reader import Reader, read_number

FOLDER = EXPERIMENT.scenarios
ALIKE = Option(
    "--delays", "DELAYS_MS", "MS,…", "mean delay of both links alike, e.g. 2,20,60", instead_of=("DELAYS_MS",)
)
PAIRS = Option("--pairs", "PAIRS_MS", "MS-MS,…", "delays of the two links, e.g. 0-20,2-18", instead_of=("DELAYS_MS",))
# The published sweep (seed 003): mean delay of both links alike, and pairs D_PB-D_BS of one end-to-end delay.
SYMMETRICAL_MS = "2 5 10 15 20 25 30 40 50 60"
PAIRS_MS = "0-20 2-18 10-10 18-2 20-0"
# Beyond, the client would take the network for gone (mqtt_link.PEER_TIMEOUT_MS).
MAX_DELAY_MS = 500.0
# A run's token and its dash come before the number of the message.
TOKEN_BYTES = 9
DIGITS = 9
# What a cell takes besides its messages: probes, capture and dissecting; and each of its connections, with its warm-up.
CELL_OVERHEAD_S = 3.0
CONNECTION_OVERHEAD_S = 1.0


@dataclass(frozen=True, kw_only=True)
class QosDelayParameters(RunParameters):
    """What one run does; `pairs_ms` are (publisher-broker, broker-subscriber).

    Each repetition of a cell has connections of its own.
    """

    scenario: str = choice(NAME, (NAME,), matters=False)
    messages: int = integer(2000, 5, 1_000_000, option=MESSAGES, quick="200")
    repetitions: int = integer(5, 1, 1000, option=REPETITIONS, quick="1")
    deadline_ms: int = integer(5000, 10, 600_000)
    pairs_ms: tuple[tuple[float, float], ...] = param(option=PAIRS, also=ALIKE, quick="2,10,30,60")
    qos: tuple[int, ...] = qos_list("0 1 2")
    interval_ms: float = number(10, 0.5, 60_000)
    payload_bytes: int = integer(20, TOKEN_BYTES + DIGITS, 1000)
    distribution: str = choice("normal", DISTRIBUTIONS)
    jitter_share: float = number(0.1, 0, 1)
    reorder: bool = switch(True)
    max_inflight: int = integer(0, 0, 20)
    rto_min_ms: int = integer(10_000, 200, 120_000)
    tcp_nodelay: bool = switch({"thesis": False, "corrected": True})
    # The source gives a rate, 100 messages a second, at either fidelity.
    pacing: str = choice(SCHEDULE, PACINGS, option=PACING)
    warmup_messages: int = integer(20, 1, 10_000)
    host_pb: str = host("broker-pb", variable="BROKER_PB")
    host_bs: str = host("broker-bs", variable="BROKER_BS")
    own_pb: str = host("controller-pb", variable="CONTROLLER_PB")
    own_bs: str = host("controller-bs", variable="CONTROLLER_BS")
    broker_port: int = integer(1883, 1, 65535, matters=False)

    @property
    def cells(self) -> list[DelayCell]:
        return [DelayCell.keyed(*pair, qos) for qos in self.qos for pair in self.pairs_ms]

    def pace_ms(self, _cell: Cell) -> float:
        return self.interval_ms

    @property
    def overhead_s(self) -> float:
        return CELL_OVERHEAD_S + CONNECTION_OVERHEAD_S * self.repetitions

    def jitter_ms(self, delay_ms: float) -> float:
        """Scale of the distribution of one link's delay."""
        return 0.0 if self.distribution == "constant" else self.jitter_share * delay_ms


PARAMETERS = QosDelayParameters


def read_parameters(environment: Mapping[str, str]) -> QosDelayParameters:
    """Read and check every parameter; raises LabError (exit code 2) naming the variable at fault."""
    get = Reader(environment, FOLDER)
    parameters = QosDelayParameters.of(get, pairs_ms=_pairs(environment, get))
    if parameters.max_inflight not in (0, 20):
        raise UsageError(
            f"MAX_INFLIGHT={parameters.max_inflight}: the broker is set up for 0 (no limit) and 20 (the default).",
            f"Set MAX_INFLIGHT to 0 or 20; another number needs a folder of its own in {FOLDER}/mosquitto.",
        )
    check_samples(parameters, "MESSAGES, REPETITIONS or the number of DELAYS_MS, PAIRS_MS and QOS")
    return parameters


def _pairs(environment: Mapping[str, str], get: Reader) -> tuple[tuple[float, float], ...]:
    """DELAYS_MS (both links alike) and PAIRS_MS; the published ones where neither is set, else what is set."""
    chosen = any(environment.get(name, "").strip() for name in ("DELAYS_MS", "PAIRS_MS"))
    pairs: list[tuple[float, float]] = []
    if not chosen or environment.get("DELAYS_MS", "").strip():
        expected = f"numbers from 0 to {MAX_DELAY_MS:g}, e.g. 2,20,60"
        pairs += [(delay, delay) for delay in get.list("DELAYS_MS", SYMMETRICAL_MS, _delay, expected)]
    if not chosen or environment.get("PAIRS_MS", "").strip():
        expected = f"pairs of delays from 0 to {MAX_DELAY_MS:g}, e.g. 0-20,2-18"
        pairs += get.list("PAIRS_MS", PAIRS_MS, _pair, expected)
    # 10-10 is both: one cell.
    return tuple(dict.fromkeys(pairs))


def _pair(text: str) -> tuple[float, float]:
    pb, dash, bs = text.partition("-")
    if not dash:
        raise ValueError(text)
    return _delay(pb), _delay(bs)


def _delay(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3})?", text) or float(text) > MAX_DELAY_MS:
        raise ValueError(text)
    return read_number(text)
