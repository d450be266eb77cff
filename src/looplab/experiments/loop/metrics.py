"""Runs of the loop as text for Prometheus, the running one and stored ones."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.experiments.loop import ledger
from looplab.experiments.loop.document import SAMPLES_HEADER
from looplab.experiments.loop.protocol import ONLINE, TOPIC_BRIDGE_INFO, TOPIC_BRIDGE_STATUS, TOPIC_ROBOT_STATUS
from looplab.metrics.distributions import OUTCOMES, Cell, Distribution, bounds_s, joined
from looplab.metrics.runs import Damaged, cell_started_text, current_text
from looplab.metrics.text_format import Texts, line
from looplab.metrics.view import CellsView
from looplab.run.samples import ABSENT

FAMILY = "loop"
FAMILIES = {
    "loop_latency_seconds": ("histogram", "Latency of each answered message: T in all, R at the robot, O = T - R."),
    "loop_latency_quantile_seconds": (
        "gauge",
        "Exact quantile of the raw latencies; q=0 is the minimum, 1 the maximum.",
    ),
    "loop_messages_total": ("counter", "Messages by outcome; a lost one is counted two deadlines after it was sent."),
    "loop_messages_sent_total": ("counter", "Messages sent."),
    "loop_messages_beyond_interval_total": (
        "counter",
        "Messages that had no answer one interval after they were due; those still without an outcome are not counted.",
    ),
    "loop_send_lateness_seconds": ("histogram", "How much later than due a message was sent."),
    "loop_send_lateness_quantile_seconds": ("gauge", "Exact quantile of the send lateness."),
    "loop_cell_current": ("gauge", "1 for the cell that is being measured, or was last."),
    "loop_cell_run_started_timestamp_seconds": ("gauge", "When the run was started that this cell is of."),
    "loop_overhead_part_seconds": (
        "gauge",
        "Mean of each part of O by the kernel's time stamps, over the answers of which all parts are known.",
    ),
    "lab_bridge_online": ("gauge", "1 while the bridge says it is online."),
    "lab_robot_online": ("gauge", "1 while the bridge says the robot is online."),
    "lab_bridge_events_total": ("counter", "What the bridge counts, by event."),
}
VIEW = CellsView(
    "interval_ms",
    "interval",
    "answers within x,",
    {"T": "in all", "R": "at the robot", "O": "all but the robot"},
)
# What a cell takes of each row beside T.
COLUMNS = ("robot_ns", "due_ns", *ledger.STAMPS)
# R without a robot is some 70 us, so its buckets begin at 10 us.
ROBOT_BOUNDS_S = bounds_s(-5)


class LoopCell(Cell):
    """One interval at one QoS."""

    def __init__(self, scenario: str, fidelity: str, interval_ms: float, qos: int) -> None:
        labels = {"scenario": scenario, "fidelity": fidelity, "interval_ms": f"{interval_ms:g}", "qos": str(qos)}
        super().__init__(FAMILY, labels, {"T": Distribution(), "R": Distribution(ROBOT_BOUNDS_S), "O": Distribution()})
        self.parts_s: dict[str, float] = {}
        self._ledgers, self._sums_ns = 0, [0] * len(ledger.NAMES)
        self._interval_ns = round(interval_ms * 1e6)
        self._beyond = 0

    def add_latency(self, total_ns: int, *more: int) -> None:
        """Count one answer, in time or late."""
        robot_ns, due_ns, received_ns, *stamps = more
        self._beyond += received_ns - due_ns > self._interval_ns
        self.latencies["T"].add(total_ns)
        self.latencies["R"].add(robot_ns)
        self.latencies["O"].add(total_ns - robot_ns)
        if stamps:
            self._add_parts(ledger.parts(total_ns - robot_ns, received_ns, *stamps))

    def _add_parts(self, parts: ledger.Parts) -> None:
        # The last rows of a scrape have gaps: the bridge reports an answer's parts with the next one.
        if ABSENT not in parts:
            self._ledgers += 1
            self._sums_ns = [total + part for total, part in zip(self._sums_ns, parts, strict=True)]
            means = (total / self._ledgers / 1e9 for total in self._sums_ns)
            self.parts_s = dict(zip(ledger.NAMES, means, strict=True))

    def add_outcome(self, outcome: str) -> None:
        """Count one message whose fate is known."""
        super().add_outcome(outcome)
        self._beyond += outcome in ("lost", "robot_error")

    def _render(self) -> dict[str, str]:
        beyond, made_of = "loop_messages_beyond_interval_total", "loop_overhead_part_seconds"
        parts = (line(made_of, {**self.labels, "part": part}, mean_s) for part, mean_s in self.parts_s.items())
        return {**super()._render(), beyond: line(beyond, self.labels, self._beyond), made_of: "".join(parts)}


def cells(parameters: Mapping[str, Any]) -> list[LoopCell]:
    """Return the cells of a run in the order in which they are measured."""
    key = str(parameters["scenario"]), str(parameters["fidelity"])
    published = [(interval_ms, qos) for qos in parameters["qos"] for interval_ms in parameters["intervals_ms"]]
    order = parameters.get("cell_order") or published
    return [LoopCell(*key, float(interval_ms), int(qos)) for interval_ms, qos in order]


def cell_texts(run_id: str, found: Sequence[Cell]) -> dict[str, str]:
    """Return the sample lines of a run's cells."""
    begun = [cell for cell in found if cell.sent]
    return {
        **joined([cell.texts() for cell in found]),
        "loop_cell_current": current_text(FAMILY, begun),
        "loop_cell_run_started_timestamp_seconds": cell_started_text(FAMILY, run_id, [cell.labels for cell in begun]),
    }


