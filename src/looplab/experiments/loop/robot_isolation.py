"""Whether the host's load reached the virtual robot and its bridge: by the time they take, not by settings."""

from __future__ import annotations

from looplab.experiments.loop.parameters import Parameters
from looplab.experiments.loop.protocol import COMMAND_ROBOT
from looplab.run.accounting import Columns, quantile, service_ns, tally, waited
from looplab.treatments.judgement import Treatment

# R p99 of the virtual robot in scenario 1 on an idle machine (bench/stress.py).
UNLOADED_P99_MS = 5.0
LIMIT = 1.2


def judge(parameters: Parameters, columns: Columns, *, virtual: bool) -> list[Treatment]:
    """R p99 of all answers so far (those of the table) without the wait for earlier requests, against an idle machine.

    Nothing where a real robot answers, or none. Never required: no kernel need allow what keeps the load away.
    """
    if not virtual or parameters.command != COMMAND_ROBOT:
        return []
    _sent, measured, _fates = tally(columns, range(parameters.samples))
    found = sorted(service_ns(columns, measured))
    if not found:
        return []
    p99_ms = quantile(found, 0.99) / 1e6
    queued = waited(columns, measured)
    wanted = f"R p99 at most {UNLOADED_P99_MS * LIMIT:.1f} ms, {LIMIT} x that of an idle machine"
    note = f"without the wait for earlier requests, which {queued} of {len(found)} had" if queued else ""
    return [
        Treatment(
            "robot untouched by the load",
            wanted,
            f"R p99 {p99_ms:.1f} ms",
            p99_ms <= UNLOADED_P99_MS * LIMIT,
            required=False,
            note=note,
        )
    ]
