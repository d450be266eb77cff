"""paho's client on a socket that was connected before."""

from typing import Any, ClassVar

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from looplab.mqtt.stamped_socket import StampedSocket


class PahoClient(mqtt.Client):
    """It takes `next_socket` where it would dial; `version` is protocol and session as paho calls them."""

    next_socket: StampedSocket | None = None
    # How a session begins, by the words of MQTT 5.
    start: ClassVar[dict[str, Any]] = {}

    def __init__(self, client_id: str, **version: Any) -> None:
        # reconnect_on_failure: if a broker refuses this version of MQTT, paho would dial by itself.
        super().__init__(CallbackAPIVersion.VERSION2, client_id=client_id, reconnect_on_failure=False, **version)

    def _create_socket_connection(self) -> StampedSocket:
        # Private, but paho has no other hook for a socket of one's own.
        sock, self.next_socket = self.next_socket, None
        if sock is None:
            raise ConnectionError("no connected socket at hand")
        return sock
