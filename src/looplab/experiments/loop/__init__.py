"""The control loop of the thesis: what stress, priority, flood and QoS do to T, R and O."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from looplab.experiments.loop.studies import STUDIES, VARIANTS
from looplab.spec.cell import Paced
from looplab.spec.columns import ABSENT, Count, Figure, Key, Latency, Part, Word, between, of_runs
from looplab.spec.document import defined, each, rows
from looplab.spec.experiment import Experiment
from looplab.spec.roles import BROKER, CONTROLLER, LINK, Role

# Bridge and robot stand for other machines, as the link does: they always have real-time priority.
BRIDGE = Role("bridge", ("lab-bridge",), fifo=95)
ROBOT = Role("robot", ("robot",), fifo=96)
# With CLIENTS=printed the controller starts publisher and subscriber as its children.
CLIENTS = Role("clients", ("lab-publisher", "lab-subscriber"), most_fifo=99, optional=True)
PARTS = ("controller", "broker", "bridge", "robot")
# `ledger_us` holds these beside the parts of O: O and transport O of the same messages, and O of the others.
WHOLE = ("O", "transport_O", "others_O")
# R is some 70 us without a robot.
_ROBOT_DECADES = (-5, 0)
# The printed subscriber uses `timedelta.microseconds`, which drops whole seconds.
MICROSECONDS = 1_000_000


def _robot(columns: Any, row: int) -> int:
    return int(columns["robot_ns"][row])


def overhead_ns(columns: Any, row: int) -> int:
    """Return O of a row, ABSENT where unknown."""
    return _without_robot(between("sent_ns", "received_ns", columns, row), _robot(columns, row))


def transport_ns(columns: Any, row: int) -> int:
    """Return O of a row where bytes enter and leave the socket, ABSENT where unknown."""
    total_ns = between("wire_sent_ns", "wire_received_ns", columns, row)
    return _without_robot(total_ns, int(columns["wire_robot_ns"][row]))


def _without_robot(total_ns: int, robot_ns: int) -> int:
    return ABSENT if ABSENT in (total_ns, robot_ns) else total_ns - robot_ns


def _service(columns: Any, row: int) -> int:
    return _robot(columns, row) if columns["wait_ns"][row] == 0 else ABSENT


def _client_total(columns: Any, row: int) -> int:
    total_ns = between("client_sent_ns", "client_received_ns", columns, row)
    return total_ns if total_ns == ABSENT else total_ns // 1000 % MICROSECONDS * 1000


def _client_overhead(columns: Any, row: int) -> int:
    return _without_robot(_client_total(columns, row), _robot(columns, row))


def _delivered(cell: "LoopCell") -> float | None:
    return 1 - (cell.lost - cell.merged) / cell.sent if cell.sent else None


class LoopCell(Paced):
    """One interval at one quality of service."""

    of_run = MappingProxyType(
        {
            **dict.fromkeys(("malformed", "foreign", "expired"), defined("count")),
            "events": rows(topic="text", status="text"),
            "bridge": {"type": "object"},
        }
    )

    interval_ms = Key(
        float,
        "time between two messages",
        unit="ms",
        values="intervals_ms",
        pace=True,
        heading="interval",
        default=20.0,
    )
    qos = Key(int, "quality of service", values="qos", default=0)
    sent = Count("messages that were sent", total=True)
    answered = Count("messages answered in time", heading="interval", outcome="answered")
    late = Count("messages answered after the deadline", outcome="late")
    lost_by = Part(
        "lost messages by cause: `merged`, `disconnected`, `expired` (answered after the time limit), `unknown`",
        each("count"),
        heading="lost by",
        pooled=sum,
    )
    lost = Count("messages never answered", heading="lost by", outcome="lost")
    robot_errors = Count("answers that name an error of the robot", outcome="robot_error", fates=("failed",))
    duplicates = Count("answers that came twice")
    out_of_order = Count("answers that overtook another")
    disconnects = Count("lost connections")
    waited = Count("requests that queued at the robot")
    merged = Count("lost: the bridge took the answer for another's", path="lost_by.merged")
    disconnected = Count("lost: a connection was down", path="lost_by.disconnected")
    too_late = Count("lost: answered after the time limit", path="lost_by.expired")
    unexplained = Count("lost for a reason unknown", path="lost_by.unknown")
    T = Latency(
        "response time at the controller, T2 - T1",
        heading="T",
        column="total_us",
        times=("sent_ns", "received_ns"),
        live=True,
    )
    R = Latency(
        "the robot's part, R2 - R1 at the bridge",
        heading="R",
        column="robot_us",
        made=_robot,
        decades=_ROBOT_DECADES,
        endless=False,
        live=True,
    )
    O = Latency(  # noqa: E741
        "T - R: MQTT, network and containers", heading="O", column="overhead_us", made=overhead_ns, live=True
    )
    transport_O = Latency(
        "O where bytes enter and leave the socket; `ledger_us` has O and transport O of the same messages",
        heading="O transport",
        made=transport_ns,
    )
    service_R = Latency("R of requests that did not queue", made=_service, endless=False)
    response = Latency(
        "from when a message was due, not sent; `inf` where lost messages reach that quantile",
        heading="response",
    )
    send_lateness = Latency(
        "how long after its due time a message left; not part of T",
        times=("due_ns", "sent_ns"),
        heading="send lateness",
    )
    client_T = Latency(
        "T as printed clients stamp and compute it, whole seconds dropped; none of the lab's client",
        made=_client_total,
        endless=False,
    )
    client_O = Latency("O as printed clients compute it", heading="O client", made=_client_overhead, endless=False)
    cpu_wait = Part(
        "how long each part waited for a processor",
        each("number"),
        heading="run queue",
        path="cpu_wait_us",
        pooled=sum,
        parts=PARTS,
        unit="us",
    )
    ledger = Part(
        "the parts of O, of answers of which all are known; their means add up to `O`, that of the same messages. "
        "`transport_O` is of these, too, `others_O` of all others",
        each("latency"),
        path="ledger_us",
        pooled=of_runs,
        unit="us",
    )
    negative_remainders = Count("answers whose known parts are longer than O: no part of the ledger")
    delivered_share = Figure("share that MQTT delivered, merged answers included", made=_delivered, heading="lost by")
    load = Part("what the load did: processor seconds, messages", each("number"), heading="load")
    noise_floor = Part("stalls of the machine, as of the run", defined("noise_floor"))
    late_because = Word("why messages left late: `machine`, `scheduler` or `unknown`; absent if they did not")
    slow_because = Word("why answers came far beyond their median: `machine` or `scheduler`; absent if neither did it")
    steal_s = Figure("processor time that the hypervisor gave to others", unit="s")
    strangers_cpu_s = Figure("processor time of programs beside the lab", unit="s")
    wire_bytes = Figure(
        "MQTT of a message at the controller's sockets, both ways, with acknowledgements; none of other clients",
        unit="bytes",
        heading="on the wire",
        digits=1,
    )
    beyond_interval = Figure(
        "share of messages without an answer when the next one was due",
        share=lambda cell, response_ns: response_ns > 1e6 * cell.interval_ms,
        heading="beyond interval",
    )

    @property
    def causes(self) -> str:
        """Why its lost messages were lost, in words: "3 merged, 2 expired"; "" where none was, or nothing is known."""
        return ", ".join(f"{count} {cause.replace('_', ' ')}" for cause, count in self.lost_by.items() if count)

    @property
    def known_parts(self) -> Mapping[str, Any]:
        """O's parts by name, of the messages of which all are known; {} if there is no such message."""
        parts = {name: part for name, part in self.ledger.items() if name not in WHOLE}
        return parts if parts and parts["network"]["n"] else {}

    @property
    def free_R(self) -> Mapping[str, Any]:  # noqa: N802
        """R without queueing at the robot; {} if nothing queued."""
        return self.service_R if self.service_R.get("n") and self.waited else {}


EXPERIMENT = Experiment(
    "loop",
    __name__,
    scenarios="compose/scenarios/*",
    cell=LoopCell,
    aliases={
        "baseline": "scenario1",
        "docker-stress": "scenario2",
        "broker-priority": "scenario4",
        "mqtt-stresser": "scenario7",
    },
    roles=(CONTROLLER, BROKER, BRIDGE, ROBOT, LINK, CLIENTS),
    studies=STUDIES,
    variants=VARIANTS,
)
