"""The two links of a cell: set, probed before it, and judged after it by what the emulators really made.

Two emulators, one in the network namespace of publisher and subscriber and one in the broker's, each delay what
arrives there. Delayed where it leaves, a packet would stay in its socket's account, and TCP (its small queues)
sends no third one while two wait: netem takes them off that account, NFQUEUE cannot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from looplab.experiments.qos_delay import DelayCell
from looplab.experiments.qos_delay.parameters import QosDelayParameters, impairment
from looplab.link import client
from looplab.link.settings import LinkSettings
from looplab.treatments.emulators import Emulators, off, order_ms

PROBES = 40
PROBE_INTERVAL_MS = 5
# The emulator of publisher and subscriber, and the broker's.
EMULATORS = Emulators({"own": client.URL, "broker": "http://broker:9107"})


@dataclass(frozen=True)
class Way:
    """One direction of one link: delayed by the emulator at its end (`at`: own or broker), for what comes from `peer`.

    `probed` is which way of a probe went by it. `forward` ways carry messages, the others acknowledgements.
    """

    link: str
    at: str
    peer: str
    delay_ms: float
    probed: str
    forward: bool


@dataclass
class Made:
    """What was found of a cell's links; `faults` is empty where they were as wanted from its start to its end.

    `delays_ms` are the mean delays of the forward ways: by every packet where the emulator sees them, else by probes.
    """

    backend: str = ""
    faults: list[str] = field(default_factory=list)
    delays_ms: dict[str, float] = field(default_factory=dict)
    probes: dict[str, Any] = field(default_factory=dict)
    ways: list[dict[str, Any]] = field(default_factory=list)

    @property
    def total_ms(self) -> float:
        """The mean end-to-end delay."""
        return sum(self.delays_ms.values())

    def as_json(self) -> dict[str, Any]:
        """`end_to_end_ms` of a cell in run.json; null where nothing could be measured."""
        if self.delays_ms.keys() != {"pb", "bs"}:
            return {"pb": None, "bs": None, "total": None}
        return {**{way: round(ms, 4) for way, ms in self.delays_ms.items()}, "total": round(self.total_ms, 4)}


def ways(p: QosDelayParameters, cell: DelayCell) -> list[Way]:
    return [
        Way("pb", "broker", p.own_pb, cell.delay_pb_ms, "there_ms", True),
        Way("pb", "own", p.host_pb, cell.delay_pb_ms, "back_ms", False),
        Way("bs", "broker", p.own_bs, cell.delay_bs_ms, "there_ms", False),
        Way("bs", "own", p.host_bs, cell.delay_bs_ms, "back_ms", True),
    ]


def links(p: QosDelayParameters, cell: DelayCell) -> dict[str, list[LinkSettings]]:
    """Return what each emulator shall do; a way without a delay is left as it is."""
    wanted: dict[str, list[LinkSettings]] = {at: [] for at in EMULATORS.urls}
    for way in ways(p, cell):
        if way.delay_ms:
            jitter_ms, more = p.jitter_ms(way.delay_ms, cell.network), impairment(cell.network)
            settings = LinkSettings(way.peer, "ingress", way.delay_ms, jitter_ms, reorder=p.reorder, **more)
            wanted[way.at].append(settings)
    return wanted


def set_up(p: QosDelayParameters, cell: DelayCell, emulators: Emulators) -> Made:
    """Set a cell's links and probe them. Raises LabError where an emulator or the responder does not answer."""
    made = Made(emulators.apply(links(p, cell)))
    for link, peer in (("pb", p.host_pb), ("bs", p.host_bs)):
        made.probes[link] = client.probe(peer, PROBES, PROBE_INTERVAL_MS, url=emulators.urls["own"])
    return made


def judge(p: QosDelayParameters, cell: DelayCell, made: Made, emulators: Emulators) -> None:
    """Ask the emulators after a cell, and fill in what they made and what is wrong with it."""
    reports, faults = emulators.judge(links(p, cell))
    made.faults += faults
    for way in ways(p, cell):
        if report := reports.get((way.at, way.peer, "ingress")):
            _judge_way(way, report, made)
        elif way.forward and not way.delay_ms:
            made.delays_ms[way.link] = 0.0


def _judge_way(way: Way, link: Mapping[str, Any], made: Made) -> None:
    probed = made.probes[way.link][way.probed]
    made.ways.append({"link": way.link, **{key: value for key, value in link.items() if key != "addresses"}})
    if not probed["n"]:
        made.faults.append(f"from {way.peer}: no probe came by")
    elif why := off(
        "the probes'", probed["mean"], link["theory_ms"], probed["n"], order_ms(link["settings"], link["theory_ms"])
    ):
        made.faults.append(f"from {way.peer}: {why}")
    if way.forward:
        figures = link["delay_ms"] if link["delay_ms"]["n"] else probed
        made.delays_ms[way.link] = float(figures["mean"] or 0.0)
