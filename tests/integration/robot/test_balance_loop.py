"""The robot balances over real parts on loopback: firmware, bridge, broker and controller."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.board import Board
from support.loop_lab import LoopLab
from support.parts import Broker, Child, Listener, python
from support.tools import program

MESSAGES = 100
# Ten minutes in each unit.
BOUNDS = {"us": 600e6, "ns": 600e9, "ms": 600e3, "s": 600.0}
READ = "import time; print(max(time.time() - time.perf_counter() for _ in range(300) if not time.sleep(.001)))"


@pytest.mark.engine
def test_a_step_of_the_wall_clock_changes_no_figure(
    broker: Broker, listener: Listener, start_command: Callable[..., Child], start_robot: Callable[..., Board],
    tmp_path: Path,
) -> None:  # fmt: skip
    """A library sets the wall clock of bridge and controller an hour on, and back, again and again."""
    library, source = str(tmp_path / "wall_clock.so"), str(Path(__file__).with_name("wall_clock.c"))
    subprocess.run([program("gcc"), "-shared", "-fPIC", "-Wall", "-o", library, source], check=True)
    set_s = float(subprocess.check_output([sys.executable, "-c", READ], env={**os.environ, "LD_PRELOAD": library}))
    assert set_s - (time.time() - time.perf_counter()) == pytest.approx(3600, abs=60)
    lab = LoopLab(broker, start_robot(), listener, start_command, tmp_path)
    lab.pids["bridge"] = [lab.online_bridge(LD_PRELOAD=library).pid]
    own = {"SCENARIO": "balance", "COMMAND": "", "INTERVALS_MS": "20", "MESSAGES": str(MESSAGES), "REPETITIONS": "1"}
    lab.controller(python("looplab.experiments", "balance"), **own, LD_PRELOAD=library).wait()
    lab.close()
    (cell,) = json.loads((lab.run / "run.json").read_text())["cells"]
    assert cell["answered"] + cell["late"] > 0.9 * MESSAGES
    durations = [
        abs(float(value)) / BOUNDS[unit]
        for unit, values in re.findall(r'_(us|ns|ms|s)": (\{.*?\}|[-.\d]+)', json.dumps(cell))
        for value in re.findall(r"-?\d+(?:\.\d+)?", values)
    ]
    assert sum(one < 1 for one in durations) == len(durations) > 50
