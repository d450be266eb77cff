"""Runs of balance made of known numbers: the robot stands at 20 ms and falls at 100 ms."""

from pathlib import Path
from typing import Any

from looplab.experiments.balance import NAME
from support.spec_runs import make_runs

MESSAGES = 150


def write_balance_run(
    results: Path, scenario: str = NAME, *, start: str = "", intervals: str = "100,20", qos: str = "0"
) -> Path:
    def truth(cell: Any) -> dict[str, float]:
        return {"T": 6000, "upright_s": 1.1 if cell.interval_ms > 60 else MESSAGES * cell.interval_ms / 1000}

    sizes = f"--messages {MESSAGES} --repetitions 1 --intervals {intervals} --qos {qos}"
    return make_runs(results, f"./lab run {scenario} {sizes}", truth=truth, start=start)[0]
