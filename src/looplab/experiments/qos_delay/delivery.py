"""Publisher and subscriber of one cell: two connections on one thread and one clock, and what is stamped between."""

from time import perf_counter_ns

from looplab.experiments.qos_delay.parameters import TOKEN_BYTES, QosDelayParameters
from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.dial import Target
from looplab.mqtt.stamped_socket import StampedSocket
from looplab.run.clients import Clients
from looplab.run.open_loop import Messages, OpenLoop
from looplab.run.samples import SampleStore

TOPIC = "delay"


class Ends(Clients):
    """Publisher P on one network and subscriber S on the other; new connections, so that no cell inherits another's
    congestion window or backlog."""

    def __init__(self, parameters: QosDelayParameters, token: str) -> None:
        self.delivery: Delivery | None = None
        self.publisher = self._client(parameters, parameters.host_pb, f"publisher-{token}", [])
        self.subscriber = self._client(parameters, parameters.host_bs, f"subscriber-{token}", [(TOPIC, 2)])
        super().__init__((self.publisher, self.subscriber))
        self.publish = self.publisher.publish

    def _client(self, p: QosDelayParameters, host: str, name: str, subscriptions: list[tuple[str, int]]) -> MqttClient:
        # The source prints no limit of unconfirmed messages; with 20 QoS 2 falls behind for good at 60 + 60 ms.
        options = ClientOptions(subscriptions, max_inflight=0)
        return MqttClient(Target(host, p.broker_port, p.tcp_nodelay), name, options, self._received)

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted both, and the subscription."""
        return self.publisher.connected and self.subscriber.subscribed

    @property
    def sock(self) -> StampedSocket | None:
        return self.publisher.sock

    def ports(self) -> list[int]:
        """The local TCP ports of publisher and subscriber; 0 where there is no connection just now."""
        return [client.sock.getsockname()[1] if client.sock is not None else 0 for client in self.clients]

    def _received(self, _topic: bytes, payload: bytes, _qos: int) -> None:
        if self.delivery is not None:
            self.delivery.received(payload)


class Delivery(OpenLoop):
    """Sends messages `<token>-<k>` of a fixed length from P and notes when S's application has each."""

    def __init__(
        self, ends: Ends, store: SampleStore, parameters: QosDelayParameters, token: str, cell_messages: int
    ) -> None:
        prefix = f"{token:.{TOKEN_BYTES - 1}}-"
        form = f"{prefix}%0{parameters.payload_bytes - TOKEN_BYTES}d".encode()
        super().__init__(ends, store, Messages(TOPIC, form, cell_messages, parameters.deadline_ms))
        self._prefix = prefix.encode()
        self._bytes = parameters.payload_bytes
        self._subscriber = ends.subscriber
        ends.delivery = self

    def received(self, payload: bytes) -> None:
        """One message has reached the subscriber's application; its first instruction is the time."""
        now = perf_counter_ns()
        number = payload[TOKEN_BYTES:]
        if not payload.startswith(self._prefix):
            self.counts.foreign += 1
        elif len(payload) != self._bytes or not number.isdigit():
            self.counts.malformed += 1
        elif self.awaits(int(number), now):
            self.answered(int(number), now, self._subscriber.sock)