def stored_texts(folder: Path, run: Mapping[str, Any]) -> dict[str, str]:
    """Return the sample lines of a stored run's cells.

    Raises Damaged, or KeyError, TypeError or ValueError if run.json is not what this lab writes.
    """
    found = {
        (f"{cell['interval_ms']:g}", str(cell["qos"])): LoopCell(
            run["scenario"], run["fidelity"], cell["interval_ms"], cell["qos"]
        )
        for cell in run["cells"]
    }
    _read_samples(folder / "samples.csv", found)
    for cell in run["cells"]:
        found[f"{cell['interval_ms']:g}", str(cell["qos"])].parts_s = {
            name: figures["avg"] / 1e6 for name, figures in cell.get("ledger_us", {}).items() if figures["n"]
        }
    for cell in run["cells"]:
        sent = found[f"{cell['interval_ms']:g}", str(cell["qos"])].sent
        if sent != cell["sent"]:
            raise Damaged(f"samples.csv holds {sent} messages of a cell, run.json says {cell['sent']}")
    return cell_texts(folder.name, list(found.values()))


def _read_samples(path: Path, found: Mapping[tuple[str, str], Cell]) -> None:
    with path.open(encoding="ascii") as file:
        if file.readline().rstrip("\n") != SAMPLES_HEADER:
            raise Damaged("samples.csv does not begin with its columns' names")
        for number, text in enumerate(file, 2):
            try:
                _take(text.rstrip("\n").split(","), found)
            except (KeyError, ValueError) as error:
                raise Damaged(f"samples.csv, line {number} is not understood") from error


def _take(fields: list[str], found: Mapping[tuple[str, str], Cell]) -> None:
    interval_ms, qos, _repetition, _sequence, due, sent, received, _total, robot_us, _overhead, outcome = fields
    if outcome not in OUTCOMES:
        raise ValueError(outcome)
    cell = found[interval_ms, qos]
    cell.add_sent(int(sent) - int(due))
    cell.add_outcome(outcome)
    if outcome in ("answered", "late"):
        cell.add_latency(int(received) - int(sent), round(float(robot_us) * 1000), int(due), int(received))


def _online(family: str) -> Callable[[bytes], Texts]:
    return lambda payload: {family: line(family, {}, int(payload == ONLINE))}


def _events(payload: bytes) -> Texts:
    family = "lab_bridge_events_total"
    try:
        counts = json.loads(payload)["counts"]
        return {family: "".join(line(family, {"event": str(name)}, int(count)) for name, count in counts.items())}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


# What is retained at the broker, as sample lines.
BROKER_TOPICS: Mapping[str, Callable[[bytes], Texts]] = {
    TOPIC_BRIDGE_STATUS: _online("lab_bridge_online"),
    TOPIC_ROBOT_STATUS: _online("lab_robot_online"),
    TOPIC_BRIDGE_INFO: _events,
}
