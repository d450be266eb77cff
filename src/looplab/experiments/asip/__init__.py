"""The experiment asip: how fast a microcontroller answers over serial, TCP and MQTT, from Python and from Java."""

from looplab.spec.cell import Cell
from looplab.spec.columns import Count, Figure, Key, Latency, Part, Word
from looplab.spec.document import defined
from looplab.spec.experiment import Experiment
from looplab.spec.roles import BROKER, CONTROLLER, Role

NAME = "asip"
THROUGHPUT = "asip-throughput"
BRIDGE = Role("bridge", ("lab-asip-bridge",))
# The roles have the names of the languages. A run may use one alone.
CLIENTS = (
    Role("python", ("lab-asip-client",), optional=True),
    Role("java", ("lab-asip-java",), optional=True),
)


class AsipCell(Cell):
    """One client over one transport; `placement` is what runs elsewhere."""

    language = Key(str, "language of the client", heading="client", default="python")
    transport = Key(str, "transport to the board", heading="way", default="serial")
    placement = Key(str, "what runs elsewhere (`one`: nothing)", heading="place", default="one")
    tests = Count("tests, or steps of a bisection, that were made", heading="tests", total=True)
    answered = Count("tests answered in time, or steps tracked", outcome="answered")
    late = Count("tests answered after the deadline", outcome="late")
    lost = Count("tests never answered, or steps not tracked", heading="lost", outcome="lost")
    reports_per_s = Part("analog reports a second that came unasked while it was measured", defined("number"))
    # Runs of older versions have further factors, of any type.
    factors = Part("`cpus`: the processors that the client may use, 0 without a limit", {"type": "object"})
    edge_cpu_us = Figure("processor time of the client for an edge that it copies", unit="us", live=True)
    runtime = Word("version of Python or Java, with or without its compiler")


class LatencyCell(AsipCell):
    """How long a client's test takes: it sets pin 2, and waits for the notice that pin 13 followed."""

    note = "latency: set to notice, by the client; edge: by the oscilloscope; wire: its bytes; all in ms"

    latency = Latency(
        "from setting the pin to its notice, on the client's clock",
        column="latency_us",
        times=("sent_ns", "received_ns"),
        table=("avg", "p95"),
        live=True,
    )
    edge_latency = Latency(
        "from an edge of pin 2 to that of pin 13, by the oscilloscope",
        heading="edge",
        table=("avg",),
        live="edge",
    )
    wire_us = Figure("the time that the bytes of one test take on the wire", unit="us", heading="wire", live=True)


class ThroughputCell(AsipCell):
    """The highest frequency of a square wave at pin 2 that a client copies to pin 13."""

    note = "tracked: highest frequency copied; missed: lowest that was not; limit: that fills the wire; in Hz"
    tracked_hz = Figure(
        "the highest frequency whose edges were all copied",
        unit="Hz",
        made=lambda cell: float(cell.document["tracked_hz"] or 0),
        heading="tracked",
        digits=1,
        live=True,
    )
    untracked_hz = Figure("the lowest frequency that was not copied", unit="Hz", heading="missed", digits=1)
    wire_hz = Figure("the frequency that fills the wire", unit="Hz", heading="limit", digits=1, live=True)
    tracked_share = Figure("tracked over the wire's limit", over=("tracked_hz", "wire_hz"), heading="share")

    processor_share = Figure(
        "share of a processor, of the client's quota if less, that copying the tracked frequency takes",
        made=lambda cell: cell.tracked_hz * 2 * cell.edge_cpu_us / 1e6 / cell.processors if cell.edge_cpu_us else None,
        heading="cpu",
        live=True,
    )

    @property
    def processors(self) -> float:
        """How much of a processor the client, which copies on one thread, may use."""
        return min(1.0, self.document["factors"]["cpus"] or 1.0)


EXPERIMENT = Experiment(
    NAME,
    __name__,
    scenarios=f"compose/experiments/{NAME}*",
    cell=LatencyCell,
    tables={THROUGHPUT: ThroughputCell},
    roles=(CONTROLLER, BROKER, BRIDGE, *CLIENTS),
    # Their claims compare cells of one run, so their unit is the run.
    studies={
        NAME: (NAME,),
        THROUGHPUT: (THROUGHPUT,),
        "language-hardly": (NAME,),
        "channel-hardly": (NAME,),
        "java-tracks-more": (THROUGHPUT,),
        "serial-tracks-more": (THROUGHPUT,),
        "tcp-tracks-like-mqtt": (THROUGHPUT,),
    },
)
