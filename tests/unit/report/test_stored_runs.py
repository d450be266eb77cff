"""Whatever lies in results/, with any value anywhere: each folder is used or named with what it means."""

import contextlib
import copy
import itertools
import json
import math
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.every_experiment import SMALL
from support.places import ROOT
from support.reports import shown, write
from support.run_files import edited
from support.simulated_runs import simulated_cell, write_run
from support.tables import rows

from looplab.errors import LabError, UsageError
from looplab.exercises.exercise import read_exercise
from looplab.exercises.marking import mark
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.commands.show import show
from looplab.lab.site import newest
from looplab.report.stored import StoredRun, read_run
from looplab.system.machine_facts import UNKNOWN

Spoil = Callable[[Path], object]
# The thesis has no figure of it: a report on it is written at once.
NOT_DRAWN = "scenario7"


def small_run(results: Path, start: str = "20260101T000000Z", scenario: str = "scenario1", **changes: Any) -> Path:
    rng = np.random.default_rng(1)
    return write_run(
        results, scenario, start=start, cells={(20.0, 0): simulated_cell(rng, 4, 20, 900, 4200)}, **changes
    )


def edit(place: str, value: Any = None) -> Spoil:
    """Set a place in run.json, e.g. cells.0.lost; None takes it out."""

    def spoil(folder: Path) -> None:
        *path, last = [int(step) if step.isdigit() else step for step in place.split(".")]
        with edited(folder) as target:
            for step in path:
                target = target[step]
            target[last] = value
            if value is None:
                del target[last]

    return spoil


def put(name: str, content: bytes) -> Spoil:
    return lambda folder: (folder / name).write_bytes(content)


def rewrite(change: Callable[[str], str]) -> Spoil:
    """Write samples.csv again as `change` makes it."""

    def spoil(folder: Path) -> None:
        before = (folder / "samples.csv").read_text()
        assert change(before) != before
        (folder / "samples.csv").write_text(change(before))

    return spoil


def put_latency(latencies: str) -> Spoil:
    """Write over T, R and O of the last message."""
    return rewrite(lambda text: re.sub(r"[^,]*,[^,]*,[^,]*,(answered,[0-9]*\n)$", rf"{latencies},\1", text))


CUT_LINES = rewrite(lambda text: "".join(text.splitlines(keepends=True)[:-3]))
TWICE = {"interval_ms": 20, "qos": 0} | dict.fromkeys(("sent", "answered", "late", "lost", "robot_errors"), 0)
SPOILT: dict[str, tuple[Spoil, str, str]] = {
    "nothing in it": (lambda f: [path.unlink() for path in f.iterdir()], "foreign", "neither run.json nor samples.csv"),
    "no document": (lambda f: (f / "run.json").unlink(), "interrupted", "never ended"),
    "no JSON": (put("run.json", b'{"schema": 1, '), "damaged", "run.json cannot be read"),
    "binary": (put("run.json", b"\xff\xfe\x00"), "damaged", "run.json cannot be read"),
    "a list": (put("run.json", b"[]"), "foreign", "schema None"),
    "newer schema": (edit("schema", 2), "foreign", "update it for newer runs"),
    "other lab": (edit("experiment", "something-else"), "experiment", "This lab has no experiment something-else."),
    "cells no list": (edit("cells", {}), "damaged", "`cells`: {} is not of type 'array'"),
    "counts": (edit("cells.0.lost", 3), "damaged", "do not add up"),
    "count negative": (edit("cells.0.sent", -1), "damaged", "`cells[0].sent`: -1 is less than the minimum of 0"),
    "a cell twice": (edit("cells", [TWICE, TWICE]), "damaged", "A cell is listed twice"),
    "treatments": (edit("treatments", ["x"]), "damaged", "`treatments[0]`: 'x'"),
    "no samples": (lambda f: (f / "samples.csv").unlink(), "damaged", "samples.csv is missing"),
    "samples cut at a line": (CUT_LINES, "damaged", "disagree"),
    "samples cut in a line": (rewrite(lambda text: text[:-40]), "damaged", "not whole"),
    "samples empty": (put("samples.csv", b""), "damaged", "cannot be read"),
    "samples binary": (put("samples.csv", b"\x00\xff" * 100), "damaged", "cannot be read"),
    "outcome unknown": (rewrite(lambda text: text.replace("answered", "answerd", 1)), "damaged", "samples.csv"),
    "outcome edited": (rewrite(lambda text: text.replace("answered", "lost", 1)), "damaged", "disagree"),
    "latency missing": (put_latency(",,"), "damaged", "not finite numbers"),
    "latency edited": (put_latency("4300.000,4200.000,100.000"), "damaged", "edited"),
    **{
        f"{name} edited": (edit(f"cells.0.O_us.{name}", -5.0), "damaged", f"O {name} at")
        for name in ("min", "max", "avg", "p50", "p95", "p99")
    },
}


