"""The process of one run of the counter."""

from __future__ import annotations

import sys

from looplab.experiments.counter.controller import Controller
from looplab.experiments.counter.parameters import read_parameters
from looplab.experiments.counter.table import table

from looplab.run.life import live
from looplab.run.process import run_process


def main() -> int:
    """Run from the environment; return 0 for a valid run, 1 invalid or interrupted, 2 wrong use, 3 machine."""
    return run_process(lambda place: live(Controller(read_parameters(), place)), table)


if __name__ == "__main__":
    sys.exit(main())
