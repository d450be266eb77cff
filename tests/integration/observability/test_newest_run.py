"""What panels show of a run while an earlier, longer one of the same scenario lies in the same time range."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.observed_lab import Lab, fill, observed, targets
from support.run_files import Writer, parameters, publish_state
from support.waiting import until

LOST_OF_40 = 16
CDF = "CDF of $metric: the scenarios chosen above"


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
            for one in lab.query(fill(target["expr"], choices)):
                key = one["metric"].get("series", target["legendFormat"])
                if one["value"][1] != "NaN":
                    found.setdefault(key, []).append(float(one["value"][1]))
    return found


def test_progress_and_messages_are_the_newest_runs(lab: Lab) -> None:
    lab.run_to_its_end("scenario2")
    until(lambda: shown(lab, "live", "Messages").get("sent") == [80], "both intervals")
    lab.run_to_its_end("scenario2", INTERVALS_MS="20")
    until(lambda: shown(lab, "live", "Messages").get("sent") == [40], "one interval")
    assert shown(lab, "live", "Messages")["progress"] == [1]
    both = {"$cell": ".+", "$scenario": "scenario2"}
    assert len(shown(lab, "compare-scenarios", CDF, both)) == 1, "no cell of the longer run before"


def test_a_run_is_drawn_when_the_next_has_replaced_it(lab: Lab) -> None:
    folders = [lab.run_to_its_end(scenario) for scenario in ("scenario5", "scenario6")]
    until(lambda: lab.query(f'lab_run_valid{{run_id="{folders[1].name}"}}'), "the second has ended")
    assert not lab.query(f'lab_run_active{{run_id="{folders[0].name}"}}'), "the exporter shows the second alone"
    names = {name.partition(":")[0] for name in shown(lab, "compare-scenarios", CDF)}
    assert {"scenario5", "scenario6"} <= names


def test_an_earlier_runs_last_cell_is_not_the_current_one(tmp_path: Path) -> None:
    """Prometheus, restarted between two runs, offers the earlier one's series for five minutes more."""
    (expression,) = (target["expr"] for _name, panel, target in targets() if panel["title"] == "Deadline misses")

    def of_run(number: int, cell: str, beyond: int, answered: int) -> dict[str, int]:
        run = f'experiment="loop",scenario="scenario5",fidelity="thesis",run_id="{number}"'
        labels = f'{run},cell="{cell}"'
        return {
            f'lab_figure{{{labels},figure="beyond interval"}}': beyond,
            f'lab_messages_total{{{labels},outcome="answered"}}': answered,
            f"lab_cell_current{{{labels}}}": 1,
            f"lab_run_started_timestamp_seconds{{{run}}}": number,
            f"lab_run_active{{{run}}}": 1,
        }

    series = {**of_run(1000, "10 ms, QoS 0", 996, 1000), **of_run(2000, "100 ms, QoS 0", 1, 200)}
    expected = [{"labels": "{}", "value": 1 / 200}]
    test = {
        "interval": "1s",
        "input_series": [{"series": name, "values": f"{value}x9"} for name, value in series.items()],
        "promql_expr_test": [{"expr": fill(expression), "eval_time": "5s", "exp_samples": expected}],
    }
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1s", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_curve_ends_where_the_losses_begin(lab: Lab) -> None:
    writer = Writer(lab.live, 40)
    for row in range(40):
        writer.send(row, ago_ms=10_000)
        if row >= LOST_OF_40:
            writer.answer(row)
    asked = parameters(SCENARIO="scenario3", INTERVALS_MS="20", MESSAGES=40, REPETITIONS=1)
    publish_state(lab.live, "running", "20990101T000000Z-scenario3", parameters=asked)

    def heights() -> list[float]:
        return [max(values) for values in shown(lab, "compare-scenarios", CDF, {"$scenario": "scenario3"}).values()]

    until(lambda: heights() == [1 - LOST_OF_40 / 40], "the losses")
