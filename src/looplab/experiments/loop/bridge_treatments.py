"""Treatments of the bridge, as it reports them: its factors, and the adapter of the robot's port."""

from collections.abc import Iterator, Mapping
from typing import Any

from looplab.experiments.loop.parameters import LoopParameters
from looplab.experiments.loop.protocol import PAIRINGS, SELECT, legs_of
from looplab.treatments.judgement import Treatment, compared, on_off

# What ftdi_sio sets for a port with low latency.
LOWEST_TIMER_MS = 1


def bridge_settings(parameters: LoopParameters, bridge: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return by variable how a run wants the bridge to be set up, and how the bridge reports that it is."""
    nodelay, legs = bridge.get("tcp_nodelay"), legs_of(bridge.get("subscription_qos"))
    return {
        "RECEIVER": (parameters.bridge_receiver, str(bridge.get("receiver", SELECT))),
        "TCP_NODELAY": (on_off(parameters.tcp_nodelay), "unknown" if nodelay is None else on_off(nodelay)),
        "ROBOT_FRAMING": (parameters.robot_framing, str(bridge.get("framing"))),
        "PAIRING": (parameters.pairing, str(bridge.get("pairing", PAIRINGS["thesis"]))),
        "QOS_LEGS": (parameters.qos_legs, str(legs)),
        "MQTT_VERSION": (parameters.mqtt_version, str(bridge.get("mqtt_version") or "unknown")),
        "TOPIC_ALIAS": (on_off(parameters.topic_alias), on_off(bridge.get("topic_alias", False))),
    }


def judge_bridge(parameters: LoopParameters, bridge: Mapping[str, Any]) -> list[Treatment]:
    """Judge whether the bridge is set up as the run wants it; a bridge of the user's own says nothing of itself."""
    if parameters.own_bridge:
        return []
    if not bridge:
        return [Treatment("bridge settings", "known", "the bridge did not say", False)]
    settings, note = bridge_settings(parameters, bridge), "start the bridge with the same FIDELITY"
    # The subscription shows the legs (judge_legs).
    judged = [
        compared("bridge receiver", *settings["RECEIVER"], note=note),
        compared("bridge TCP_NODELAY", *settings["TCP_NODELAY"], note=note),
        compared("robot framing", *settings["ROBOT_FRAMING"], note=note),
        compared("answer pairing", *settings["PAIRING"], note=note),
        compared("bridge MQTT version", *settings["MQTT_VERSION"], note=note),
    ]
    if parameters.topic_alias:
        judged.append(compared("bridge topic alias", *settings["TOPIC_ALIAS"], note=note))
    return [*judged, *_judge_adapter(bridge.get("latency_timer_ms"), low=parameters.serial_low_latency)]


def _judge_adapter(timer_ms: object, *, low: bool) -> Iterator[Treatment]:
    """Judge how long the robot's FTDI adapter may hold bytes back; another adapter has no such timer."""
    if timer_ms is None:
        return
    good = timer_ms == LOWEST_TIMER_MS
    wanted = f"{LOWEST_TIMER_MS} ms" if low else "as its driver sets it"
    note = "" if good else f"R has up to {timer_ms} ms of it: SERIAL_LOW_LATENCY=on here and at the bridge"
    yield Treatment("latency timer of the robot's adapter", wanted, f"{timer_ms} ms", good or not low, low, note)
