"""The search for the highest sustained rate of a cell, and for the part that limits it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import linear_regression
from typing import Any

from looplab.experiments.twin.document import queue
from looplab.experiments.twin.parameters import TwinParameters
from looplab.experiments.twin.sending import Sent
from looplab.run.accounting import Columns, summarise
from looplab.run.samples import ANSWERED, NOT_SENT

# A queue grows if it gains more than this share of the rate in the second half of a step.
GROWTH_SHARE = 0.02
# The staircase begins at this share of the rate that the overloaded parts stored.
FIRST_SHARE = 0.8
# The first stride multiplies the rate by STRIDE. Each turn takes its square root, until it is below CLOSE.
STRIDE, CLOSE = 1.5, 1.06
# The limit is confirmed by one of REPEATS steps, at it or at a lower rate: REPEATS rates, each divided by LOWER.
REPEATS, LOWER = 3, 1.1
# A part may be the limit if it uses at least this share of its capacity.
USED_UP = 0.6
# A part above NEARLY_ALL is named before a machine whose processors are busy for NO_ROOM of the time.
NEARLY_ALL, NO_ROOM = 0.85, 0.95
# `limited_by` is TRIED if the highest rate was sustained, and UNKNOWN if no part was used up.
TRIED, UNKNOWN = "tried", "unknown"


@dataclass(frozen=True)
class SearchStep:
    """One rate of a search as it went; `sustained` if no queue grew, delays stayed short and all was stored."""

    rate_per_s: float
    sent: int
    stored_per_s: float
    queue_growth_per_s: float | None
    delay_p99_us: float | None
    lateness_p99_us: float | None
    sustained: bool


def judge_step(p: TwinParameters, columns: Columns, rows: range, rate_per_s: float) -> SearchStep:
    state = columns["state"]
    sent = [row for row in rows if state[row] != NOT_SENT]
    stored = [row for row in sent if state[row] == ANSWERED]
    sent_ns = [columns["sent_ns"][row] for row in sent]
    committed_ns = [columns["received_ns"][row] for row in stored]
    growth = _growth(sent_ns, committed_ns)
    delay_us = summarise([columns["received_ns"][row] - columns["sent_ns"][row] for row in stored])["p99"]
    late_us = summarise([columns["sent_ns"][row] - columns["due_ns"][row] for row in sent])["p99"]
    limit_us = p.delay_limit_ms * 1000
    kept_pace = late_us is not None and late_us < limit_us
    steady = growth is not None and growth <= max(GROWTH_SHARE * rate_per_s, 1.0)
    sustained = kept_pace and steady and len(stored) == len(sent) and delay_us is not None and delay_us < limit_us
    while_sending = sum(time_ns <= sent_ns[-1] for time_ns in committed_ns) if sent_ns else 0
    lasted_s = (sent_ns[-1] - sent_ns[0]) / 1e9 if len(sent_ns) > 1 else 0.0
    stored_per_s = while_sending / lasted_s if lasted_s else 0.0
    return SearchStep(round(rate_per_s, 3), len(sent), round(stored_per_s, 3), growth, delay_us, late_us, sustained)


Attempt = Callable[[float], tuple[SearchStep, dict[str, Any]]]


def search(p: TwinParameters, attempt: Attempt) -> dict[str, Any]:
    """Return `limit_per_s` (0.0: none is sustained), `steps`, and `limited_by` with `evidence` of the lowest overload.

    `attempt` makes one step at a rate. The first one asks for more than can be stored: what is stored then shows where
    the staircase begins. The last one confirms the limit; its rows are those of the cell.
    """
    made = [attempt(float(p.max_rate_per_s))]
    if made[0][0].sustained:
        limit_per_s, why = made[0][0].rate_per_s, {**made[0][1], "limited_by": TRIED}
    else:
        limit_per_s = _confirmed(attempt, _staircase(p, attempt, made), made)
        overloads = [(step.rate_per_s, cause) for step, cause in made if not step.sustained]
        # An overload with a known cause explains more than a stall.
        _rate, why = min(overloads, key=lambda one: (one[1].get("limited_by", UNKNOWN) == UNKNOWN, one[0]))
    return {"limit_per_s": round(limit_per_s, 3), "steps": [asdict(step) for step, _cause in made], **why}


def _staircase(p: TwinParameters, attempt: Attempt, made: list[tuple[SearchStep, dict[str, Any]]]) -> float:
    """Go up from a rate that is sustained and down from another; return the sustained one of the last turn.

    A step that fails by chance near the limit only turns the staircase: the mean of many searches stays where it is.
    """
    rate, stride, good = _within(p, FIRST_SHARE * made[0][0].stored_per_s), STRIDE, 0.0
    before: SearchStep | None = None
    while stride >= CLOSE and len(made) < p.search_steps:
        made.append(attempt(rate))
        step = made[-1][0]
        if before and step.sustained != before.sustained:
            stride **= 0.5
            good = rate if step.sustained else before.rate_per_s
        elif step.sustained:
            good = rate
        before = step
        rate = _within(p, rate * stride if step.sustained else rate / stride)
    return good or rate


def _confirmed(attempt: Attempt, good: float, made: list[tuple[SearchStep, dict[str, Any]]]) -> float:
    """Return the rate of a last step that is sustained: `good`, or somewhat less; 0.0 if none is in REPEATS steps."""
    if made[-1][0].sustained and made[-1][0].rate_per_s == round(good, 3):
        return good
    for rate in (good / LOWER**lower for lower in range(REPEATS)):
        for _ in range(REPEATS):
            made.append(attempt(rate))
            if made[-1][0].sustained:
                return rate
    return 0.0


def _within(p: TwinParameters, rate: float) -> float:
    return min(max(rate, 1.0), float(p.max_rate_per_s))


def limit(p: TwinParameters, sent: Sent, step: SearchStep) -> dict[str, Any]:
    """Return `limited_by` and `evidence`: each part's share of its capacity in a step.

    That is one processor for each broker, worker of the instance and session of the database, all processors for the
    machine; a worker's time for sleep, session and store; the disk's for fsync; the window of unconfirmed messages.
    """
    evidence = {**_largest(sent.figures["cpu_share"]), **_spent(sent)}
    evidence["device"] = evidence.pop("controller", 0.0)
    if (step.lateness_p99_us or 0.0) > p.delay_limit_ms * 1000:
        # The device fell behind its schedule, so it is the limit at this rate.
        evidence["device"] = 1.0
    if p.max_inflight:
        evidence["inflight"] = sent.figures["unacknowledged_max"] / p.max_inflight
    evidence = {name: round(min(share, 1.0), 4) for name, share in evidence.items()}
    return {"limited_by": _limiting(evidence), "evidence": evidence}


def _largest(shares: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of each part's busiest process."""
    known = {name: value for name, value in shares.items() if value != []}
    return {name: float(max(value) if isinstance(value, list) else value) for name, value in known.items()}


