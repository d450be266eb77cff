"""Which fault to inject where."""

from dataclasses import dataclass

TO_BROKER, TO_CLIENT = "to_broker", "to_client"
# As a controller sees it: requests go to the broker, answers come from it.
DEFAULT_TOPICS = {TO_BROKER: "request/", TO_CLIENT: "answer/"}
DELAY, LOSS, DUPLICATE, REORDER, MERGE, STALL, DISCONNECT = (
    "delay", "loss", "duplicate", "reorder", "merge", "stall", "disconnect",
)  # fmt: skip
# Each holds a packet until the next one of its topic.
PAIRING = (REORDER, MERGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One fault in one direction; bad values raise ValueError.

    topic        exact topic of the PUBLISH packets that count; default `request/` to the broker, `answer/` to the
                 client (a proxy beside the bridge needs the other one)
    indexes      picks these matching packets, from 0
    every        picks each Nth matching packet: indexes N-1, 2N-1, ...
    probability  picks each matching packet with this probability, seeded with `seed`
    delay_us     constant delay; 0 only records when each matching packet passed
    jitter_us    further delay, uniform from 0 to this, seeded with `seed`; the order stays
    stall_ms     from the picked packet on, nothing passes in this direction for this long
    grace_ms     time between forwarding the picked packet and resetting both sides, so that they can read it
    away_ms      after that reset, connections are refused for this long
    """

    impairment: str
    direction: str
    topic: str = ""
    indexes: tuple[int, ...] = ()
    every: int = 0
    probability: float = 0.0
    seed: int = 1
    delay_us: float = 0.0
    jitter_us: float = 0.0
    stall_ms: float = 0.0
    grace_ms: float = 5.0
    away_ms: float = 0.0

    def __post_init__(self) -> None:
        kinds = (DELAY, LOSS, DUPLICATE, STALL, DISCONNECT, *PAIRING)
        _require(self.impairment in kinds, f"`impairment` is {self.impairment!r}: choose one of {kinds}")
        _require(
            self.direction in DEFAULT_TOPICS, f"`direction` is {self.direction!r}: choose {TO_BROKER}, {TO_CLIENT}"
        )
        if not self.topic:
            object.__setattr__(self, "topic", DEFAULT_TOPICS[self.direction])
        picks = bool(self.indexes or self.every or self.probability)
        _require(picks == (self.impairment != DELAY), "every rule but a delay picks packets")
        _require((self.impairment == STALL) == (self.stall_ms > 0), "`stall_ms` belongs to a stall rule")
        _require(self.impairment == DELAY or not self.delay_us + self.jitter_us, "a delay belongs to a delay rule")
        _require(self.impairment == DISCONNECT or not self.away_ms, "`away_ms` belongs to a disconnect rule")
        overlap = self.every == 1 or any(index + 1 in self.indexes for index in self.indexes)
        _require(self.impairment not in PAIRING or not overlap, f"the pairs of a {self.impairment} rule overlap")


def _require(good: bool, message: str) -> None:
    if not good:
        raise ValueError(message)
