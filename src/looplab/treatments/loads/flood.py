"""An MQTT flood through the broker under test, by the lab's own flood or inovex/mqtt-stresser."""

import re
from collections.abc import Mapping, Sequence
from math import ceil

from looplab.treatments.loads.load import Found, Load, Setting, count, published
from looplab.treatments.scans import Scan

# A round: FLOOD_RAMPUP_SIZE clients start every FLOOD_RAMPUP_DELAY, each publishes its FLOOD_MESSAGES at once.
# Of that rate, so much must arrive in every cell: clients that wait for the broker start the next round later.
SHARE_OF_RATE = 0.5
# Beyond this rate it is the machine, not the options, that limits a flood.
MOST_PER_S = 500.0
# A flood comes in bursts, and at the end of a round it pauses: cells are judged together until they have seen this many
# times FLOOD_RAMPUP_DELAY, of which two may fall into pauses.
STEPS, PAUSES = 5, 2
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# The broker's count is its own clock's: two of them are further apart.
_LEAST_SPAN_S = 0.1


class Flood(Load):
    """Pauses between its rounds, so that some scans may miss it; the broker's count of messages shows its strength."""

    def strengths(self, cells: Sequence[tuple[Scan, Scan]], settings: Mapping[str, str]) -> list[Found]:
        """Return messages a second beside the run's own, of as many neighbouring cells as bursts and pauses need."""
        step_s = read_duration_s(settings["FLOOD_RAMPUP_DELAY"])
        clients, size = int(settings["FLOOD_CLIENTS"]), int(settings["FLOOD_RAMPUP_SIZE"])
        messages = clients * int(settings["FLOOD_MESSAGES"])
        round_s = ceil(clients / size) * step_s
        rate = min(MOST_PER_S, messages / round_s if round_s else MOST_PER_S)
        found = []
        for first, last in together([_span_s(*cell) for cell in cells], STEPS * step_s):
            counted = published(cells[first][0], cells[last - 1][1])
            arrived, own, span_s = counted or (0, 0, 0.0)
            span_s = max(span_s, _LEAST_SPAN_S)
            # One message at least: a flood of which nothing arrived is none, however short the run is.
            least = max(1.0, SHARE_OF_RATE * rate * (span_s - PAUSES * step_s))
            name = f"cell {last}" if last - first == 1 else f"cells {first + 1} to {last}"
            found.append(Found(f"{name} of {len(cells)}", (arrived - own) / span_s, least / span_s))
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
        # What is left is too short by itself.
        begin = ranges.pop()[0] if ranges else 0
        ranges.append((begin, len(spans_s)))
    return ranges


def read_duration_s(text: str) -> float:
    """Return the seconds of a duration as Go writes it, e.g. 1m30s."""
    return sum(float(number) * _UNITS_S[unit] for number, unit in re.findall(r"([0-9.]+)(ns|us|ms|s|m|h)", text))


def _span_s(before: Scan, after: Scan) -> float:
    found = published(before, after)
    return found[2] if found else 0.0


def _duration(published_value: str, option: str) -> Setting:
    # As Go reads them.
    return Setting(published_value, r"([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+", "a time with its unit, e.g. 100s", option)


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
        "FLOOD_CLIENTS": count(100, "-num-clients"),
        "FLOOD_MESSAGES": count(10, "-num-messages"),
        "FLOOD_RAMPUP_SIZE": count(10, "-rampup-size"),
        "FLOOD_RAMPUP_DELAY": _duration("1s", "-rampup-delay"),
        "FLOOD_GLOBAL_TIMEOUT": _duration("180s", "-global-timeout"),
        "FLOOD_TIMEOUT": _duration("100s", "-timeout"),
    },
)
