"""A counter that sleeps: how much longer than asked does a sleep take?"""

from looplab.spec.columns import Cell, Count, Figure, Key, Latency
from looplab.spec.experiment import Experiment
from looplab.spec.roles import CONTROLLER


class SleepCell(Cell):
    """The sleeps of one length."""

    family = "counter"
    note = "S: how long a sleep took, in ms"

    sleep_ms = Key(float, "how long to sleep", heading="asked", default=5.0)
    sent = Count("sleeps that began", heading="sleeps", total=True)
    answered = Count("sleeps that ended", outcome="answered")
    lost = Count("sleeps that were interrupted", outcome="lost")
    S = Latency("how long a sleep took", column="total_us", times=("sent_ns", "received_ns"), table=("avg",))
    over_asked = Figure("mean sleep over the one asked for", unit="×", over=("S", "sleep_ms"), heading="ratio")


EXPERIMENT = Experiment(
    "counter", __name__, scenarios="compose/experiments/counter", cell=SleepCell, roles=(CONTROLLER,)
)
