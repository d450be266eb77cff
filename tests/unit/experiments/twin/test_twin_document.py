"""run.json of twin: the queue, the drain and the rates of a known service time; every message counted once."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.simulated_twin_runs import PUBLISHED_S, Truth, single, write_twin_run
from support.tables import rows

from looplab.experiments.twin import TwinCell
from looplab.experiments.twin.document import queue, rate_per_s


def cells(results: Path, *truths: Truth, **more: Any) -> list[dict[str, Any]]:
    folder = write_twin_run(results, truths, **more)
    return list(json.loads((folder / "run.json").read_text())["cells"])


def test_the_queue_of_a_known_service_time_is_found(tmp_path: Path) -> None:
    """n messages at 10 ms, one stored each 67 ms: n (1 - 10/67) wait when the last is sent, n (67 - 10) ms long."""
    (cell,) = cells(tmp_path, single(10), messages=200)
    assert cell["queue_max"] == pytest.approx(200 * (1 - 0.010 / PUBLISHED_S), abs=2)
    assert cell["drained_s"] == pytest.approx(200 * (PUBLISHED_S - 0.010), abs=0.02)
    assert cell["rate_in_per_s"] == pytest.approx(100)
    assert cell["rate_out_per_s"] == pytest.approx(14.85)
    assert cell["storage_delay_us"]["max"] == pytest.approx(1e6 * (cell["drained_s"]), rel=0.001)


def test_sent_is_stored_and_lost_and_refused(tmp_path: Path) -> None:
    (cell,) = cells(tmp_path, single(20, lost=3, refused=2, copies=4))
    assert (cell["sent"], cell["stored"], cell["lost"], cell["refused"]) == (200, 195, 3, 2)
    assert cell["duplicates"] == 4
    assert cell["response_us"]["max"] is None, "a lost message takes for ever"
    assert cell["storage_delay_us"]["n"] == 195
    # What is never stored stays in the queue.
    (path,) = tmp_path.glob("*/samples.csv")
    last = rows(path)[-5:]
    assert [line["outcome"] for line in last] == ["refused"] * 2 + ["lost"] * 3
    assert {(line["committed_ns"], line["storage_delay_us"]) for line in last} == {("", "")}


def test_each_broker_has_its_own_rate_and_time(tmp_path: Path) -> None:
    truth = Truth(TwinCell.keyed(10, 2, "distributed", "prototype", 1, 3), 0.05, (1.0, 2.0))
    (cell,) = cells(tmp_path, truth)
    assert cell["repetition"] == 3
    first, second = cell["per_broker"]
    assert (first["sent"], first["stored"]) == (100, 100)
    assert first["rate_out_per_s"] == pytest.approx(20)
    assert second["rate_out_per_s"] == pytest.approx(10)
    assert second["operation_s"] == pytest.approx(100 * 0.1, abs=0.001)


def test_a_cell_that_stored_nothing_has_no_rate(tmp_path: Path) -> None:
    (cell,) = cells(tmp_path, single(10, lost=200))
    assert cell["stored"] == 0
    assert cell["queue_max"] == 200
    assert (cell["drained_s"], cell["rate_out_per_s"]) == (None, None)
    assert cell["per_broker"][0]["operation_s"] is None


def test_a_message_stored_as_the_next_is_sent_makes_no_queue() -> None:
    assert queue([0, 10, 20], [10, 20, 30]) == ([0, 10, 10, 20, 20, 30], [1, 0, 1, 0, 1, 0])


def test_rates_of_few_messages() -> None:
    assert [rate_per_s(times_ns) for times_ns in ([], [5], [0, 500_000_000])] == [None, None, 2]
