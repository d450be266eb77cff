"""The broker's own counters and what experiments retain there, as long as the broker answers."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from looplab.metrics.page import Page
from looplab.spec.brokers import BROKERS, DEFAULT, UPTIME, Broker
from looplab.treatments.broker import log_in, read_page, total

# The uptime comes each second; a broker silent for longer is down or stuck, and its last words are not shown.
SILENCE_S = 4.0
# A page of metrics costs RabbitMQ 12 ms of a processor.
PAGE_S = 2.0
KEEPALIVE_S = 5


class BrokerWatch:
    """Subscribes in a thread of its own and reconnects for ever; `add_to` never waits.

    `topics` adds to a page what experiments retain, by topic. A `broker` that is silent for `silence_s` is down;
    one that reports nothing is up for as long as it keeps the connection.
    """

    def __init__(
        self,
        host: str,
        port: int,
        topics: Mapping[str, Callable[[Page, bytes], None]],
        silence_s: float = SILENCE_S,
        broker: Broker = BROKERS[DEFAULT],
    ) -> None:
        self._host = host
        self._broker = broker
        # Only what is shown is subscribed to: each changed value is one more message through the broker under test.
        self._reports = {} if broker.page else broker.metrics
        self._stop = threading.Event()
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
        log_in(self._client)
        self._client.connect_async(host, port, KEEPALIVE_S)

    def start(self) -> None:
        self._client.loop_start()
        if self._broker.page:
            threading.Thread(target=self._read_pages, daemon=True).start()

    def stop(self) -> None:
        """Disconnect and end the threads."""
        self._stop.set()
        self._client.disconnect()
        self._client.loop_stop()

    def add_to(self, page: Page) -> None:
        """Add all that the broker publishes, or that it is down and nothing else."""
        with self._lock:
            heard = bool(self._values) and monotonic() - self._heard < self._silence_s
            up = heard if UPTIME in self._broker.metrics else self._client.is_connected()
            values = dict(self._values) if up else {}
        page.add("lab_broker_up", {}, up)
        for family, name in self._broker.metrics.items():
            number = _number(values.get(name))
            if number is not None:
                page.add(family, {}, number)
        for topic, read in self._topics.items():
            if topic in values:
                read(page, values[topic])

    def _connected(self, client: mqtt.Client, *_ignored: Any) -> None:
        client.subscribe([(topic, 0) for topic in (*self._reports.values(), *self._topics)])

    def _lost(self, *_ignored: Any) -> None:
        with self._lock:
            self._values = {}

    def _message(self, _client: mqtt.Client, _userdata: Any, message: mqtt.MQTTMessage) -> None:
        if len(message.payload) > 10_000:
            return
        with self._lock:
            self._values[message.topic] = message.payload
            if message.topic == self._reports.get(UPTIME):
                self._heard = monotonic()

    def _read_pages(self) -> None:
        while not self._stop.wait(PAGE_S):
            with contextlib.suppress(OSError):
                page = read_page(self._broker, self._host)
                counts = {name: total(page, name) for name in self._broker.metrics.values()}
                with self._lock:
                    self._values |= {name: b"%d" % count for name, count in counts.items() if count is not None}
                    self._heard = monotonic()


def _number(payload: bytes | None) -> int | None:
    # The uptime reads `12 seconds`.
    first = (payload or b"").split(maxsplit=1)[:1]
    return int(first[0]) if first and first[0].isdigit() else None
