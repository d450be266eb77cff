"""The two links of a cell: set before it, and judged after it by what the emulators really made.

Two emulators, one in the network namespace of publisher and subscriber and one in the broker's, each delay what
arrives there. Delayed where it leaves, a packet would stay in its socket's account, and TCP (its small queues)
sends no third one while two wait: netem takes them off that account, NFQUEUE cannot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from looplab.experiments.qos_delay import DelayCell
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.link import client
from looplab.link.settings import LinkSettings
from looplab.treatments.link import Emulators, trip_deviation

# The emulator of publisher and subscriber, and the broker's.
OWN, BROKER = "own", "broker"
EMULATORS = Emulators({OWN: client.URL, BROKER: "http://broker:9107"})


class Link(NamedTuple):
    """One of the two links. `peers` gives the end from which each emulator delays what comes.

    Messages are delayed by the emulator `forward`, acknowledgements by the other one.
    """

    name: str
    delay_ms: float
    peers: Mapping[str, str]
    forward: str


@dataclass
class Made:
    """What was found of a cell's links; `faults` is empty where they were as wanted from its start to its end.

    `delays_ms` are the mean delays of the messages: by every packet where the emulator sees them, else half of a round
    trip, whose ways are alike. `ways` are the emulators' reports.
    """

    backend: str = ""
    faults: list[str] = field(default_factory=list)
    delays_ms: dict[str, float] = field(default_factory=dict)
    ways: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """`end_to_end_ms` of a cell in run.json; null where nothing could be measured."""
        if self.delays_ms.keys() != {"pb", "bs"}:
            return {"pb": None, "bs": None, "total": None}
        total_ms = sum(self.delays_ms.values())
        return {**{link: round(ms, 4) for link, ms in self.delays_ms.items()}, "total": round(total_ms, 4)}


def _both(p: QosDelayParameters, cell: DelayCell) -> tuple[Link, Link]:
    return (
        Link("pb", cell.delay_pb_ms, {OWN: p.host_pb, BROKER: p.own_pb}, BROKER),
        Link("bs", cell.delay_bs_ms, {OWN: p.host_bs, BROKER: p.own_bs}, OWN),
    )


def links(p: QosDelayParameters, cell: DelayCell) -> dict[str, list[LinkSettings]]:
    """Return what each emulator shall do; a link without a delay is left as it is."""
    wanted: dict[str, list[LinkSettings]] = {at: [] for at in EMULATORS.urls}
    for link in _both(p, cell):
        if link.delay_ms:
            how = link.delay_ms, p.jitter_ms(link.delay_ms, cell.network), cell.network
            for at, peer in link.peers.items():
                wanted[at].append(LinkSettings(peer, "ingress", *how, reorder=p.reorder))
    return wanted


def judge(p: QosDelayParameters, cell: DelayCell, made: Made, emulators: Emulators) -> None:
    """Ask the emulators after a cell, and fill in what they made and what is wrong with it."""
    reports, faults = emulators.judge(links(p, cell), OWN)
    made.faults += faults
    for link in _both(p, cell):
        ways = {at: report for at, peer in link.peers.items() if (report := reports.get((at, peer, "ingress")))}
        if not link.delay_ms:
            made.delays_ms[link.name] = 0.0
        elif ways.keys() == link.peers.keys():
            _judge_link(link, ways, made)


def _judge_link(link: Link, ways: Mapping[str, dict[str, Any]], made: Made) -> None:
    for way in ways.values():
        made.ways.append({"link": link.name, **{key: value for key, value in way.items() if key != "addresses"}})
    forward, trip = ways[link.forward]["delay_ms"], ways[OWN]["rtt_ms"]
    why = trip_deviation([trip], list(ways.values()))
    if forward["n"]:
        made.delays_ms[link.name] = float(forward["mean"])
    elif trip and trip["n"]:
        made.delays_ms[link.name] = trip["mean"] / 2
    else:
        why = why or "no echo came back"
    made.faults += [f"{link.peers[OWN]}: {why}"] if why else []
