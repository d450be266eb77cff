"""Is the bridge there, with its robot, and set up as this run wants it? If not: what is missing, and the remedy."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from looplab import __version__
from looplab.experiments.loop.bridge_treatments import bridge_settings
from looplab.experiments.loop.parameters import LoopParameters
from looplab.experiments.loop.protocol import (
    COMMAND_EMULATED,
    ONLINE,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_STATUS,
    TOPIC_ROBOT_STATUS,
)
from looplab.treatments.judgement import Treatment

REMOTE = "remote"
LONGEST_WORD = 200
_PI_LOGS = "On the Pi: `docker compose -f rpi/compose.yaml logs bridge`"


class Missing(NamedTuple):
    """`part` is waited for (bridge, robot), `problem` and `remedy` are for the person whose patience ran out.

    `settled`: waiting cannot fix this; the user must act.
    """

    part: str
    problem: str
    remedy: str
    settled: bool = False


NO_BRIDGE = Missing("bridge", "The bridge did not come online", "See `docker compose logs bridge`.")
NEVER_AT_PI = Missing(
    "bridge on the Pi",
    "No bridge has connected from the Pi",
    f"{_PI_LOGS} shows what it sees of this machine. Is the Pi on, paired with this machine (./lab pair), and "
    "does a firewall here let it in?",
)
LOST_AT_PI = Missing(
    "bridge on the Pi",
    "The bridge on the Pi was here and went away",
    f"{_PI_LOGS}: was it stopped, the Pi switched off, or its network cut?",
)
# By where the robot is; why it is not there follows the problem.
NO_ROBOT = {
    "virtual": Missing("robot", "The robot did not come online", "See `docker compose logs bridge robot`."),
    "usb": Missing(
        "robot on USB",
        "The robot on USB did not come online",
        "Plug it in and switch it on; `ls /dev/serial/by-id/` shows whether it is seen. docs/serial.md has the "
        "rest; --robot virtual needs none.",
    ),
    REMOTE: Missing(
        "robot at the Pi",
        "The bridge on the Pi is connected, but its robot is offline",
        "Plug the robot into the Pi and switch it on; `ls -l /dev/looplab-robot` there shows whether it is seen.",
    ),
}


def bridge_info(retained: Mapping[str, bytes]) -> dict[str, Any]:
    """Return what the bridge last reported of itself, {} if nothing of it can be read.

    Whoever has a bridge's password may send anything: text comes out short and printable, numbers whole, all else None.
    """
    try:
        info = json.loads(retained.get(TOPIC_BRIDGE_INFO, b"{}"))
    except (ValueError, RecursionError):
        return {}
    return {_printable(name): _tame(value) for name, value in info.items()} if isinstance(info, dict) else {}


def _tame(value: object) -> object:
    if isinstance(value, dict):
        return {_printable(name): count for name, count in value.items() if isinstance(count, int)}
    return _printable(value) if isinstance(value, str) else value if isinstance(value, int) else None


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:LONGEST_WORD])


def other_bridges(reports: Iterable[bytes], *, answered_twice: bool) -> list[Treatment]:
    """Return a failed treatment if `reports` (payloads on TOPIC_BRIDGE_INFO) are of several bridges and answers came
    twice, else nothing."""
    infos = [bridge_info({TOPIC_BRIDGE_INFO: payload}) for payload in reports]
    instances = {str(info["instance"]) for info in infos if "instance" in info}
    if len(instances) < 2 or not answered_twice:
        return []
    bridges = f"{len(instances)}: stop the second Pi, or the bridge that was left running"
    return [Treatment("bridges that answer", "one", bridges, verified=False)]


def missing(parameters: LoopParameters, retained: Mapping[str, bytes]) -> Missing | None:
    """Return the first thing that a run must still wait for, None when everything is there.

    `retained` are the last payloads by topic, of a broker that was started for this run and so remembers nobody.
    """
    remote, status, info = parameters.robot == REMOTE, retained.get(TOPIC_BRIDGE_STATUS), bridge_info(retained)
    if status != ONLINE:
        return NO_BRIDGE if not remote else NEVER_AT_PI if status is None else LOST_AT_PI
    if remote and info and (wrong := _set_up_otherwise(parameters, info)) is not None:
        return wrong
    if parameters.command != COMMAND_EMULATED and retained.get(TOPIC_ROBOT_STATUS) != ONLINE:
        robot, fault = NO_ROBOT[parameters.robot], info.get("robot_fault")
        return robot._replace(problem=f"{robot.problem} ({fault})") if fault else robot
    return None


def _set_up_otherwise(parameters: LoopParameters, info: Mapping[str, Any]) -> Missing | None:
    """A bridge of another version or fidelity measures something else: send nothing before the user sets it right."""
    if info.get("version") != __version__:
        return Missing(
            "bridge of this version",
            f"The bridge on the Pi is of version {info.get('version')}, this lab of {__version__}",
            "Run rpi/install.sh of this version on the Pi again, with a bundle made by this lab.",
            settled=True,
        )
    settings = bridge_settings(parameters, info)
    differing = {name: pair for name, pair in settings.items() if pair[0] != pair[1]}
    if not differing:
        return None
    wanted, there = (", ".join(f"{name}={pair[at]}" for name, pair in differing.items()) for at in (0, 1))
    return Missing(
        "bridge with the same FIDELITY",
        f"The bridge on the Pi runs with {there}, this run with {wanted}",
        f"On the Pi: FIDELITY={parameters.fidelity} in rpi/.env, then `docker compose -f rpi/compose.yaml up -d`; "
        "or choose --fidelity here as it is there.",
        settled=True,
    )
