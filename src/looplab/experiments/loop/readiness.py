"""Are bridge, robot, link and load there, and set up as this run wants it? If not: what is missing, and the remedy."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from looplab import __version__
from looplab.errors import MachineError
from looplab.experiments.loop.parameters import LoopParameters
from looplab.experiments.loop.protocol import (
    ONLINE,
    PAIRINGS,
    SELECT,
    TOPIC_BRIDGE_STATUS,
    TOPIC_ROBOT_STATUS,
)
from looplab.treatments import link
from looplab.treatments.judgement import Treatment, compared, on_off
from looplab.treatments.scans import TreatmentsClient, running

REMOTE = "remote"
LONGEST_WORD = 200
# What ftdi_sio sets for a port with low latency.
LOWEST_TIMER_MS = 1
# Problem and remedy; those of a robot by where it is.
NO_BRIDGE = ("The bridge did not come online", "See `docker compose logs bridge`.")
NO_BRIDGE_AT_PI = (
    "The bridge on the Pi did not connect, or went away",
    "On the Pi: `docker compose -f rpi/compose.yaml logs bridge` shows what it sees of this machine. Is the Pi on, in "
    "this network and paired with this machine (./lab pair), and does a firewall here let it in?",
)
NO_ROBOT = {
    "virtual": ("The robot did not come online", "See `docker compose logs bridge robot`."),
    "usb": (
        "The robot on USB did not come online",
        "Plug it in and switch it on; `ls /dev/serial/by-id/` shows whether it is seen. docs/serial.md has the "
        "rest; --robot virtual needs none.",
    ),
    REMOTE: (
        "The bridge on the Pi is connected, but its robot is offline",
        "Plug the robot into the Pi and switch it on; `ls -l /dev/looplab-robot` there shows whether it is seen.",
    ),
}


def bridge_info(payload: bytes) -> dict[str, Any]:
    """Return what the bridge reports of itself, {} if nothing of it can be read.

    Whoever has a bridge's password may send anything: text comes out short and printable, numbers whole, all else None.
    """
    try:
        info = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return {_printable(name): _tame(value) for name, value in info.items()} if isinstance(info, dict) else {}


def _tame(value: object) -> object:
    if isinstance(value, dict):
        return {_printable(name): count for name, count in value.items() if isinstance(count, int)}
    return _printable(value) if isinstance(value, str) else value if isinstance(value, int) else None


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:LONGEST_WORD])


def other_bridges(instances: Collection[str], *, answered_twice: bool) -> list[Treatment]:
    """Return a failed treatment if several `instances` of a bridge reported and answers came twice, else nothing."""
    if len(instances) < 2 or not answered_twice:
        return []
    bridges = f"{len(instances)}: stop the second Pi, or the bridge that was left running"
    return [Treatment("bridges that answer", "one", bridges, verified=False)]


def check_bridge(parameters: LoopParameters, status: Mapping[str, bytes]) -> None:
    """Raise LabError (exit code 3) if the bridge is not online.

    `status` has the last one by topic, of a broker that was started for this run and so remembers nobody.
    """
    if status.get(TOPIC_BRIDGE_STATUS) != ONLINE:
        _refuse(parameters, *(NO_BRIDGE_AT_PI if parameters.robot == REMOTE else NO_BRIDGE))


def check_robot(parameters: LoopParameters, status: Mapping[str, bytes], info: Mapping[str, Any]) -> None:
    """Raise LabError (exit code 3) if the robot is not online, or its bridge is not any more."""
    check_bridge(parameters, status)
    if status.get(TOPIC_ROBOT_STATUS) != ONLINE:
        problem, remedy = NO_ROBOT[parameters.robot]
        fault = info.get("robot_fault")
        _refuse(parameters, f"{problem} ({fault})" if fault else problem, remedy)


def _refuse(parameters: LoopParameters, problem: str, remedy: str) -> None:
    raise MachineError(f"{problem} within {parameters.parts_timeout_s} s.", remedy)


def check_load(load: str, client: TreatmentsClient, priorities: Mapping[str, int]) -> None:
    """Raise LabError (exit code 3) if the wanted load does not run, or nobody answers who could see it."""
    client.fault = ""
    if not running(client.scan(priorities), load):
        why = f"The {load} load was not seen running. {client.fault}".rstrip()
        raise MachineError(why, f"See `docker compose logs` of the {load} service.")


def check_link(name: str, url: str) -> None:
    """Raise LabError (exit code 3) if the wanted link is not there yet: its emulator may still look for a peer."""
    state = link.scan(url, pings=0)
    if not state.get("links"):
        why = state.get("fault", "its emulator knows no link")
        raise MachineError(
            f"The link {name} is not there: {why}", "See `docker compose logs link`, and compose/links.md."
        )


def check_version(parameters: LoopParameters, info: Mapping[str, Any]) -> None:
    """Raise LabError (exit code 3) for a bridge on the Pi of another version than this lab, by its `info`."""
    if parameters.robot == REMOTE and info and info.get("version") != __version__:
        raise MachineError(
            f"The bridge on the Pi is of version {info.get('version')}, this lab of {__version__}.",
            "Run rpi/install.sh of this version on the Pi again, with a bundle made by this lab.",
        )


def judge_bridge(parameters: LoopParameters, bridge: Mapping[str, Any]) -> list[Treatment]:
    """Judge whether the bridge is set up as the run wants it; a bridge of the user's own says nothing of itself."""
    if parameters.own_bridge:
        return []
    if not bridge:
        return [Treatment("bridge settings", "known", "the bridge did not say", False)]
    p, nodelay = parameters, bridge.get("tcp_nodelay")
    nodelay_there = "unknown" if nodelay is None else on_off(nodelay)
    # On this machine it must not take the processor of what is measured.
    receiver = p.receiver if p.robot == REMOTE else SELECT
    note = "start the bridge with the same FIDELITY; that of a Pi is in rpi/.env"
    # The subscription shows the legs (judge_legs).
    judged = [
        compared("bridge receiver", receiver, str(bridge.get("receiver", SELECT)), note=note),
        compared("bridge TCP_NODELAY", on_off(p.tcp_nodelay), nodelay_there, note=note),
        compared("robot framing", p.robot_framing, str(bridge.get("framing")), note=note),
        compared("answer pairing", p.pairing, str(bridge.get("pairing", PAIRINGS["thesis"])), note=note),
        compared("bridge MQTT version", p.mqtt_version, str(bridge.get("mqtt_version") or "unknown"), note=note),
    ]
    alias = bridge.get("topic_alias", False)
    if p.topic_alias or alias:
        judged.append(compared("bridge topic alias", on_off(p.topic_alias), on_off(alias), note=note))
    if (timer_ms := bridge.get("latency_timer_ms")) is not None:
        judged.append(_judge_adapter(timer_ms, low=p.serial_low_latency))
    return judged


def _judge_adapter(timer_ms: object, *, low: bool) -> Treatment:
    """Judge how long the robot's FTDI adapter may hold bytes back; another adapter has no such timer."""
    good = timer_ms == LOWEST_TIMER_MS
    wanted = f"{LOWEST_TIMER_MS} ms" if low else "as its driver sets it"
    note = "" if good else f"R has up to {timer_ms} ms of it: SERIAL_LOW_LATENCY=on here and at the bridge"
    return Treatment("latency timer of the robot's adapter", wanted, f"{timer_ms} ms", good or not low, low, note)
