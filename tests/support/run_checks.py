"""What must hold of every run, whatever was measured."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.ledger import NAMES
from looplab.experiments.loop.parameters import PARAMETERS
from looplab.report.schema import run_schema
from looplab.spec.reader import FIDELITIES
from support.tables import rows

SAMPLES_HEADER = (
    "interval_ms,qos,repetition,sequence,due_ns,sent_ns,received_ns,total_us,robot_us,overhead_us,outcome,intended_ns"
)
# Not in every run: why messages or answers were late, if they were.
ABSENT_IN_SOME = ("late_because", "slow_because")
# Why a run is INVALID without a treatments service; why that did not answer follows.
NO_TREATMENTS = "treatments service: wanted answers, found no answer"
COUNT_OF_OUTCOME = {"answered": "answered", "late": "late", "lost": "lost", "robot_error": "robot_errors"}


def reasons(run: dict[str, Any]) -> list[str]:
    """Return why a run is INVALID, without the words of a service that did not answer."""
    return [why.partition(": The treatments service at ")[0] for why in run["invalid_because"]]


class Run:
    """A stored run: its document, its samples by sequence."""

    def __init__(self, folder: Path) -> None:
        self.document: dict[str, Any] = json.loads((folder / "run.json").read_text())
        self.samples = {int(row["sequence"]): row for row in read_samples(folder)}

    @property
    def cell(self) -> dict[str, Any]:
        """Return the first cell, where a run has but one."""
        cell: dict[str, Any] = self.document["cells"][0]
        return cell

    def outcomes(self, outcome: str) -> list[int]:
        """Return the sequence numbers of the messages with this outcome."""
        return [sequence for sequence, row in self.samples.items() if row["outcome"] == outcome]


class Ledger(Run):
    """A stored run with transport.csv, microseconds as text with three decimals."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.transport = {int(row["sequence"]): row for row in rows(folder / "transport.csv")}

    def part(self, sequence: int, name: str) -> float:
        return float(self.transport[sequence][f"{name}_us"])

    def known(self) -> list[int]:
        """Return the messages of which all parts are known; fail unless their sum is O to the nanosecond."""
        found = []
        for sequence, row in self.transport.items():
            parts = [row[f"{name}_us"] for name in NAMES]
            if "" not in parts:
                assert sum(map(Decimal, parts)) == Decimal(self.samples[sequence]["overhead_us"])
                found.append(sequence)
        asked = self.document["parameters"]
        # Where the kernel stamps and holds nothing back, a message of QoS 0 that met no other has every part.
        # Over TLS it may meet bytes that are no message.
        if found and asked["tcp_nodelay"] and not asked["broker_tls"]:
            # The bridge tells an answer's times with a later answer: of the last ones they never come.
            told = {sequence for sequence in self.alone() if sequence <= max(self.transport)}
            incomplete = {sequence: self.transport.get(sequence) for sequence in told - {*found}}
            assert not incomplete
        return found

    def alone(self) -> set[int]:
        """Return the messages of QoS 0 that were sent after the one before had come, and came before the next left."""
        each = [row for row in self.samples.values() if row["outcome"] == "answered" and row["qos"] == "0"]
        return {
            int(row["sequence"])
            for before, row, after in zip(each, each[1:], each[2:], strict=False)
            if int(before["received_ns"]) < int(row["sent_ns"]) < int(row["received_ns"]) < int(after["sent_ns"])
        }


def check_run(folder: Path, run: dict[str, Any]) -> None:
    """Schema, sums, and samples.csv telling the same story as run.json."""
    written_today().validate(run)
    assert run["valid"] == (not run["invalid_because"])
    assert run["fidelity"] in FIDELITIES
    assert run["treatments"]
    assert run["environment"]["cgroup"] in ("v1", "v2")
    for image in run["environment"]["images"].values():
        assert image["reference"]
        assert re.fullmatch("sha256:[0-9a-f]{64}", image["id"])
        assert image["origin"] in ("registry", "built", "local")
    parameters = run["parameters"]
    assert [(cell["qos"], cell["interval_ms"]) for cell in run["cells"]] == [
        (qos, interval) for qos in parameters["qos"] for interval in parameters["intervals_ms"]
    ]
    samples = read_samples(folder)
    for cell in run["cells"]:
        check_ledger(cell)
        check_sums(cell, parameters["messages"] * parameters["repetitions"])
        own = [row for row in samples if (float(row["interval_ms"]), int(row["qos"])) == _key(cell)]
        assert len(own) == cell["sent"]
        for outcome, count in COUNT_OF_OUTCOME.items():
            assert sum(row["outcome"] == outcome for row in own) == cell[count], outcome
    assert [int(row["sequence"]) for row in samples] == list(range(len(samples)))
    for row in samples:
        check_times(row)


def check_ledger(cell: dict[str, Any]) -> bool:
    """The parts of O sum to its mean, of the same messages, within 1 us; return whether any part is known.

    Runs of before `O` stood in the ledger count where the parts of every message are known.
    """
    ledger = cell.get("ledger_us") or {}
    whole = ledger.get("O") or cell["O_us"]
    parts = [ledger[name] for name in NAMES if name in ledger]
    if not parts or not whole["n"] or {part["n"] for part in parts} != {whole["n"]}:
        return False
    assert abs(sum(part["avg"] for part in parts) - whole["avg"]) <= 1
    return True


def written_today() -> Draft202012Validator:
    """Return the schema of a run of the loop, stricter than for runs of any age: every property it names is there."""
    schema = run_schema(LoopCell, PARAMETERS).schema
    for name in ABSENT_IN_SOME:
        del schema["properties"]["cells"]["items"]["properties"][name]
    # Plain Compose cannot compute it.
    del schema["properties"]["environment"]["properties"]["lab_own"]["properties"]["changes"]
    return Draft202012Validator(_all_required(schema))


def _all_required(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_all_required(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _all_required(value) for key, value in schema.items()}
    return {**strict, "required": [*schema["properties"]]} if "properties" in schema else strict


def check_sums(cell: dict[str, Any], sent: int) -> None:
    assert cell["sent"] == sent
    assert cell["sent"] == cell["answered"] + cell["late"] + cell["lost"] + cell["robot_errors"]
    assert cell["lost"] == sum(cell["lost_by"].values())
    assert cell["response_us"]["n"] == cell["sent"]


def check_times(row: dict[str, str]) -> None:
    """T2 - T1 is T, T - R is O, and no message leaves before it is due."""
    assert int(row["sent_ns"]) >= int(row["due_ns"])
    if row["outcome"] == "lost":
        assert row["received_ns"] == row["total_us"] == row["robot_us"] == row["overhead_us"] == ""
        return
    total_us, robot_us = float(row["total_us"]), float(row["robot_us"])
    assert abs(total_us - (int(row["received_ns"]) - int(row["sent_ns"])) / 1000) < 0.0015
    assert abs(float(row["overhead_us"]) - (total_us - robot_us)) < 0.0015
    assert 0 < robot_us < total_us


def read_samples(folder: Path) -> list[dict[str, str]]:
    lines = rows(folder / "samples.csv")
    assert not lines or [*lines[0]] == SAMPLES_HEADER.split(",")
    return lines


def treatments(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {treatment["what"]: treatment for treatment in run["treatments"]}


def total(run: dict[str, Any], count: str) -> int:
    return sum(cell[count] for cell in run["cells"])


def _key(cell: dict[str, Any]) -> tuple[float, int]:
    return float(cell["interval_ms"]), int(cell["qos"])