SOUND = "20260101T000000Z"


def start_of(how: str) -> str:
    """Each spoilt run has a minute of its own."""
    return f"20260202T00{list(SPOILT).index(how):02}00Z"


def test_a_report_uses_the_sound_run_and_names_the_others(results: Path, tmp_path: Path) -> None:
    """All others are newer, each spoilt in its own way."""
    small_run(results, SOUND)
    for how, (spoil, _kind, _word) in SPOILT.items():
        spoil(small_run(results, start_of(how)))
    assert write(results, tmp_path / "out") == 0
    page = (tmp_path / "out/index.html").read_text()
    listed = {row["run_id"]: row for row in rows(tmp_path / "out/runs.csv")}
    sound = listed.pop(f"{SOUND}-scenario1")
    del sound["run_id"], sound["remark"]
    assert [*sound.values()] == ["scenario1", "thesis", "yes", "valid"]
    assert len(listed) == len(SPOILT)
    for how, (_spoil, kind, word) in SPOILT.items():
        row = listed[f"{start_of(how)}-scenario1"]
        assert (row["used"], row["state"], word in row["remark"]) == ("no", kind, True), (how, row)
        told = next(entry for entry in re.split(r"<(?:li|tr)\b", page) if row["run_id"] in entry)
        assert kind in told


def test_a_named_run_that_cannot_be_used_and_no_run_are_exit_code_1(results: Path, tmp_path: Path) -> None:
    small_run(results).rename(results / ".20260101T000000Z-scenario1.partial")
    assert write(results, tmp_path / "out") == 1
    assert "in progress" in (tmp_path / "out/index.html").read_text()
    good, bad = (small_run(results, start, NOT_DRAWN) for start in ("20260101T000000Z", "20260202T000000Z"))
    (bad / "samples.csv").unlink()
    assert write(results, tmp_path / "a", good.name) == 0
    assert write(results, tmp_path / "b", good.name, bad.name) == 1
    for folder, names in ((results, ["nonsense"]), (tmp_path / "none", [])):
        with pytest.raises(UsageError):
            write(folder, tmp_path / "c", *names)
    assert not (tmp_path / "c").exists()


def test_runs_unlike_the_newest_are_named(results: Path, tmp_path: Path) -> None:
    for start in ("20260101T000000Z", "20260301T000000Z"):
        small_run(results, start, NOT_DRAWN)
    small_run(results, "20260201T000000Z", NOT_DRAWN, parameters={"link": "wifi"})
    assert write(results, tmp_path / "out") == 0
    runs = (tmp_path / "out/runs.csv").read_text()
    assert runs.count(",yes,valid,") == 2
    assert re.search(r"20260201T000000Z-scenario7,scenario7,thesis,no,set aside,.*LINK", runs)
    # Naming both does not leave one out in silence either.
    names = ["20260101T000000Z-scenario7", "20260301T000000Z-scenario7"]
    assert write(results, tmp_path / "both", *names) == 0
    assert (tmp_path / "both/runs.csv").read_text().count("scenario7,thesis") == 2


