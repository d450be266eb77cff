"""Several brokers: each with its own runs, figures and verdicts; the thesis's claims are judged by mosquitto alone."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.reports import Page, write
from support.run_files import edited, write_study
from support.simulated_runs import simulated_cell, write_run
from support.tables import rows

from looplab.experiments.loop.report.analysis import whose
from looplab.report.verdicts import NO_VERDICT, NOT_REPRODUCED, REPRODUCED, UNDECIDED, Verdict

O_US = {"mosquitto": 900, "rabbitmq": 1500}
RUNS = 6


@dataclass(frozen=True)
class Reported:
    """Stored runs, and the report on them."""

    results: Path
    out: Path

    @property
    def words(self) -> str:
        return " ".join(Page(self.out / "index.html").words)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """A study of each broker, six rounds of scenarios 1 and 2: stress doubles mosquitto's O, not RabbitMQ's."""
    place = tmp_path_factory.mktemp("brokers")
    found, rng = place / "results", np.random.default_rng(5)
    for at, (broker, level_us) in enumerate(O_US.items()):
        for scenario, factor in (("scenario1", 1), ("scenario2", 2 if broker == "mosquitto" else 1)):
            for number in range(RUNS):
                start = f"2026010{at + 1}T0000{number:02}Z"
                cells = {(20.0, qos): simulated_cell(rng, 4, 100, level_us * factor, 4280, 0.1) for qos in (0, 1)}
                load = {"broker": broker, "load": "stress" if scenario == "scenario2" else "none"}
                folder = write_run(found, scenario, start=start, cells=cells, parameters=load)
                with edited(folder) as run:
                    run["environment"]["versions"] = {"broker": "4.0.5" if broker == "rabbitmq" else "2.0.21"}
    write_study(found)
    assert write(found, place / "out") == 0
    return Reported(found, place / "out")


def test_each_broker_has_its_line_in_every_cell(reported: Reported) -> None:
    table = rows(reported.out / "loop-cells.csv")
    assert len(table) == len(O_US) * 2 * 2
    for row in table:
        broker = row["factors"].removeprefix("BROKER=") or "mosquitto"
        factor = 2 if (broker, row["scenario"]) == ("mosquitto", "scenario2") else 1
        assert float(row["O_mean_us"]) == pytest.approx(O_US[broker] * factor, rel=0.1)
        assert len(row["run_id"].split()) == RUNS


def test_a_finding_of_one_broker_alone_differs(reported: Reported) -> None:
    _, _, after = reported.words.partition("A finding that another broker shows as well is not.")
    line = after.partition("CPU stress raises O")[2].partition("CPU stress raises O, without Arduino")[0]
    assert "differs" in line.partition("corrected")[0]
    # The thesis's own tables and verdicts are of its broker.
    judged = [(row["claim"], row["fidelity"], row["statistic"]) for row in rows(reported.out / "verdicts.csv")]
    verdict = rows(reported.out / "verdicts.csv")[judged.index(("stress", "thesis", "O mean"))]
    assert float(verdict["share"]) == pytest.approx(1.0, abs=0.15)
    cells = [
        (row["scenario"], row["interval_ms"], row["qos"], row["metric"]) for row in rows(reported.out / "tables.csv")
    ]
    cell = rows(reported.out / "tables.csv")[cells.index(("scenario1", "20", "0", "O"))]
    assert float(cell["mean_us"]) == pytest.approx(900, rel=0.1)
    assert "thesis, BROKER=rabbitmq" in reported.words


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((REPRODUCED, REPRODUCED, NO_VERDICT), "alike"), ((REPRODUCED, NOT_REPRODUCED), "differs"),
        ((REPRODUCED, NO_VERDICT, UNDECIDED), ""), ((NO_VERDICT, NO_VERDICT), ""),
    ],
)  # fmt: skip
def test_a_broker_without_a_verdict_shares_no_finding(outcomes: tuple[str, ...], expected: str) -> None:
    assert whose({str(at): Verdict(outcome, "") for at, outcome in enumerate(outcomes)}) == expected
