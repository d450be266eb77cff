"""What panels show of a run while an earlier, longer one of the same scenario lies in the same time range."""

import csv
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.observed_lab import Lab, fill, observed, targets
from support.run_files import edited
from support.simulated_delay_runs import MESSAGES, PAIRS_MS, begin_sweep, write_delay_run
from support.waiting import until

LOST_OF_40 = 16


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """No run of another test is in its Prometheus."""
    with observed(tmp_path_factory.mktemp("newest")) as made:
        yield made


def shown(lab: Lab, dashboard: str, title: str, choices: dict[str, str] | None = None) -> dict[str, list[float]]:
    """Values of a panel by its queries' legends, or by the label `series`; no series that only fills an empty panel."""
    found: dict[str, list[float]] = {}
    for name, panel, target in targets():
        if (name, panel["title"]) == (dashboard, title):
            for one in lab.query(fill(target["expr"], choices).replace("[1m]", "[10s]")):
                key = one["metric"].get("series", target["legendFormat"])
                if one["value"][1] != "NaN":
                    found.setdefault(key, []).append(float(one["value"][1]))
    return found


def test_a_sweep_is_counted_without_the_longer_one_before_it(lab: Lab) -> None:
    write_delay_run(lab.results)
    until(lambda: shown(lab, "qos-and-delay", "The newest sweep").get("sent") == [11 * 3 * 600 - 600 * 3], "stored")
    begin_sweep(lab.live)
    planned = float(len(PAIRS_MS) * MESSAGES)
    expected = {"sent": [planned * 3 / 4], "planned": [planned], "lost": [0]}
    until(lambda: shown(lab, "qos-and-delay", "The newest sweep") == expected, "only the newest sweep")
    curves = shown(lab, "qos-and-delay", "Figure 3a: mean latency, both links alike", {"$qos": ".+"})
    assert [len(points) for points in curves.values()] == [len(PAIRS_MS)], "of QoS 0 alone, each pair once"


def test_progress_and_messages_are_the_newest_runs(lab: Lab) -> None:
    lab.run_to_its_end("scenario2")
    until(lambda: shown(lab, "live-loop", "Messages").get("progress") == [1], "both intervals")
    lab.run_to_its_end("scenario2", INTERVALS_MS="20")
    until(lambda: shown(lab, "live-loop", "Messages").get("sent") == [40], "one interval")
    assert shown(lab, "live-loop", "Messages")["progress"] == [1]


def test_an_earlier_runs_last_cell_is_not_the_current_one(tmp_path: Path) -> None:
    """Prometheus, restarted between two runs, offers the earlier one's series for five minutes more."""
    (expression,) = (target["expr"] for _name, panel, target in targets() if panel["title"] == "Deadline misses")
    run = 'scenario="scenario5",fidelity="thesis"'

    def cell(interval_ms: int, beyond: int, answered: int, started: int) -> dict[str, int]:
        labels = f'{run},interval_ms="{interval_ms}",qos="0"'
        return {
            f"loop_messages_beyond_interval_total{{{labels}}}": beyond,
            f'loop_messages_total{{{labels},outcome="answered"}}': answered,
            f"loop_cell_current{{{labels}}}": 1,
            f"loop_cell_run_started_timestamp_seconds{{{labels}}}": started,
        }

    of_run = {f"loop_run_started_timestamp_seconds{{{run}}}": 2000, f"loop_run_active{{{run}}}": 1}
    series = {**cell(10, 996, 1000, 1000), **cell(100, 1, 200, 2000), **of_run}
    expected = [{"labels": "{}", "value": 1 / 200}]
    test = {
        "interval": "1s",
        "input_series": [
            {"series": name, "values": f"{0 if 'messages' in name else value}+{value if 'messages' in name else 0}x9"}
            for name, value in series.items()
        ],
        "promql_expr_test": [{"expr": expression, "eval_time": "5s", "exp_samples": expected}],
    }
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1s", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def with_losses(whole: Path) -> Path:
    """A copy of a run, started later, whose first messages at 20 ms were lost."""
    folder = whole.with_name("20990101T000000Z-scenario3")
    shutil.copytree(whole, folder)
    with edited(folder) as run:
        run["run_id"] = folder.name
    with (folder / "samples.csv").open() as file:
        header, *rows = csv.reader(file)
    for row in [row for row in rows if row[0] == "20"][:LOST_OF_40]:
        row[header.index("outcome")] = "lost"
        for column in ("received_ns", "total_us", "robot_us", "overhead_us"):
            row[header.index(column)] = ""
    lines = [",".join(row) for row in (header, *rows)]
    (folder / "samples.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_a_curve_ends_where_the_losses_begin(lab: Lab) -> None:
    whole = lab.run_to_its_end("scenario3")
    # The run whose live files are still there stands for its scenario until it is stored.
    lab.run_to_its_end("scenario4")
    damaged = with_losses(whole)

    def heights() -> list[float]:
        return [
            max(values) for values in shown(lab, "compare-scenarios", "CDF of $metric: the scenarios chosen above",
                                            {"$scenario": "scenario3"}).values()
        ]  # fmt: skip

    until(lambda: heights() == [1 - LOST_OF_40 / 40], "the losses")
    shutil.rmtree(damaged)
    until(lambda: heights() == [1], "the run before", 40)
    shutil.rmtree(whole)
    until(lambda: heights() == [], "no run", 60)