def _spent(sent: Sent) -> dict[str, float]:
    """Return how much of its time a worker spent sleeping, for sessions and in commits, and the disk in writing."""
    if not sent.lasted_s:
        return {}
    spent = {name: time_s / sent.lasted_s / sent.order.count for name, time_s in sent.figures["instance_s"].items()}
    return {**spent, "fsync": sent.figures["fsync"]["seconds"] / sent.lasted_s}


def _limiting(evidence: Mapping[str, float]) -> str:
    """Return the part that is used up, UNKNOWN where none is.

    A worker that waits for commits most of the time is limited by what a commit consists of. A full window is the limit
    only where no part behind it is used up: every slow instance fills it.
    """
    alone = {name: share for name, share in evidence.items() if name not in ("store", "fsync", "inflight", "machine")}
    most = max(alone, key=lambda name: alone[name])
    if alone[most] >= NEARLY_ALL:
        return most
    if evidence.get("machine", 0.0) >= NO_ROOM:
        return "machine"
    if alone[most] >= USED_UP:
        return most
    if evidence.get("store", 0.0) >= USED_UP:
        return "fsync" if evidence.get("fsync", 0.0) >= evidence.get("database", 0.0) else "database"
    return "inflight" if evidence.get("inflight", 0.0) >= 1.0 else UNKNOWN


def _growth(sent_ns: list[int], committed_ns: list[int]) -> float | None:
    """Return by how many messages a second the queue grew in the second half of the sending; None for too few."""
    if len(sent_ns) < 2:
        return None
    middle, end = (sent_ns[0] + sent_ns[-1]) // 2, sent_ns[-1]
    events = zip(*queue(sent_ns, committed_ns), strict=True)
    seen = [((at_ns - middle) / 1e9, length) for at_ns, length in events if middle <= at_ns <= end]
    if len({at_s for at_s, _length in seen}) < 2:
        return None
    return round(linear_regression(*zip(*seen, strict=True)).slope, 3)
