"""The process of one run of qos-delay."""

from __future__ import annotations

import sys
from typing import Any

from looplab.experiments.loop.controller import say_plain as say_loop
from looplab.experiments.qos_delay.controller import Experiment
from looplab.experiments.qos_delay.parameters import read_parameters
from looplab.experiments.qos_delay.table import table
from looplab.run.process import run_process


def say_plain(event: str, **facts: Any) -> None:
    """Progress for a person who started the experiment with plain Compose."""
    if event == "plan":
        print(
            f"{facts['cells']} cells of {facts['messages']} messages: about {facts['seconds'] / 60:.0f} min", flush=True
        )
    elif event == "repetition":
        share = facts["messages_done"] / facts["messages"]
        left = f"about {facts['seconds_left']:.0f} s left" if share < 1 else "done"
        print(f"{facts['scenario']}: {share:4.0%}, {facts['cell']}, {left}", flush=True)
    else:
        say_loop(event, **facts)


def main() -> int:
    """Run from the environment; exit code 0 valid run, 1 invalid or interrupted, 2 wrong use, 3 machine."""
    return run_process(lambda *place: Experiment(read_parameters(), *place).run(), say_plain, table)


if __name__ == "__main__":
    sys.exit(main())