def image(number: str, own: bool = False) -> dict[str, Any]:
    return {"reference": "a/b:1", "id": f"sha256:{number * 64}", "origin": "local", "own": own}


BEFORE = {"images": {"MOSQUITTO_IMAGE": {"reference": "a/b:1", "id": "sha256:1", "origin": "built"}}}


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({"versions": {"broker": "1.6.10"}}, {"versions": {"broker": "2.0.22"}}, "broker version"),
        ({"images": {"flood": image("1")}}, {"images": {"flood": image("2")}}, "flood image"),
        ({"images": {"stress": image("1")}}, {"images": {"stress": image("2", own=True)}}, "stress image"),
        # Of the same revision, which is compared.
        ({"images": {"bridge": image("1", own=True)}}, {"images": {"bridge": image("2", own=True)}}, ""),
        ({"images": {"prometheus": image("1")}}, {"images": {"prometheus": image("2")}}, ""),
        # What nobody recorded, or an older lab by its variables, tells nothing apart.
        ({"images": {"broker": image("1")}}, {}, ""),
        ({"versions": {"broker": "2.0.22"}}, {"versions": {"broker": ""}}, ""),
        (BEFORE, {"images": {"MOSQUITTO_IMAGE": {**BEFORE["images"]["MOSQUITTO_IMAGE"], "id": "sha256:2"}}}, ""),
        ({"power_source": "mains"}, {"power_source": "battery"}, "power_source"),
        ({"engine": "28.0"}, {"engine": "29.0"}, "engine"),
        ({"engine": "28.0"}, {"engine": UNKNOWN}, ""),
        ({"versions": {"prometheus": "3.7.3"}}, {"versions": {"prometheus": "2.53.3"}}, "prometheus version"),
        ({"boost": "on"}, {}, ""),
        # Counted since boot.
        ({"throttle_count": 3}, {"throttle_count": 9}, ""),
        # A commit that changes nothing that measures; and no commit, though the code is another.
        ({"revision": "1", "code": "a"}, {"revision": "2", "code": "a"}, ""),
        ({"revision": "1", "code": "a"}, {"revision": "1", "code": "b"}, "code"),
        ({"revision": "1", "code": "a"}, {"revision": "2"}, "revision"),
        # One boot is of one machine, and an unknown one of its boot alone.
        ({"machine": "5e", "boot": "b1"}, {"machine": UNKNOWN, "boot": "b1"}, ""),
        ({"machine": UNKNOWN, "boot": "b1"}, {"machine": UNKNOWN, "boot": "b2"}, "machine"),
    ],
)
def test_runs_of_other_parts_or_conditions_are_no_repetitions(
    first: dict[str, Any], second: dict[str, Any], why: str, tmp_path: Path
) -> None:
    for hour, facts in enumerate((first, second)):
        with edited(small_run(tmp_path, f"20260101T0{hour}0000Z", NOT_DRAWN)) as run:
            run["environment"] |= facts
    found = shown(tmp_path)
    (measured,) = found.measured
    assert len(measured.runs) == (1 if why else 2)
    reasons = [reason for _, reason in found.selection.set_aside]
    assert len(reasons) == bool(why)
    assert all(f"a newer run is used, which differs: {why} (" in reason for reason in reasons)


