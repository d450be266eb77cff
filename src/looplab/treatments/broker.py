"""What the broker reports of itself: its version, counts of messages."""

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

from looplab.mqtt.pairing import Pairing, read_pairing
from looplab.spec.brokers import PUBLISHED, Broker
from looplab.system.json_client import open_direct

if TYPE_CHECKING:
    from paho.mqtt import client as mqtt

PAGE_TIMEOUT_S = 2.0
# RabbitMQ serves MQTT some seconds before its page of metrics, more on a busy machine.
PAGE_PATIENCE_S, PAGE_PAUSE_S = 15.0, 0.2
# A little more than sys_interval in compose/mosquitto/: a growing counter is published again within it.
WAIT_NS = 1_300_000_000
# So many reports come in some hours.
MOST_COUNTS = 20_000
# Identities for the listener without TLS, as `prepare` writes them: a part can read one of the two, or none.
PLAIN_CONTROLLER, PLAIN_OBSERVER = Path("/run/looplab/plain/controller"), Path("/run/looplab/plain/observer")


def access() -> Pairing | None:
    """Return what this part needs at the broker, by BROKER_PAIRING or for the listener without TLS.

    None where it asks for nothing: a robot on this machine. Raises LabError if the part's file is damaged.
    """
    known = [path for path in (PLAIN_OBSERVER, PLAIN_CONTROLLER) if os.access(path, os.R_OK)]
    own = os.environ.get("BROKER_PAIRING") or (known[0] if known and os.environ.get("ROBOT") == "remote" else "")
    return read_pairing(Path(own)) if own else None


def log_in(client: "mqtt.Client") -> None:
    """Give a client name and password where the listener asks for them, and TLS. Raises LabError as access."""
    if pairing := access():
        client.username_pw_set(pairing.user, pairing.password)
        if pairing.ca_pem:
            client.tls_set_context(pairing.context())


def read_page(broker: Broker, host: str) -> str:
    """Return the broker's page of metrics. Raises OSError."""
    with open_direct(f"http://{host}:{broker.page}", timeout=PAGE_TIMEOUT_S) as answer:
        return str(answer.read().decode("utf-8", "replace"))


def total(page: str, series: str) -> int | None:
    """Return the sum of all samples of a page that begin with `series`; None if there is none."""
    values = [float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(series)]
    return int(sum(values)) if values else None


def version(broker: Broker, host: str, port: int) -> str:
    """Return the version that the running broker reports, "" if it reports none."""
    if broker.page:
        end_s = time.monotonic() + PAGE_PATIENCE_S
        while time.monotonic() < end_s:
            with contextlib.suppress(OSError):
                return read_page(broker, host).partition(broker.version)[2].partition('"')[0]
            time.sleep(PAGE_PAUSE_S)
        return ""
    heard = _listen(host, port, broker.version, 1)
    # mosquitto writes `mosquitto version 2.0.21`.
    return heard[0][0].decode("utf-8", "replace").rpartition(" ")[2] if heard else ""


def published(broker: Broker, host: str, port: int) -> tuple[int | None, int]:
    """Return (PUBLISH packets that the broker received since its start, when it said so); None if it does not say.

    What is retained may be a whole $SYS interval old, which is too coarse for a cell of a second or two: the next
    figure is waited for. None comes while nothing is published; then the retained one holds now.
    """
    name = broker.metrics[PUBLISHED]
    if broker.page:
        with contextlib.suppress(OSError):
            return total(read_page(broker, host), name), perf_counter_ns()
    heard = [] if broker.page else _listen(host, port, name, 2)
    if not heard or not heard[-1][0].isdigit():
        return None, perf_counter_ns()
    return int(heard[-1][0]), heard[-1][1] if len(heard) > 1 else perf_counter_ns()


class PublishCounts:
    """Every count of PUBLISH packets that a broker reports by itself, collected in a thread while a flood is wanted."""

    def __init__(self) -> None:
        self._source: tuple[str, int] | None = None
        self._client: mqtt.Client | None = None
        self._heard: deque[tuple[int, int]] = deque(maxlen=MOST_COUNTS)

    def take(self, broker: Broker, host: str, port: int) -> list[tuple[int, int]]:
        """Return (count, when it came in ns) of each report since the last call; the first call starts collecting.

        Empty for a broker that has a page instead: somebody would have to ask for it all the time.
        """
        if self._source != (host, port):
            self.stop()
            self._source = (host, port)
            if not broker.page:
                self._client = subscriber(broker.metrics[PUBLISHED], self._collect)
                self._client.connect_async(host, port)
                self._client.loop_start()
        return [self._heard.popleft() for _ in range(len(self._heard))]

    def stop(self) -> None:
        """Disconnect, and forget what came."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
        self._client = self._source = None
        self._heard.clear()

    def _collect(self, message: "mqtt.MQTTMessage") -> None:
        # A retained message may be old.
        if not message.retain and message.payload.isdigit():
            self._heard.append((int(message.payload), perf_counter_ns()))


def _listen(host: str, port: int, topic: str, enough: int) -> list[tuple[bytes, int]]:
    """Return up to `enough` payloads on `topic` and when they came (ns), those that come within WAIT_NS."""
    heard: list[tuple[bytes, int]] = []
    client = subscriber(topic, lambda message: heard.append((message.payload, perf_counter_ns())))
    try:
        client.connect(host, port)
    except (OSError, ValueError):
        return []
    end_ns = perf_counter_ns() + WAIT_NS
    # 0 is MQTT_ERR_SUCCESS.
    while len(heard) < enough and perf_counter_ns() < end_ns and client.loop(timeout=0.1) == 0:
        pass
    client.disconnect()
    return heard


def subscriber(topics: str | list[tuple[str, int]], take: Callable[["mqtt.MQTTMessage"], None]) -> "mqtt.Client":
    """Return a client that is not connected yet, and gives `take` what comes on a topic, or on several with QoS."""
    # Every run's process imports this module, also where there is no broker, and no paho.
    from paho.mqtt import client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion

    def subscribe(*_accepted: object) -> None:
        client.subscribe(topics)

    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.on_connect = subscribe
    client.on_message = lambda _client, _data, message: take(message)
    log_in(client)
    return client
