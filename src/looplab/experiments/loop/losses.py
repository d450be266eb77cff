"""Why messages were lost: evidence collected during a run, one cause for each lost message.

`merged`: the bridge took its answer for another's. `disconnected`: sent while the controller or the bridge had no
connection to the broker. `expired`: answered after the time limit; a run listens for it at its end, too. `unknown`:
none of these was found.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from looplab.run.accounting import Columns
from looplab.run.samples import WAITING

CAUSES = ("merged", "disconnected", "expired", "unknown")
# A connection that did not come back.
NEVER_NS = 2**63 - 1


class Losses:
    """The causes of what was lost among `rows`, all of a run.

    `merged` and `expired` are sequences of messages, `returns_ns` when a connection was there again.
    """

    def __init__(
        self,
        columns: Columns,
        rows: range,
        merged: Collection[int],
        expired: Collection[int],
        returns_ns: Iterable[int],
    ) -> None:
        self._columns, self._merged, self._expired = columns, merged, expired
        self._returns_ns = sorted(returns_ns)
        self._last_sent_ns = _last_sent_ns(columns, rows, self._returns_ns)

    def count(self, rows: Iterable[int]) -> dict[str, int]:
        """Return how many of `rows` were lost by each of CAUSES; they add up to the lost ones."""
        found = Counter(self._cause(row) for row in rows if self._columns["state"][row] == WAITING)
        return {cause: found[cause] for cause in CAUSES}

    def unknown(self, rows: Iterable[int]) -> list[int]:
        """Return which of `rows` were lost for no known cause."""
        return [row for row in rows if self._columns["state"][row] == WAITING and self._cause(row) == "unknown"]

    def _cause(self, row: int) -> str:
        if row in self._merged:
            return "merged"
        if self._is_cut_off(self._columns["sent_ns"][row]):
            return "disconnected"
        return "expired" if row in self._expired else "unknown"

    def _is_cut_off(self, sent_ns: int) -> bool:
        """Return whether nothing came back from then until the next return of a connection.

        A broker notices a lost connection seconds late; the answers that stop show it at once.
        """
        at = bisect_left(self._returns_ns, sent_ns)
        return at < len(self._returns_ns) and sent_ns > self._last_sent_ns[at]


def _last_sent_ns(columns: Columns, rows: range, returns_ns: Sequence[int]) -> list[int]:
    """Return when the last message left that was answered before each return."""
    last = [-1] * (len(returns_ns) + 1)
    for row in rows if returns_ns else ():
        if (received_ns := columns["received_ns"][row]) >= 0:
            at = bisect_left(returns_ns, received_ns)
            last[at] = max(last[at], columns["sent_ns"][row])
    return list(accumulate(last, max))
