"""The broker's own counters and what experiments retain there, as long as the broker answers."""

import contextlib
import math
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from paho.mqtt.client import MQTTMessage

from looplab.metrics.page import Page
from looplab.spec.brokers import BROKERS, DEFAULT, UPTIME, Broker
from looplab.treatments.broker import read_page, subscriber, total

# The uptime comes each second; a broker silent for longer is down or stuck, and its last words are not shown.
SILENCE_S = 4.0
# A page of metrics costs RabbitMQ 12 ms of a processor.
PAGE_S = 2.0
KEEPALIVE_S = 5
# A longer payload is nonsense.
LONGEST_BYTES = 4000

# What adds a retained payload to a page, by topic.
Topics = Mapping[str, Callable[[Page, bytes], None]]


class BrokerWatch:
    """Subscribes in a thread of its own and reconnects for ever; `add_to` never waits.

    A `broker` that is silent for SILENCE_S is down.
    """

    def __init__(self, host: str, port: int, topics: Topics, broker: Broker = BROKERS[DEFAULT]) -> None:
        self._host, self._broker, self._topics = host, broker, topics
        # Only what is shown is subscribed to: each changed value is one more message through the broker under test.
        self._families = {} if broker.page else {topic: family for family, topic in broker.metrics.items()}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._retained: dict[str, bytes] = {}
        self._heard = -math.inf
        self._client = subscriber([(topic, 0) for topic in (*self._families, *topics)], self._message)
        self._client.reconnect_delay_set(1, 2)
        self._client.connect_timeout = 2.0
        self._client.on_disconnect = self._lost
        self._client.connect_async(host, port, KEEPALIVE_S)
        self._client.loop_start()
        if broker.page:
            threading.Thread(target=self._read_pages, daemon=True).start()

    def stop(self) -> None:
        """Disconnect and end the threads."""
        self._stop.set()
        self._client.disconnect()
        self._client.loop_stop()

    def add_to(self, page: Page) -> None:
        """Add all that the broker publishes, or that it is down and nothing else."""
        with self._lock:
            up = monotonic() - self._heard < SILENCE_S
            counts, retained = (dict(self._counts), dict(self._retained)) if up else ({}, {})
        page.add("lab_broker_up", {}, up)
        for family, count in counts.items():
            page.add(family, {}, count)
        for topic, payload in retained.items():
            self._topics[topic](page, payload)

    def _lost(self, *_ignored: Any) -> None:
        with self._lock:
            self._counts, self._retained, self._heard = {}, {}, -math.inf

    def _message(self, message: MQTTMessage) -> None:
        if len(message.payload) > LONGEST_BYTES:
            return
        family = self._families.get(message.topic)
        # The uptime reads `12 seconds`.
        number = message.payload.partition(b" ")[0]
        with self._lock:
            if family is None:
                self._retained[message.topic] = message.payload
            elif number.isdigit():
                self._counts[family] = int(number)
                self._heard = monotonic() if family == UPTIME else self._heard

    def _read_pages(self) -> None:
        while not self._stop.wait(PAGE_S):
            with contextlib.suppress(OSError):
                page = read_page(self._broker, self._host)
                counts = {family: total(page, series) for family, series in self._broker.metrics.items()}
                with self._lock:
                    self._counts = {family: count for family, count in counts.items() if count is not None}
                    self._heard = monotonic()
