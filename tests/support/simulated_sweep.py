"""A sweep of qos-delay that is being measured, made of known numbers, in the files that the experiment writes."""

from pathlib import Path
from time import perf_counter_ns

from looplab.run.samples import ANSWERED, SampleStore
from support.run_files import begin

PAIRS_MS = ((10, 10), (20, 20))
MESSAGES = 40
RUN_ID = "20260401T000000Z-qos-delay"


def begin_sweep(live: Path) -> None:
    """The second cell is half measured: each message took the delay of both links."""
    rows = MESSAGES + MESSAGES // 2
    store = SampleStore(len(PAIRS_MS) * MESSAGES, live / "samples.bin")
    now = perf_counter_ns()
    for row in range(rows):
        store["due_ns"][row] = store["sent_ns"][row] = now
        store["received_ns"][row] = now + round(sum(PAIRS_MS[row // MESSAGES]) * 1e6)
        store["state"][row] = ANSWERED
    parameters = {
        "scenario": "qos-delay", "pairs_ms": PAIRS_MS, "qos": [0], "intervals_ms": [10], "messages": MESSAGES,
        "deadline_ms": 5000,
    }  # fmt: skip
    begin(live, "qos-delay", RUN_ID, parameters)
