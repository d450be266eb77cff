"""Why messages were lost: evidence collected during a run, one cause for each lost message.

`merged`: the bridge took its answer for another's. `disconnected`: sent while the controller or the bridge had no
connection to the broker. `expired`: answered after the time limit; a run listens for it at its end, too. `unknown`:
none of these was found.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from looplab.run.accounting import Columns
from looplab.run.samples import WAITING

CAUSES = ("merged", "disconnected", "expired", "unknown")
# A connection that did not come back.
NEVER_NS = 2**63 - 1


@dataclass
class Evidence:
    """What the samples do not show: sequences, and in `returns_ns` when a connection was there again."""

    merged: set[int] = field(default_factory=set)
    expired: set[int] = field(default_factory=set)
    returns_ns: list[int] = field(default_factory=list)


class Losses:
    """The causes of what was lost among `rows`, all of a run."""

    def __init__(self, columns: Columns, rows: range, evidence: Evidence) -> None:
        self._columns, self._evidence = columns, evidence
        self._away = _Spans(columns, rows, evidence.returns_ns)

    def count(self, rows: Iterable[int]) -> dict[str, int]:
        """Return how many of `rows` were lost by each of CAUSES; they add up to the lost ones."""
        state, counts = self._columns["state"], dict.fromkeys(CAUSES, 0)
        for row in rows:
            if state[row] == WAITING:
                counts[self._cause(row)] += 1
        return counts

    def unknown(self, rows: Iterable[int]) -> list[int]:
        """Return which of `rows` were lost for no known cause."""
        return [row for row in rows if self._columns["state"][row] == WAITING and self._cause(row) == "unknown"]

    def _cause(self, row: int) -> str:
        if row in self._evidence.merged:
            return "merged"
        if self._columns["sent_ns"][row] in self._away:
            return "disconnected"
        return "expired" if row in self._evidence.expired else "unknown"


class _Spans:
    """Times from which nothing came back: each ends at one of `ends_ns` and begins after the last message that was
    answered before it. A broker notices a lost connection seconds late; the answers that stop show it at once."""

    def __init__(self, columns: Columns, rows: range, ends_ns: Sequence[int]) -> None:
        self._ends = sorted(ends_ns)
        self._after: list[int] = []
        if self._ends:
            last = [-1] * (len(self._ends) + 1)
            sent, received = columns["sent_ns"], columns["received_ns"]
            for row in rows:
                if received[row] >= 0:
                    at = bisect_left(self._ends, received[row])
                    last[at] = max(last[at], sent[row])
            self._after = list(accumulate(last, max))

    def __contains__(self, sent_ns: int) -> bool:
        at = bisect_left(self._ends, sent_ns)
        return at < len(self._ends) and sent_ns > self._after[at]
