"""promtool's own checks of configuration and rules, and what a panel shows of two runs after a restart."""

import json
from pathlib import Path

import pytest
from support.observed_lab import fill, targets
from support.places import ROOT
from support.wire import call


@pytest.mark.parametrize(
    ("asked", "file", "said"),
    [
        ("check config", "compose/prometheus/prometheus.yml", "rules found"),
        ("test rules", "tests/integration/observability/rules_test.yml", "SUCCESS"),
    ],
)
def test_configuration_and_rules_do_what_they_say(asked: str, file: str, said: str) -> None:
    assert said in call("promtool", *asked.split(), file, cwd=ROOT)


def test_an_earlier_runs_last_cell_is_not_the_current_one(tmp_path: Path) -> None:
    """Prometheus, restarted between two runs, offers the earlier one's series for five minutes more."""
    (expression,) = (target["expr"] for _name, panel, target in targets() if panel["title"] == "Deadline misses")
    series = {}
    for number, cell, beyond, answered in ((1000, "10 ms, QoS 0", 996, 1000), (2000, "100 ms, QoS 0", 1, 200)):
        run = f'experiment="loop",scenario="scenario5",fidelity="thesis",run_id="{number}"'
        labels = f'{run},cell="{cell}"'
        series |= {
            f'lab_figure{{{labels},figure="beyond interval"}}': beyond,
            f'lab_messages_total{{{labels},outcome="answered"}}': answered,
            f"lab_cell_current{{{labels}}}": 1,
            f"lab_run_started_timestamp_seconds{{{run}}}": number,
            f"lab_run_active{{{run}}}": 1,
        }
    expected = [{"labels": "{}", "value": 1 / 200}]
    test = {
        "interval": "1s",
        "input_series": [{"series": name, "values": f"{value}x9"} for name, value in series.items()],
        "promql_expr_test": [{"expr": fill(expression), "eval_time": "5s", "exp_samples": expected}],
    }
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1s", "tests": [test]}))
    call("promtool", "test", "rules", str(file))
