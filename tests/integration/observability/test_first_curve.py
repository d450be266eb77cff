"""The live dashboard draws soon after the first message. bench/first_curve.py holds it against 10 s."""

from pathlib import Path

from support.first_curve import first_curve_s
from support.observed_lab import observed

# Three times the aim: a machine that builds images next door may be that late.
LIMIT_S = 30


def test_live_dashboard_draws_soon_after_the_first_message(tmp_path: Path) -> None:
    with observed(tmp_path) as lab:
        seconds = first_curve_s(lab, "scenario2")
    print(f"first curve {seconds:.1f} s after the first message")
    assert 0 < seconds < LIMIT_S