# For each kind of run; a night's worth is LOOPLAB_FUZZ_DOCUMENTS=1000.
DOCUMENTS = int(os.environ.get("LOOPLAB_FUZZ_DOCUMENTS") or 12)
# Of a real run.
MUTATIONS = 20 * DOCUMENTS
REAL = ROOT / "tests/support/stored_runs/20261121T021456Z-scenario1"
STRANGE: list[Any] = [None, "", "x", "<script x>", -1, 0, 1e300, True, [], {}, [None], {"a": []}, "2026", [[1]]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, as the keys that lead to it."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(*path, key) for key in keys] + [p for key in keys for p in places(value[key], (*path, key))]


GONE = object()
STRANGER = [*STRANGE, GONE, GONE, math.inf, 10**400, "\x1b[2J", "20990101T000000Z-scenario1", 0.5]


def mutations(sound: Any, dice: random.Random, values: list[Any]) -> Iterator[Any]:
    """Yield documents with a few values replaced or left out."""
    everywhere = places(sound)
    while True:
        document = copy.deepcopy(sound)
        for path in dice.sample(everywhere, dice.choice([1, 1, 1, 2, 3])):
            target: Any = document
            with contextlib.suppress(KeyError, IndexError, TypeError):
                for key in path[:-1]:
                    target = target[key]
                target[path[-1]] = dice.choice(values)
                if target[path[-1]] is GONE:
                    del target[path[-1]]
        yield document


@pytest.mark.parametrize("kind", SMALL)
def test_any_value_anywhere(tmp_path: Path, kind: str) -> None:
    folder, *_ = SMALL[kind](tmp_path)
    sound = json.loads((folder / "run.json").read_text())
    for document in itertools.islice(mutations(sound, random.Random(kind), STRANGE), DOCUMENTS):
        (folder / "run.json").write_text(json.dumps(document))
        text = shown(tmp_path, kind.removesuffix("-throughput")).text
        assert folder.name in text or str(document.get("run_id")) in text or not document.get("run_id")
        assert "<script x>" not in text


def test_a_damaged_run_ends_no_command(tmp_path: Path) -> None:
    """The commands are report, pages, show and check."""
    folder = tmp_path / "results" / REAL.name
    shutil.copytree(REAL, folder)
    sound = json.loads((folder / "run.json").read_text())
    exercise = read_exercise(ROOT, "scenario1", EXPERIMENTS)
    used = 0
    for number, document in enumerate(itertools.islice(mutations(sound, random.Random(1), STRANGER), MUTATIONS)):
        (folder / "run.json").write_text(json.dumps(document))
        for treatments in (False, True):
            with contextlib.suppress(LabError):
                show(tmp_path, "", treatments=treatments)
        run = read_run(folder, EXPERIMENTS)
        used += isinstance(run, StoredRun)
        if number % 10 == 0:
            mark(exercise, [run], {})
            newest(tmp_path / "results")
        if number == 0:
            write(tmp_path / "results", tmp_path / "report")
    assert MUTATIONS / 10 < used < MUTATIONS / 2


def test_a_run_that_no_report_can_show_is_named(tmp_path: Path) -> None:
    newer = "20261121T021537Z-scenario2"
    for name in (REAL.name, newer):
        shutil.copytree(REAL.parent / name, tmp_path / "results" / name)
    with edited(tmp_path / "results" / newer) as document:
        for cell in document["cells"]:
            del cell["load"]["seconds"]
    assert [run.run_id for run in newest(tmp_path / "results")] == [REAL.name]
    write(tmp_path / "results", tmp_path / "report")
    assert re.search(f"{newer}.*cannot be shown", (tmp_path / "report/index.html").read_text(), re.DOTALL)
    assert REAL.name in (tmp_path / "report/runs.csv").read_text()


def test_a_run_with_the_name_of_another_or_of_a_time_to_come_is_not_the_newest(tmp_path: Path) -> None:
    for name in ("20990101T000000Z-scenario1", "20261122T000000Z-scenario1"):
        shutil.copytree(REAL, tmp_path / "results" / name)
    shutil.copytree(REAL, tmp_path / "results" / REAL.name)
    assert [run.run_id for run in newest(tmp_path / "results")] == [REAL.name]
    future = tmp_path / "results/20990101T000000Z-scenario1/run.json"
    future.write_text(future.read_text().replace(REAL.name, future.parent.name))
    assert [run.run_id for run in newest(tmp_path / "results")] == [REAL.name, future.parent.name]
    assert shown(tmp_path / "results").measured[0].run.run_id == REAL.name
