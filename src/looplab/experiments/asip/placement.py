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
_LOGS = "See `docker compose logs asip-bridge`."
_UP = "`docker compose -f rpi/compose.yaml up --detach asip-bridge`"


def addresses(p: AsipParameters, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return where each part is, and each transport to the board; ASIP_TCP and its like name another place."""
    at = dict(ADDRESSES)
    if p.robot == "remote":
        at |= {"tcp": f"{environment.get('LAB_PI', '')}:5000", "mqtt": f"broker:1883/{TOPIC_ON_PI}"}
    return {name: environment.get(f"ASIP_{name.upper()}") or address for name, address in at.items()}


class BridgeClient:
    """The bridge that a run's clients reach over TCP and MQTT, here or on a Pi."""

    def __init__(self, p: AsipParameters, address: str) -> None:
        self._p = p
        self._remote = p.robot == "remote"
        self.name = "bridge on the Pi" if self._remote else "bridge"
        self._remedy = f"On the Pi: {_UP}; `logs asip-bridge` names the reason." if self._remote else _LOGS
        self._asked = Asked(self.name, address, self._remedy)

    def check(self) -> None:
        """Raise MachineError if the bridge is not there yet.

        Raises UsageError for a bridge on a Pi that would measure something else: waiting changes nothing.
        """
        settings = self._asked.counts()
        if self._remote:
            self._compare(settings)
        if "mqtt" in self._p.transports and settings.get("broker") != "on":
            raise MachineError(f"The {self.name} has not connected to the broker.", self._remedy)

    def _compare(self, settings: Mapping[str, str]) -> None:
        p, wanted = self._p, self._p.variables()
        differing = [name for name, value in wanted.items() if settings.get(name) != value]
        if differing:
            there = ", ".join(f"{name}={settings.get(name, 'unknown')}" for name in differing)
            here = ", ".join(f"{name}={wanted[name]}" for name in differing)
            raise UsageError(
                f"The bridge on the Pi runs with {there}, this run with {here}.",
                f"On the Pi: set it in rpi/.env (TCP_NODELAY goes by FIDELITY={p.fidelity}), then {_UP}; "
                "or choose here what is there. Another version: run rpi/install.sh of this one.",
            )
