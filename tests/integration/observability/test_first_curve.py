"""The live dashboard draws soon after the first message."""

import time
from pathlib import Path

from support.observed_lab import Lab, fill, observed, targets
from support.tables import rows
from support.waiting import until

# Three times the aim: a machine that builds images next door may be that late.
LIMIT_S = 30
# Whatever the machine does, by then a class has looked elsewhere.
GIVE_UP_S = 60


def first_curve_s(lab: Lab, scenario: str) -> float:
    """Seconds from the first message sent to the first answer, not empty, of the live dashboard's CDF.

    One run of `scenario` in a lab whose Prometheus knows no other; both times are of this machine's monotonic clock.
    """
    panel = next(panel for name, panel, _target in targets() if name == "live" and panel["type"] == "xychart")
    expression = fill(panel["targets"][0]["expr"])

    def drawn() -> bool:
        # An empty panel has a series without a number, named after the command that fills it.
        return any(one["value"][1] != "NaN" for one in lab.query(expression))

    assert not drawn(), "a run is drawn before there was one"
    run = lab.run(scenario, MESSAGES=200, INTERVALS_MS="20")
    until(drawn, "a curve on the live dashboard", GIVE_UP_S)
    drawn_ns = time.perf_counter_ns()
    assert run.wait(GIVE_UP_S) in (0, 1), lab.log("controller")
    (folder,) = lab.results.glob(f"*-{scenario}")
    return (drawn_ns - int(rows(folder / "samples.csv")[0]["sent_ns"])) / 1e9


def test_live_dashboard_draws_soon_after_the_first_message(tmp_path: Path) -> None:
    with observed(tmp_path) as lab:
        seconds = first_curve_s(lab, "scenario2")
    print(f"first curve {seconds:.1f} s after the first message")
    assert 0 < seconds < LIMIT_S
