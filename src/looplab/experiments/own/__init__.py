"""Your own MQTT application, measured at its broker: how long its answers take, and where the time goes."""

from collections.abc import Iterator
from textwrap import fill

from looplab.spec.cell import Cell
from looplab.spec.columns import Count, Figure, Key, Latency, Part
from looplab.spec.document import Document, each, rows
from looplab.spec.experiment import Experiment
from looplab.spec.roles import BROKER, CONTROLLER, LINK, Role
from looplab.treatments.loads import loads

NAME = "own"
# Services of the application that OWN_PRIORITY names: the treatments service finds them by their address.
APPLICATION = Role("application", (), most_fifo=99, optional=True)


class OwnCell(Cell):
    """The requests of one topic filter and their answers, as they passed the broker's interface."""

    note = "T: request in to answer out at the broker's interface, in ms; the three parts add up to it"

    topic = Key(str, "topic filter of the requests", heading="requests", default="app/request")
    sent = Count("requests that reached the broker", heading="sent", total=True)
    answered = Count("requests answered within the deadline", outcome="answered")
    late = Count("requests answered after the deadline", heading="late", outcome="late")
    lost = Count("requests without an answer", heading="lost", outcome="lost")
    T = Latency(
        "from the request at the broker to its answer leaving the broker",
        column="total_us",
        times=("sent_ns", "received_ns"),
        table=("p50", "p99"),
        live=True,
    )
    broker_in = Latency(
        "from a request reaching the broker to it leaving for the device",
        column="broker_in_us",
        times=("sent_ns", "out_ns"),
        heading="in",
        table=("p50",),
        live=True,
    )
    device = Latency(
        "from a request leaving for the device to its answer reaching the broker",
        column="device_us",
        times=("out_ns", "back_ns"),
        table=("p50",),
        live=True,
    )
    broker_out = Latency(
        "from an answer reaching the broker to it leaving for the requester",
        column="broker_out_us",
        times=("back_ns", "received_ns"),
        heading="out",
        table=("p50",),
        live=True,
    )
    missed_share = Figure(
        "share of the requests without an answer within the deadline",
        made=lambda cell: (cell.late + cell.lost) / cell.sent if cell.sent else None,
        live=True,
    )
    interval_ms = Figure("mean time between two requests of one client", unit="ms")
    duplicates = Count("requests or answers that came more than once")
    undelivered = Count("lost: the broker passed the request on to nobody")
    unanswered = Count("lost: a client got the request, and sent no answer")
    answer_lost = Count("lost: the answer reached the broker, and not the requester")
    without_key = Count("requests and answers in which the key was not found")
    key_in_use = Count("requests whose key an earlier request without an answer had, too")
    captured = Part("what the capture took: packets, those that the kernel dropped, packets by type", each("amount"))
    clients = Part("clients with requests or answers", rows(client="text", host="text", version="text"))
    topics = Part(
        "messages and bytes a second of each topic, to the broker and from it",
        rows(topic="text", in_per_s="amount", in_bytes_per_s="amount", out_per_s="amount", out_bytes_per_s="amount"),
    )
    causes = Part(
        "what the packets show that delays messages",
        rows(cause="text", where="text", messages="count", mean_ms="amount", remedy="text"),
    )

    @classmethod
    def remarks(cls, run: Document) -> Iterator[str]:
        """Yield the tail of each part of T, and the causes that the packets show, each with its remedy."""
        for cell in map(cls, run["cells"]):
            parts = {"in": cell.broker_in, "device": cell.device, "out": cell.broker_out}
            known = (f"{name} {part['p99'] / 1000:.3f}" for name, part in parts.items() if part.get("n"))
            yield fill(f"p99 of {cell}: {', '.join(known) or '-'} ms", 80, subsequent_indent="  ")
            for text in (*cell.losses(), *map(in_words, cell.document.get("causes") or ())):
                yield fill(text, 80, subsequent_indent="  ")

    def losses(self) -> Iterator[str]:
        """Yield what became of the lost requests, and which messages had no key of use."""
        fates = {
            "passed on to nobody": self.undelivered,
            "passed on, without an answer": self.unanswered,
            "answered, and the answer not passed on": self.answer_lost,
        }
        keys = {
            "without a key": self.without_key,
            "requests with the key of an open one": self.key_in_use,
        }
        if self.lost:
            yield f"Lost: {', '.join(f'{number} {words}' for words, number in fates.items() if number)}."
        if self.lost and any(keys.values()):
            yield f"Is KEY right? {', '.join(f'{number} {words}' for words, number in keys.items() if number)}."


def in_words(cause: Document) -> str:
    """Return a cause of a cell in a sentence."""
    held = f", {cause['mean_ms']:.1f} ms each" if cause["mean_ms"] else ""
    return f"{cause['cause']} ({cause['where']}): {cause['messages']} x{held}. {cause['remedy']}"


EXPERIMENT = Experiment(
    NAME,
    __name__,
    scenarios=f"compose/experiments/{NAME}*",
    cell=OwnCell,
    roles=(CONTROLLER, BROKER, LINK, APPLICATION),
    studies={f"{NAME}-{load}": (NAME, f"{NAME}-{load}") for load in loads()},
    judged=("T_us", "p99"),
)
