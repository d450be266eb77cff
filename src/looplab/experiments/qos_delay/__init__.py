"""The experiment qos-delay: how the latency from publisher to subscriber grows with the delay of the network."""

from looplab.spec.cell import Paced
from looplab.spec.columns import Count, Figure, Key, Latency, Text
from looplab.spec.experiment import Experiment
from looplab.spec.roles import BROKER, CONTROLLER, LINK

NAME = "qos-delay"
# The network of the published figures: normally distributed delays.
USUAL = "normal"


class DelayCell(Paced):
    """One pair of mean link delays at one quality of service over one network."""

    note = "L: publisher to subscriber, in ms; delay: publisher-broker and broker-subscriber"

    delay_pb_ms = Key(float, "delay from publisher to broker", unit="ms")
    delay_bs_ms = Key(float, "delay from broker to subscriber", unit="ms")
    pair = Text(
        lambda cell: f"{cell.delay_pb_ms:g}-{cell.delay_bs_ms:g}",
        "the cell: the delay from publisher to broker and from broker to subscriber in ms",
        heading="delay",
    )
    qos = Key(int, "quality of service", heading="QoS", default=0)
    network = Key(str, "how delays vary", heading="network", default=USUAL)
    interval_ms = Figure("time between two messages", unit="ms")
    sent = Count("messages that were sent", heading="sent", total=True)
    answered = Count("messages that reached the subscriber", outcome="answered")
    late = Count("messages that came after the deadline", heading="late", outcome="late")
    lost = Count("messages that never came", heading="lost", outcome="lost")
    made_ms = Figure(
        "the delay of both links as the emulator made it",
        path="end_to_end_ms.total",
        unit="ms",
        heading="end-to-end",
        live=True,
    )
    L = Latency(
        "from publisher to subscriber",
        column="total_us",
        times=("sent_ns", "received_ns"),
        table=("avg", "p99"),
        decades=(-3, 1),
        live=True,
    )
    transport_L = Latency(
        "from bytes leaving one socket to bytes entering the other", times=("wire_sent_ns", "wire_received_ns")
    )
    ratio = Figure(
        "L as a multiple of the end-to-end delay",
        path="L_over_delay",
        unit="×",
        over=("L", "made_ms"),
        heading="L/delay",
        live=True,
    )
    packets_per_segment = Figure(
        "MQTT packets in a TCP segment of the publisher",
        path="segments.publisher.mqtt_packets_per_segment.mean",
        heading="pkt/seg",
        live=True,
    )
    largest_segment_bytes = Figure(
        "the largest TCP segment of the publisher",
        unit="bytes",
        path="segments.publisher.size_bytes.max",
        pooled=max,
    )

    def __str__(self) -> str:
        """Return the cell in words; the usual network goes without saying."""
        return super().__str__().removesuffix(f", {USUAL}")

    @property
    def wanted_ms(self) -> float:
        """The end-to-end delay as wanted: the order of the cells."""
        return self.delay_pb_ms + self.delay_bs_ms

    @property
    def symmetrical(self) -> bool:
        return self.delay_pb_ms == self.delay_bs_ms


EXPERIMENT = Experiment(
    NAME,
    __name__,
    scenarios=f"compose/experiments/{NAME}",
    cell=DelayCell,
    roles=(CONTROLLER, BROKER, LINK),
    studies={NAME: (NAME,)},
)
