"""Several MQTT connections of one measurement."""

from collections.abc import Sequence

from looplab.mqtt.client import MqttClient, wait, wait_for


class Clients:
    """Connections on one thread, which count as one."""

    def __init__(self, clients: Sequence[MqttClient]) -> None:
        self.clients = list(dict.fromkeys(clients))

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted each."""
        return all(client.connected for client in self.clients)

    @property
    def disconnects(self) -> int:
        """How often a connection was lost."""
        return sum(client.disconnects for client in self.clients)

    @property
    def last_loss(self) -> str:
        """Why a connection was lost, "" if none was."""
        return next((client.last_loss for client in self.clients if client.last_loss), "")

    @property
    def last_error(self) -> str:
        """Why the first of those that are not connected is not."""
        return next((client.last_error for client in self.clients if not client.connected), "") or "no answer"

    def wait(self, until_ns: int) -> None:
        """Handle MQTT until then (monotonic ns)."""
        wait(self.clients, until_ns)

    def connect(self, timeout_s: float) -> bool:
        """Return whether all are connected within `timeout_s`."""
        return wait_for(self.clients, lambda: self.connected, timeout_s)

    def close(self) -> None:
        for client in self.clients:
            client.close()
