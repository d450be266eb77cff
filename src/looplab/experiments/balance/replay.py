"""The plant and the controller driven by the times of a stored run: what its latencies and losses do to control.

Each message of samples.csv brings a command to the wheels and takes a reading, both when the robot has its byte. Half
of O is taken for the way there. A lost message does neither, although its request may have arrived: the worst case. Of
a live run, too, only the times are taken.
"""

import csv
import itertools
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from looplab.experiments.balance import figures
from looplab.experiments.balance.plant import GAINS, STEP_S, Plant, answer, law, reading, volts_of

BYTE_S = 0.00017  # one byte at 57600 baud, as the board makes it
# A replay repeats a run's messages until it lasts so long; a robot that stands must stand for a minute.
WHOLE_S, SEARCH_S = 60.0, 20.0
# An animation has a frame each so many seconds, and so many frames.
FRAME_S, FRAMES = 0.02, 1000
# The largest extra delay is searched in this step, up to this bound.
EXTRA_STEP_S, EXTRA_MOST_S = 0.001, 0.256


class ReplayedMessage(NamedTuple):
    """One message: when it left, when the robot had it and when its answer came, in s; None if it never did."""

    sent_s: float
    at_robot_s: float | None
    received_s: float | None


Trace = Sequence[ReplayedMessage]
# Tilt in mrad, way in mm and voltage in tenths, each FRAME_S: what an animation shows.
Frames = Sequence[tuple[int, int, int]]


class Track(NamedTuple):
    """What a replay did: for each reading its moment, the tilt and the command that the wheels had until then."""

    moments_s: list[float]
    tilts_rad: list[float]
    levels: list[int]
    fallen: bool = False
    frames: Frames = ()


# At one moment an answer comes before the next request, and the wheels turn before the reading.
_RECEIVED, _SENT, _WHEELS, _READ = range(4)


