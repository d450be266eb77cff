"""The broker's own counters and what experiments retain there, as long as the broker answers."""

import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from looplab.metrics.text_format import Texts, line

# Only what is shown is subscribed to: each changed $SYS value is one more message through the broker under test.
SYS_TOPICS = {
    "$SYS/broker/uptime": "lab_broker_uptime_seconds",
    "$SYS/broker/clients/connected": "lab_broker_clients_connected",
    "$SYS/broker/store/messages/count": "lab_broker_stored_messages",
    "$SYS/broker/messages/received": "lab_broker_messages_received_total",
    "$SYS/broker/messages/sent": "lab_broker_messages_sent_total",
    "$SYS/broker/publish/messages/received": "lab_broker_publish_received_total",
    "$SYS/broker/publish/messages/sent": "lab_broker_publish_sent_total",
    "$SYS/broker/publish/messages/dropped": "lab_broker_publish_dropped_total",
    "$SYS/broker/bytes/received": "lab_broker_received_bytes_total",
    "$SYS/broker/bytes/sent": "lab_broker_sent_bytes_total",
}
UPTIME = "$SYS/broker/uptime"
# The uptime comes each second; a broker silent for longer is down or stuck, and its last words are not shown.
SILENCE_S = 4.0
KEEPALIVE_S = 5


class BrokerWatch:
    """Subscribes in a thread of its own and reconnects for ever; `texts` never waits.

    `topics` makes sample lines of what experiments retain, by topic. A broker that is silent for `silence_s` is down.
    """

    def __init__(
        self, host: str, port: int, topics: Mapping[str, Callable[[bytes], Texts]], silence_s: float = SILENCE_S
    ) -> None:
        self._topics = topics
        self._silence_s = silence_s
        self._lock = threading.Lock()
        self._values: dict[str, bytes] = {}
        self._heard = -silence_s
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="", protocol=mqtt.MQTTv311)
        self._client.reconnect_delay_set(1, 2)
        self._client.connect_timeout = 2.0
        self._client.on_connect = self._connected
        self._client.on_disconnect = self._lost
        self._client.on_message = self._message
        self._client.connect_async(host, port, KEEPALIVE_S)

    def start(self) -> None:
        self._client.loop_start()

    def stop(self) -> None:
        """Disconnect and end the thread."""
        self._client.disconnect()
        self._client.loop_stop()

    def texts(self) -> dict[str, str]:
        """Return sample lines by family: all that the broker publishes, or that it is down and nothing else."""
        with self._lock:
            up = bool(self._values) and monotonic() - self._heard < self._silence_s
            values = dict(self._values) if up else {}
        texts = {"lab_broker_up": line("lab_broker_up", {}, int(up))}
        for topic, family in SYS_TOPICS.items():
            number = _number(values.get(topic))
            if number is not None:
                texts[family] = line(family, {}, number)
        for topic, read in self._topics.items():
            if topic in values:
                texts.update(read(values[topic]))
        return texts

    def _connected(self, client: mqtt.Client, *_ignored: Any) -> None:
        client.subscribe([(topic, 0) for topic in (*SYS_TOPICS, *self._topics)])

    def _lost(self, *_ignored: Any) -> None:
        with self._lock:
            self._values = {}

    def _message(self, _client: mqtt.Client, _userdata: Any, message: mqtt.MQTTMessage) -> None:
        if len(message.payload) > 10_000:
            return
        with self._lock:
            self._values[message.topic] = message.payload
            if message.topic == UPTIME:
                self._heard = monotonic()


def _number(payload: bytes | None) -> int | None:
    # The uptime reads `12 seconds`.
    first = (payload or b"").split(maxsplit=1)[:1]
    return int(first[0]) if first and first[0].isdigit() else None
