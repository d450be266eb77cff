"""An MQTT flood through the broker under test, by the lab's own flood or inovex/mqtt-stresser."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from looplab.treatments.loads.load import COUNT, Found, HostLoad, Measure, Setting, constant, published
from looplab.treatments.scans import Scan

# A round: so many clients start in each second, and each publishes its FLOOD_MESSAGES at once.
BATCH, STEP_S = 10, 1
# Of that rate, so much must arrive in every cell: clients that wait for the broker start the next round later.
SHARE_OF_RATE = 0.5
# And so much in any window of a cell: a flood that pauses for most of one is none, whatever the cell got on the whole.
SHARE_OF_WINDOW, WINDOW_S = 0.25, 10.0
# Beyond this rate it is the machine, not the options, that limits a flood.
MOST_PER_S = 500.0
# A flood comes in bursts, and at the end of a round it pauses: cells are judged together until they have seen this many
# seconds, of which two may fall into pauses.
SEEN_S, PAUSES_S = 5, 2
# The broker's count is its own clock's: two of them are further apart.
_LEAST_SPAN_S = 0.1


class Flood(HostLoad):
    """Pauses between its rounds, so that some scans may miss it; the broker's count of messages shows its strength."""

    def measures(self, cells: Sequence[tuple[Scan, Scan]], settings: Mapping[str, str]) -> Iterator[Measure]:
        """Yield the messages a second of each cell, and of the weakest window within one."""
        yield from super().measures(cells, settings)
        if per_s := [one for cell in cells for one in windows(*cell, WINDOW_S)]:
            least = SHARE_OF_WINDOW * _nominal_per_s(settings) * (1 - PAUSES_S / WINDOW_S)
            wanted = f"{least:.2f} {self.unit} at least in any {WINDOW_S:g} s"
            yield "without a pause", wanted, f"{min(per_s):.2f} {self.unit}", min(per_s) >= least

    def strengths(self, cells: Sequence[tuple[Scan, Scan]], settings: Mapping[str, str]) -> list[Found]:
        """Return messages a second beside the run's own, of as many neighbouring cells as bursts and pauses need."""
        found = []
        for first, last in together([_span_s(*cell) for cell in cells], SEEN_S):
            counted = published(cells[first][0], cells[last - 1][1])
            arrived, own, span_s = counted or (0, 0, 0.0)
            span_s = max(span_s, _LEAST_SPAN_S)
            # One message at least: a flood of which nothing arrived is none, however short the run is.
            least = max(1.0, SHARE_OF_RATE * _nominal_per_s(settings) * (span_s - PAUSES_S))
            name = f"cell {last}" if last - first == 1 else f"cells {first + 1} to {last}"
            found.append(Found(f"{name} of {len(cells)}", (arrived - own) / span_s, least / span_s))
        return found


def windows(before: Scan, after: Scan, least_s: float) -> list[float]:
    """Return messages a second beside the run's own in each window of at least `least_s` between two scans.

    A window lies between two of the broker's own reports. The run's messages count as evenly spread.
    """
    counted = published(before, after)
    if counted is None or counted[2] <= 0:
        return []
    own_per_s = counted[1] / counted[2]
    first_ns, last_ns = int(before["published_clock_ns"]), int(after["published_clock_ns"])
    reports = [(count, at_ns) for count, at_ns in after.get("published_counts", ()) if first_ns <= at_ns <= last_ns]
    found, end = [], 0
    for first, begin_ns in reports:
        while end < len(reports) and reports[end][1] - begin_ns < least_s * 1e9:
            end += 1
        if end < len(reports):
            found.append((reports[end][0] - first) / (reports[end][1] - begin_ns) * 1e9 - own_per_s)
    return found


def together(spans_s: Sequence[float], least_s: float) -> list[tuple[int, int]]:
    """Return ranges [first, last) of neighbours that last at least `least_s` together, or all if none does.

    >>> together([1.0, 1.0, 1.0, 5.0, 1.0], 2.0)
    [(0, 2), (2, 5)]
    """
    ranges: list[tuple[int, int]] = []
    first = 0
    for last in range(1, len(spans_s) + 1):
        if sum(spans_s[first:last]) >= least_s:
            ranges.append((first, last))
            first = last
    if first < len(spans_s):
        # The rest is too short to be a window of its own.
        begin = ranges.pop()[0] if ranges else 0
        ranges.append((begin, len(spans_s)))
    return ranges


def _nominal_per_s(settings: Mapping[str, str]) -> float:
    """Return messages a second by the options."""
    clients = int(settings["FLOOD_CLIENTS"])
    round_s = ceil(clients / BATCH) * STEP_S
    return min(MOST_PER_S, clients * int(settings["FLOOD_MESSAGES"]) / round_s)


def _span_s(before: Scan, after: Scan) -> float:
    found = published(before, after)
    return found[2] if found else 0.0


LOAD = Flood(
    "flood",
    ("mqtt-stresser", "flood"),
    order=2,
    steady=False,
    counted=True,
    neutral=("-broker", "-username", "-password"),
    unit="messages/s",
    weak="the flood was paused or starved, or the broker refuses it: see `docker compose logs` of the flood",
    settings={
        "FLOOD_CLIENTS": Setting("100", *COUNT, "-num-clients"),
        "FLOOD_MESSAGES": Setting("10", *COUNT, "-num-messages"),
        "FLOOD_RAMPUP_SIZE": constant(f"{BATCH}", "-rampup-size"),
        "FLOOD_RAMPUP_DELAY": constant(f"{STEP_S}s", "-rampup-delay"),
        "FLOOD_GLOBAL_TIMEOUT": constant("180s", "-global-timeout"),
        "FLOOD_TIMEOUT": constant("100s", "-timeout"),
        "FLOOD_REPEAT": Setting("true", r"true|false", "true (round after round) or false (one round)", ""),
    },
)