def read(folder: Path) -> Iterator[tuple[dict[str, Any], tuple[ReplayedMessage, ...]]]:
    """Yield each cell of a stored run (its entry in run.json) and its messages; repetitions follow without a pause."""
    document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    traces: dict[tuple[float, int], dict[str, list[ReplayedMessage]]] = {}
    with (folder / "samples.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = float(row["interval_ms"]), int(row["qos"])
            if row["sent_ns"]:
                traces.setdefault(key, {}).setdefault(row["repetition"], []).append(_message(row))
    for cell in document["cells"]:
        interval_s = float(cell["interval_ms"]) / 1000
        repetitions = traces.get((float(cell["interval_ms"]), int(cell["qos"])), {})
        yield cell, tuple(joined(list(repetitions.values()), interval_s))


def _message(row: dict[str, str]) -> ReplayedMessage:
    sent_s = float(row["sent_ns"]) / 1e9
    if not row["received_ns"] or row["outcome"] not in ("answered", "late"):
        return ReplayedMessage(sent_s, None, None)
    way_s = float(row["overhead_us"]) / 2e6
    return ReplayedMessage(sent_s, sent_s + way_s + BYTE_S, float(row["received_ns"]) / 1e9)


def joined(traces: Sequence[Trace], interval_s: float, length_s: float = 0.0) -> Trace:
    """Return the traces one after the other, an interval apart and from 0 on.

    With `length_s`, again and again until then, where it ends.
    """
    messages: list[ReplayedMessage] = []
    start_s = 0.0
    while any(traces) and (not messages or start_s < length_s):
        for trace in filter(None, traces):
            shift_s = start_s - trace[0].sent_s
            messages += [
                ReplayedMessage(one.sent_s + shift_s, _later(one.at_robot_s, shift_s), _later(one.received_s, shift_s))
                for one in trace
            ]
            start_s = messages[-1].sent_s + interval_s
    return [one for one in messages if one.sent_s < length_s] if length_s else messages


def _later(moment_s: float | None, shift_s: float) -> float | None:
    return None if moment_s is None else moment_s + shift_s


def replay(trace: Trace, gains: Sequence[float] = GAINS, extra_s: float = 0.0) -> Track:
    """Drive plant and controller by a trace; with `extra_s`, the wheels follow each command that much later.

    Such a replay ends where the robot falls.
    """
    plant, track = Plant(), Track([], [], [])
    frames: list[tuple[int, int, int]] = []
    readings: dict[int, str] = {}
    commands: dict[int, int] = {}
    newest, steps = -1, 0
    for moment_s, kind, at in _events(trace, extra_s):
        due = int(moment_s / STEP_S)
        while len(frames) < FRAMES and len(frames) * FRAME_S <= moment_s:
            frame = int(len(frames) * FRAME_S / STEP_S)
            plant.advance(frame - steps)
            steps = max(steps, frame)
            frames.append(_frame(plant))
        plant.advance(due - steps)
        steps = due
        if plant.fallen and extra_s:
            # A search needs no other figure.
            break
        if kind == _RECEIVED:
            newest = max(newest, at)
        elif kind == _SENT and newest >= 0:
            commands[at] = law(gains, reading(readings[newest]))
        elif kind == _WHEELS and at in commands:
            plant.command(commands[at])
        elif kind == _READ:
            readings[at] = answer(plant.state)
            if plant.released:
                track.moments_s.append(moment_s)
                track.tilts_rad.append(reading(readings[at]).tilt_rad)
                track.levels.append(plant.level)
    return track._replace(fallen=plant.fallen, frames=frames)


def _frame(plant: Plant) -> tuple[int, int, int]:
    state = plant.state
    return round(1000 * state.tilt_rad), round(1000 * state.x_m), round(10 * volts_of(plant.level))


def _events(trace: Trace, extra_s: float) -> list[tuple[float, int, int]]:
    events = [(one.sent_s, _SENT, at) for at, one in enumerate(trace)]
    for at, (_sent_s, at_robot_s, received_s) in enumerate(trace):
        if at_robot_s is not None and received_s is not None:
            events += [(at_robot_s + extra_s, _WHEELS, at), (at_robot_s, _READ, at), (received_s, _RECEIVED, at)]
    return sorted(events)


def largest_extra_s(trace: Trace, gains: Sequence[float] = GAINS) -> float | None:
    """Return the largest extra delay that the robot survives, by bisection to EXTRA_STEP_S; None if it falls anyway."""
    if replay(trace, gains).fallen:
        return None
    stands, falls = 0, round(EXTRA_MOST_S / EXTRA_STEP_S)
    while falls - stands > 1:
        middle = (stands + falls) // 2
        stands, falls = (stands, middle) if replay(trace, gains, middle * EXTRA_STEP_S).fallen else (middle, falls)
    return stands * EXTRA_STEP_S


class Replayed(NamedTuple):
    """The figures of one cell, replayed; `extra_ms` is the largest extra delay it survives, None if it falls anyway."""

    interval_ms: float
    qos: int
    seconds: float
    upright_s: float
    angle_rms_rad: float
    cost: float
    age_ms: float
    age_peak_ms: float
    misses: int
    lost: int
    extra_ms: float | None


@cache
def replayed(
    interval_ms: float,
    qos: int,
    trace: tuple[ReplayedMessage, ...],
    gains: tuple[float, ...] = GAINS,
) -> tuple[Replayed, Frames]:
    """Return figures and frames of one cell, its messages repeated to WHOLE_S; the search repeats them to SEARCH_S."""
    interval_s = interval_ms / 1000
    messages = joined([trace], interval_s, WHOLE_S)
    track = replay(messages, gains)
    _, upright_s, angle_rms_rad, cost = figures.control(*track[:3])
    mean_s, peak_s = figures.age((one.at_robot_s, one.received_s) for one in trace if one.at_robot_s and one.received_s)
    extra_s = None if track.fallen else largest_extra_s(joined([trace], interval_s, SEARCH_S), gains)
    found = Replayed(
        interval_ms,
        qos,
        messages[-1].sent_s,
        upright_s,
        angle_rms_rad,
        cost,
        1000 * mean_s,
        1000 * peak_s,
        figures.misses(in_time(trace)),
        sum(one.received_s is None for one in trace),
        None if extra_s is None else 1000 * extra_s,
    )
    return found, track.frames


def in_time(trace: Trace) -> list[bool]:
    """Return of each message but the last whether its answer came before the next one left."""
    return [one.received_s is not None and one.received_s <= after.sent_s for one, after in itertools.pairwise(trace)]
