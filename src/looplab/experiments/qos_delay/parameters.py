"""The parameters of one run of qos-delay, read from the environment that params.env and .env give its container."""

import re
from dataclasses import dataclass
from itertools import product

from looplab.experiments.qos_delay import NAME, USUAL, DelayCell
from looplab.link.settings import DISTRIBUTIONS
from looplab.spec.cell import Cell
from looplab.spec.parameters import (
    MESSAGES,
    REPETITIONS,
    Option,
    OrderedParameters,
    choice,
    host,
    integer,
    number,
    param,
    qos_list,
    switch,
    words,
)
from looplab.spec.reader import Reader, read_number

ALIKE = Option("--delays", "DELAYS_MS", "MS,…", "mean delay of both links alike, e.g. 2,20,60")
NETWORKS = Option("--networks", "NETWORKS", "NAME,…", "how delays vary: normal,uniform,pareto")
PAIRS = Option("--pairs", "PAIRS_MS", "MS-MS,…", "delays of the two links, e.g. 0-20,2-18")
# The published sweep (seed 003): mean delay of both links alike, and pairs D_PB-D_BS of one end-to-end delay. Of the
# pairs the source prints 0-20 and 2-18; their mirror images are ours.
SYMMETRICAL_MS = "2 5 10 15 20 25 30 40 50 60"
PAIRS_MS = "0-20 2-18 10-10 18-2 20-0"
# Beyond, the client would take the network for gone (looplab.mqtt.dial.PEER_TIMEOUT_S).
MAX_DELAY_MS = 500.0
# A run's token and its dash come before the number of the message.
TOKEN_BYTES = 9
DIGITS = 9
# A cell takes this long besides its messages (echoes, capture, dissecting); each connection takes more for its warm-up.
CELL_OVERHEAD_S = 3.0
CONNECTION_OVERHEAD_S = 1.0


def _pairs(get: Reader, _name: str) -> tuple[tuple[float, float], ...]:
    """DELAYS_MS (both links alike) and PAIRS_MS; the published ones where neither is set, else what is set."""
    names = ("DELAYS_MS", "PAIRS_MS")
    alike, apart = map(get.given, names) if any(map(get.given, names)) else (True, True)
    pairs: list[tuple[float, float]] = []
    if alike:
        expected = f"numbers from 0 to {MAX_DELAY_MS:g}, e.g. 2,20,60"
        pairs += [(delay, delay) for delay in get.list(names[0], SYMMETRICAL_MS, _delay, expected)]
    if apart:
        expected = f"pairs of delays from 0 to {MAX_DELAY_MS:g}, e.g. 0-20,2-18"
        pairs += get.list(names[1], PAIRS_MS, _pair, expected)
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


@dataclass(frozen=True, kw_only=True)
class QosDelayParameters(OrderedParameters):
    """What one run does; `pairs_ms` are (publisher-broker, broker-subscriber).

    Each repetition of a cell has connections of its own.
    """

    lower = "MESSAGES, REPETITIONS or the number of DELAYS_MS, PAIRS_MS and QOS"
    scenario: str = choice(NAME, (NAME,), matters=False)
    messages: int = integer(2000, 5, 1_000_000, option=MESSAGES, quick="200")
    repetitions: int = integer(5, 1, 1000, option=REPETITIONS, quick="1")
    deadline_ms: int = integer(5000, 10, 600_000)
    pairs_ms: tuple[tuple[float, float], ...] = param(
        _pairs, f"{SYMMETRICAL_MS} {PAIRS_MS}", option=PAIRS, also=ALIKE, quick="2,10,30,60"
    )
    qos: tuple[int, ...] = qos_list("0 1 2")
    interval_ms: float = number(10, 0.5, 60_000)
    payload_bytes: int = integer(20, TOKEN_BYTES + DIGITS, 1000)
    networks: tuple[str, ...] = words(USUAL, DISTRIBUTIONS, option=NETWORKS)
    jitter_share: float = number(0.1, 0, 1)
    reorder: bool = switch(True)
    rto_min_ms: int = integer(10_000, 200, 120_000)
    tcp_nodelay: bool = switch({"thesis": False, "corrected": True})
    warmup_messages: int = integer(20, 1, 10_000)
    host_pb: str = host("broker-pb", variable="BROKER_PB")
    host_bs: str = host("broker-bs", variable="BROKER_BS")
    own_pb: str = host("controller-pb", variable="CONTROLLER_PB")
    own_bs: str = host("controller-bs", variable="CONTROLLER_BS")
    broker_port: int = integer(1883, 1, 65535, matters=False)

    @property
    def published_cells(self) -> list[DelayCell]:
        networks = product(self.networks, self.qos, self.pairs_ms)
        return [DelayCell.keyed(*pair, qos, network) for network, qos, pair in networks]

    def pace_ms(self, _cell: Cell) -> float:
        return self.interval_ms

    @property
    def overhead_s(self) -> float:
        return CELL_OVERHEAD_S + CONNECTION_OVERHEAD_S * self.repetitions

    def jitter_ms(self, delay_ms: float, network: str) -> float:
        """Scale of the distribution of one link's delay."""
        return 0.0 if network == "constant" else self.jitter_share * delay_ms


PARAMETERS = QosDelayParameters
