"""Runs as a handout's or a plan's commands make them, simulated with the effect that is taught, and a right form."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from looplab.exercises.exercise import Exercise, Value
from looplab.spec.parameters import RunParameters
from support.handouts import runs_of
from support.run_files import edited, treatment
from support.simulated_runs import LIKE_THE_THESIS, simulated_cell, write_run

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
LIKE = {**LIKE_THE_THESIS, "scenario7": (9500, 0.3, 4290), "scenario8": (9500, 0.3, 4290)}
# How many times as long a message takes at each QoS where TCP_NODELAY is off.
SLOWER = {"request": {0: 1, 1: 1.2, 2: 8}, "all": {0: 1, 1: 8, 2: 16}}


def make_runs(results: Path, command: str) -> list[Path]:
    """Write the runs of one `./lab run …`, newer than all that are there."""
    folders = []
    for asked in runs_of(command):
        start = FIRST + timedelta(minutes=len(list(results.iterdir())))
        folder = _write(results, f"{start:%Y%m%dT%H%M%SZ}", json.loads(json.dumps(asked.as_json())), asked)
        if "LAB_OWN=" in command:
            # The student's Compose file gives the broker what the thesis's has not.
            policy = treatment("broker scheduling policy", "SCHED_FIFO 90") | {"verified": False}
            with edited(folder) as run:
                others = [one for one in run["treatments"] if one["what"] != policy["what"]]
                run |= {"treatments": [*others, policy], "valid": False, "invalid_because": [policy["what"]]}
        folders.append(folder)
    return folders


def _write(results: Path, start: str, parameters: dict[str, Any], asked: RunParameters) -> Path:
    median_us, spread, robot_us = LIKE[asked.scenario]
    rng = np.random.default_rng([*start.encode()])
    # No answer that is read off one run is right for the next ones.
    median_us *= (1 + 0.12 * (len(list(results.iterdir())) % 5)) * (0.2 if asked.fidelity == "corrected" else 1)
    cells, lost = {}, {}
    for key in (cell.key for cell in asked.cells):
        slower = 1 if parameters["tcp_nodelay"] else SLOWER[parameters["qos_legs"]][key[1]]
        cells[key] = simulated_cell(rng, asked.repetitions, asked.messages, median_us * slower, robot_us, spread)
        lost[key] = 5 if parameters["robot_framing"] == "burst" and key[0] < 4 else 0
    applied = {"broker": asked.priority_broker, "controller": asked.priority_controller}
    policies = {
        f"{role} scheduling policy": f"SCHED_FIFO {fifo}" if fifo and asked.apply_priority else "SCHED_OTHER"
        for role, fifo in applied.items()
    }
    permitted = "rtprio limit 90; SYS_NICE given"
    found = {
        **policies, "stress load": "running", "flood load": "running", "robot framing": parameters["robot_framing"],
        "broker TCP_NODELAY": "on" if parameters["tcp_nodelay"] else "off",
        "controller TLS": "TLSv1.3" if parameters["broker_tls"] else "off",
        "bridge TLS": "TLSv1.3" if parameters["broker_tls"] else "off", "broker": parameters["broker"],
        "own client's requests": "all of them", "own client's interval": "20 ms", "own bridge's answers": "all of them",
        "answers": "the request's QoS",
        "broker may use real-time priority": permitted,
        "controller may use real-time priority": permitted,
    }  # fmt: skip
    changes = {"treatments": [treatment(what, state) for what, state in found.items()]}
    return write_run(
        results, asked.scenario, fidelity=asked.fidelity, start=start, cells=cells, lost=lost, changes=changes,
        parameters=parameters,
    )  # fmt: skip


def fill_form(root: Path, exercise: Exercise, made: Sequence[Path]) -> None:
    """Write the right answers into a new form, read off the `run.json` of the last of `made` that fits each run."""
    documents = [json.loads((folder / "run.json").read_text()) for folder in made]
    runs = {
        wanted.handle: [
            document for document in documents
            if document["scenario"] == wanted.scenario and wanted.fidelity in ("", document["fidelity"])
            and all(document["parameters"][name] == value for name, value in wanted.parameters.items())
        ][-1]
        for wanted in exercise.runs
    }  # fmt: skip

    def figure(value: Value) -> float:
        cells = {(one["interval_ms"], one["qos"]): one for one in runs[value.run]["cells"]}
        name, _, quantile = value.name.partition(".")
        if value.cell.key not in cells:
            return math.nan
        cell = cells[value.cell.key]
        return cell[f"{name}_us"][quantile] / 1000 if quantile else cell[name]

    answers: dict[str, Any] = {}
    for question in exercise.questions:
        if question.figure:
            over = figure(question.figure.over) if question.figure.over else 1
            answers[question.name] = round(figure(question.figure) / over, 3)
        elif question.right:
            answers[question.name] = question.right
        elif question.found:
            what, run = question.found.what, runs[question.found.run]
            state = next(str(one["found"]) for one in run["treatments"] if one["what"] == what)
            answers[question.name] = next(key for key, option in question.options.items() if option == state)
        else:
            largest = {option: figure(value) for option, value in question.largest.items()}
            answers[question.name] = max(largest or question.options, key=lambda option: largest.get(option, 0))
    form = root / f"answers/{exercise.name}.yaml"
    form.parent.mkdir(exist_ok=True)
    form.write_text(yaml.safe_dump(answers))
