"""The two links of a cell: set, probed before it, and judged after it by what the emulator really made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from looplab.errors import LabError
from looplab.link import client, judgement
from looplab.link.settings import LinkSettings
from looplab.qos_delay.parameters import Cell, QosDelayParameters

PROBES = 40
PROBE_INTERVAL_MS = 5
# The ways a message takes; the other two carry acknowledgements.
FORWARD = {"pb": "egress", "bs": "ingress"}
_PROBED = {"egress": "there_ms", "ingress": "back_ms"}


@dataclass
class Made:
    """What was found of a cell's links; `faults` is empty where they were as wanted from its start to its end.

    `delays_ms` are the mean delays of the forward ways: by every packet where the emulator sees them, else by probes.
    """

    backend: str = ""
    instance: str = ""
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
        if self.delays_ms.keys() != FORWARD.keys():
            return {"pb": None, "bs": None, "total": None}
        return {**{way: round(ms, 4) for way, ms in self.delays_ms.items()}, "total": round(self.total_ms, 4)}


def links(parameters: QosDelayParameters, cell: Cell) -> list[LinkSettings]:
    """Both directions of both links; a link without a delay is left as it is."""
    wanted = []
    for peer, delay_ms in _peers(parameters, cell).values():
        if not delay_ms:
            continue
        for direction in ("egress", "ingress"):
            wanted.append(
                LinkSettings(
                    peer,
                    direction,
                    delay_ms,
                    parameters.jitter_ms(delay_ms),
                    parameters.distribution,
                    reorder=parameters.reorder,
                )
            )
    return wanted


def set_up(parameters: QosDelayParameters, cell: Cell, url: str = client.URL) -> Made:
    """Set a cell's links and probe them. Raises LabError where the emulator or its responder does not answer."""
    wanted = links(parameters, cell)
    made = Made(backend=client.apply(wanted, url)["backend"])
    for way, (peer, _delay) in _peers(parameters, cell).items():
        made.probes[way] = client.probe(peer, PROBES, PROBE_INTERVAL_MS, url=url)
    made.instance = client.state(url)["instance"]
    return made


def judge(parameters: QosDelayParameters, cell: Cell, made: Made, url: str = client.URL) -> None:
    """Ask the emulator after a cell, and fill in what it made and what is wrong with it."""
    try:
        state = client.state(url)
    except LabError as error:
        made.faults.append(f"the link emulator ended: {error.message}")
        return
    settings = [way["settings"] for way in state["links"]]
    if state["instance"] != made.instance or settings != [link.as_json() for link in links(parameters, cell)]:
        made.faults.append("the link emulator was restarted: the delay was gone for a part of the cell")
        return
    made.ways = [{key: value for key, value in way.items() if key != "addresses"} for way in state["links"]]
    made.faults += [f"{way['settings']['peer']}: {why}" for way in made.ways if (why := judgement.deviation(way))]
    for name, (peer, delay_ms) in _peers(parameters, cell).items():
        if not delay_ms:
            made.delays_ms[name] = 0.0
            continue
        for way in made.ways:
            if way["settings"]["peer"] == peer:
                made.faults += _probe_faults(way, made.probes[name])
                if way["settings"]["direction"] == FORWARD[name]:
                    made.delays_ms[name] = float(
                        (way["delay_ms"] if way["delay_ms"]["n"] else _probed(way, made.probes[name]))["mean"]
                    )


def _probe_faults(way: Mapping[str, Any], probes: Mapping[str, Any]) -> list[str]:
    """What the probes say against one direction of a link."""
    found = _probed(way, probes)
    direction = way["settings"]["direction"]
    if not found["n"]:
        return [f"no probe came by the {direction} link to {way['settings']['peer']}"]
    why = judgement.off(f"the probes' {direction}", found["mean"], way["theory_ms"], found["n"], True)
    return [why] if why else []


def _probed(way: Mapping[str, Any], probes: Mapping[str, Any]) -> Mapping[str, Any]:
    figures: Mapping[str, Any] = probes[_PROBED[way["settings"]["direction"]]]
    return figures


def _peers(parameters: QosDelayParameters, cell: Cell) -> dict[str, tuple[str, float]]:
    """(the broker's name on that network, mean delay in ms) by link."""
    return {"pb": (parameters.host_pb, cell.delay_pb_ms), "bs": (parameters.host_bs, cell.delay_bs_ms)}
