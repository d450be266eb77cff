"""Runs of an application of one's own made of known numbers, in the very files that the experiment writes."""

from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.own import OwnCell
from looplab.experiments.own.causes import NAGLE, NODELAY
from support.run_files import LATENESS_NS, MS, Simulated, finish, measured, treatment

INTERVAL_MS = 20.0


def write_own_run(
    results: Path,
    scenario: str = "own",
    *,
    start: str = "20260801T000000Z",
    total_ms: float = 20.4,
    messages: int = 200,
    lost: int = 1,
    **changes: Any,
) -> Path:
    """A folder as the experiment leaves it: 0.1 ms to the device, 4.5 ms there, the rest in the broker."""
    rng = np.random.default_rng(5)
    total_ns = np.round(total_ms * MS * (1 + 0.05 * rng.standard_normal(messages))).astype(int)
    sent_ns = 10**12 + np.arange(messages) * round(INTERVAL_MS * MS) + LATENESS_NS
    columns = {"out_ns": sent_ns + round(0.1 * MS), "back_ns": sent_ns + round(4.6 * MS)}
    held = {"cause": NAGLE, "where": "in broker, to my-controller", "messages": messages, "mean_ms": 15.8}
    more = {
        "interval_ms": INTERVAL_MS, "arrival_jitter_ms": 0.2, "duplicates": 0, "undelivered": 0, "unanswered": lost,
        "answer_lost": 0, "without_key": 0, "key_in_use": 0, "captured": {"captured": 8 * messages, "dropped": 0},
        "clients": [{"client": "my-controller", "host": "10.0.0.2", "version": "5"}],
        "topics": [{"topic": "app/request", "in_per_s": 50.0, "in_bytes_per_s": 1200.0, "out_per_s": 50.0,
                    "out_bytes_per_s": 1200.0}],
        "causes": [{**held, "remedy": NODELAY}],
    }  # fmt: skip
    simulated = [Simulated(OwnCell.keyed("app/request"), total_ns, INTERVAL_MS, lost, columns, more)]
    cells, lines = measured(simulated)
    load = scenario.partition("-")[2] or "none"
    asked = {"messages": messages, "deadline_ms": 100, "load": load, "request_topic": "app/request"}
    treatments = [treatment("packets that the capture lost", "0")]
    return finish(
        results / f"{start}-{scenario}", "own", cells, asked, {"samples.csv": lines},
        **{"treatments": treatments, **changes},
    )  # fmt: skip
