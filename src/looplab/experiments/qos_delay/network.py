"""The two links of a cell: set before it, and judged after it by what the emulators really made.

Two emulators, one in the network namespace of publisher and subscriber and one in the broker's, each delay what
arrives there. Delayed where it leaves, a packet would stay in its socket's account, and TCP (its small queues)
sends no third one while two wait: netem takes them off that account, NFQUEUE cannot.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from looplab.errors import LabError
from looplab.experiments.qos_delay import DelayCell
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.link import client
from looplab.link.settings import LinkSettings
from looplab.run.cells import CellResult
from looplab.treatments.link import CLEAR_TIMEOUT_S, deviation, trip_deviation

# The emulator of publisher and subscriber, and the broker's.
OWN, BROKER = "own", "broker"
EMULATORS = {OWN: client.URL, BROKER: "http://broker:9107"}
# The end of a cell sends so many echoes.
ECHOES = 40


class Link(NamedTuple):
    """One of the two links. `peers` gives the end from which each emulator delays what comes.

    Messages are delayed by the emulator `forward`, acknowledgements by the other one.
    """

    name: str
    delay_ms: float
    peers: Mapping[str, str]
    forward: str


@dataclass
class DelayResult(CellResult[DelayCell]):
    """A cell, what was found of its links, and what the capture found of it.

    `link_faults` is empty where the links were as wanted from its start to its end. `delays_ms` are the mean delays of
    the messages: by every packet where the emulator sees them, else half of a round trip, whose ways are alike. `ways`
    are the emulators' reports.
    """

    backend: str = ""
    link_faults: list[str] = field(default_factory=list)
    delays_ms: dict[str, float] = field(default_factory=dict)
    ways: list[dict[str, Any]] = field(default_factory=list)
    captured: dict[str, Any] | None = None

    def end_to_end_ms(self) -> dict[str, Any]:
        """Return the delays as run.json has them; null where nothing could be measured."""
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
    wanted: dict[str, list[LinkSettings]] = {at: [] for at in EMULATORS}
    for link in _both(p, cell):
        if link.delay_ms:
            how = link.delay_ms, p.jitter_ms(link.delay_ms, cell.network), cell.network
            for at, peer in link.peers.items():
                wanted[at].append(LinkSettings(peer, "ingress", *how, reorder=p.reorder))
    return wanted


def apply(p: QosDelayParameters, cell: DelayCell) -> str:
    """Set the links of a cell; return what makes them. Raises LabError if an emulator does not answer."""
    return [str(client.apply(settings, EMULATORS[at])["backend"]) for at, settings in links(p, cell).items()][-1]


def clear() -> None:
    """Remove all links; an emulator that does not answer has ended, and its links with it."""
    for url in EMULATORS.values():
        with contextlib.suppress(LabError):
            client.apply([], url, CLEAR_TIMEOUT_S)


def judge(p: QosDelayParameters, measured: DelayResult) -> None:
    """Ask the emulators after a cell, and fill in what they made and what is wrong with it."""
    wanted, faults = links(p, measured.cell), measured.link_faults
    reports = {at: _report(at, settings, faults) for at, settings in wanted.items()}
    for link in _both(p, measured.cell):
        ways = {at: report for at, peer in link.peers.items() if (report := reports[at].get(peer))}
        if not link.delay_ms:
            measured.delays_ms[link.name] = 0.0
        elif ways.keys() == link.peers.keys():
            _judge_link(link, ways, measured)


def _report(at: str, settings: Sequence[LinkSettings], faults: list[str]) -> dict[str, dict[str, Any]]:
    """Return what an emulator reports of its links, by peer, and add what is wrong to `faults`.

    That of publisher and subscriber also measures the round trip to each peer: `rtt_ms`.
    """
    try:
        state = client.state(EMULATORS[at], ECHOES if at == OWN else 0)
    except LabError as error:
        faults.append(f"the link emulator ended: {error.message}")
        return {}
    if [link["settings"] for link in state["links"]] != [one.as_json() for one in settings]:
        faults.append("the link emulator was restarted: the delay was gone for a part of the cell")
        return {}
    by_peer = {link["settings"]["peer"]: link for link in state["links"]}
    faults += [f"link to {peer}: {why}" for peer, link in by_peer.items() if (why := deviation(link))]
    return {peer: {**link, "rtt_ms": state["rtt_ms"][peer]} if at == OWN else link for peer, link in by_peer.items()}


def _judge_link(link: Link, ways: Mapping[str, dict[str, Any]], measured: DelayResult) -> None:
    for way in ways.values():
        measured.ways.append({"link": link.name, **{key: value for key, value in way.items() if key != "addresses"}})
    forward, trip = ways[link.forward]["delay_ms"], ways[OWN]["rtt_ms"]
    why = trip_deviation([trip], list(ways.values()))
    if forward["n"]:
        measured.delays_ms[link.name] = float(forward["mean"])
    elif trip and trip["n"]:
        measured.delays_ms[link.name] = trip["mean"] / 2
    else:
        why = why or "no echo came back"
    measured.link_faults += [f"{link.peers[OWN]}: {why}"] if why else []
