"""Where the parts are: clients, simulated board, the addresses by which clients reach a board, and its bridge."""

import os
from collections.abc import Mapping

from looplab.errors import MachineError, UsageError
from looplab.experiments.asip.oscilloscope import Asked
from looplab.experiments.asip.parameters import AsipParameters

# In Compose the parts have these addresses, and clients reach the board at the last three.
ADDRESSES = {
    "python": "asip-python:5100", "java": "asip-java:5100", "board": "asip-board:4001",
    "serial": "/pts", "tcp": "asip-bridge:5000", "mqtt": "broker:1883/asip/board",
}  # fmt: skip
# rpi/compose.yaml has the same topic.
TOPIC_ON_PI = "asip/pi"
_UP = "`docker compose -f rpi/compose.yaml up --detach asip-bridge`"
# What it is called, and what to do if it does not answer: the bridge here, that of a Pi.
BRIDGE = "bridge", "See `docker compose logs asip-bridge`."
BRIDGE_ON_PI = "bridge on the Pi", f"On the Pi: {_UP}; `logs asip-bridge` names the reason."


def addresses(p: AsipParameters, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return where each part is, and each transport to the board; ASIP_TCP and its like name another place."""
    at = dict(ADDRESSES)
    if p.robot == "remote":
        at |= {"tcp": f"{environment.get('LAB_PI', '')}:5000", "mqtt": f"broker:1883/{TOPIC_ON_PI}"}
    return {name: environment.get(f"ASIP_{name.upper()}") or address for name, address in at.items()}


def check_bridge(p: AsipParameters, address: str) -> None:
    """Raise MachineError if the bridge, which clients reach over TCP and MQTT, is not there yet.

    Raises UsageError for a bridge on a Pi that would measure something else: waiting changes nothing.
    """
    remote, wanted = p.robot == "remote", p.variables()
    name, remedy = BRIDGE_ON_PI if remote else BRIDGE
    settings = Asked(name, address, remedy).counts()
    differing = [one for one, value in wanted.items() if remote and settings.get(one) != value]
    if differing:
        there = ", ".join(f"{one}={settings.get(one, 'unknown')}" for one in differing)
        here = ", ".join(f"{one}={wanted[one]}" for one in differing)
        raise UsageError(
            f"The bridge on the Pi runs with {there}, this run with {here}.",
            f"On the Pi: set it in rpi/.env (TCP_NODELAY goes by FIDELITY={p.fidelity}), then {_UP}; "
            "or choose here what is there. Another version: run rpi/install.sh of this one.",
        )
    if "mqtt" in p.transports and settings.get("broker") != "on":
        raise MachineError(f"The {name} has not connected to the broker.", remedy)
