"""Runs of an application of one's own made of known numbers, in the very files that the experiment writes."""

from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.own import OwnCell
from looplab.experiments.own.causes import NAGLE, NODELAY
from support.run_files import MS, Simulated, sent_ns, simulate, treatment

INTERVAL_MS = 20.0
MESSAGES, LOST = 200, 1


def write_own_run(
    results: Path,
    scenario: str = "own",
    *,
    start: str = "20260801T000000Z",
    total_ms: float = 20.4,
    **changes: Any,
) -> Path:
    """A folder as the experiment leaves it: 0.1 ms to the device, 4.5 ms there, the rest in the broker."""
    rng = np.random.default_rng(5)
    total_ns = np.round(total_ms * MS * (1 + 0.05 * rng.standard_normal(MESSAGES))).astype(int)
    left_ns = sent_ns(0, MESSAGES, INTERVAL_MS)
    columns = {"out_ns": left_ns + round(0.1 * MS), "back_ns": left_ns + round(4.6 * MS)}
    held = {"cause": NAGLE, "where": "in broker, to my-controller", "messages": MESSAGES, "mean_ms": 15.8}
    more = {
        "interval_ms": INTERVAL_MS, "arrival_jitter_ms": 0.2, "duplicates": 0, "undelivered": 0, "unanswered": LOST,
        "answer_lost": 0, "without_key": 0, "key_in_use": 0, "captured": {"captured": 8 * MESSAGES, "dropped": 0},
        "clients": [{"client": "my-controller", "host": "10.0.0.2", "version": "5"}],
        "topics": [{"topic": "app/request", "in_per_s": 50.0, "in_bytes_per_s": 1200.0, "out_per_s": 50.0,
                    "out_bytes_per_s": 1200.0}],
        "causes": [{**held, "remedy": NODELAY}],
    }  # fmt: skip
    simulated = Simulated(OwnCell.keyed("app/request"), total_ns, INTERVAL_MS, LOST, columns, more)
    load = scenario.partition("-")[2] or "none"
    asked = {"deadline_ms": 100, "load": load, "request_topic": "app/request"}
    changes = {"treatments": [treatment("packets that the capture lost", "0")], **changes}
    return simulate(results / f"{start}-{scenario}", "own", [simulated], parameters=asked, **changes)
