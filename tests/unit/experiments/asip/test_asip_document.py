"""run.json and the CSV files of asip: every test counted once, edges in cycles, the wire's time of counted bytes."""

import json
from pathlib import Path

from support.simulated_asip_runs import write_throughput_run

from looplab.experiments.asip import EXPERIMENT, LatencyCell
from looplab.experiments.asip.document import COLUMNS, AsipMeasurement, copies, files, planned
from looplab.experiments.asip.oscilloscope import BoardCounts
from looplab.experiments.asip.parameters import AsipParameters
from looplab.experiments.asip.treatments import judge
from looplab.run.cells import entry
from looplab.run.life import run_table
from looplab.run.samples import ANSWERED, LATE, WAITING, SampleStore


def parameters(**changes: str) -> AsipParameters:
    settings = {"MESSAGES": "4", "LANGUAGES": "python", "TRANSPORTS": "serial,mqtt", "ORDER": "published"}
    return AsipParameters.read({**settings, **changes})


def store_with(rows: dict[int, dict[str, int]], p: AsipParameters) -> SampleStore:
    store = SampleStore(p.samples, more=COLUMNS)
    for row, values in rows.items():
        for name, value in values.items():
            store[name][row] = value
    return store


def test_each_test_has_one_line_and_one_outcome() -> None:
    p = parameters()
    sent = {"due_ns": 1_000, "sent_ns": 2_000}
    rows = {
        4: {**sent, "received_ns": 3_402_000, "state": ANSWERED, "edge_ns": 3_500_000},
        5: {**sent, "state": WAITING},
        6: {**sent, "received_ns": 1_500_002_000, "state": LATE},
    }
    store = store_with(rows, p)
    (samples,) = files(p)
    lines = list(samples.lines(store, p.rows(1)))
    assert lines == [
        "python,mqtt,one,0,4,1000,2000,3402000,3400.000,3500.000,answered",
        "python,mqtt,one,0,5,1000,2000,,,,lost",
        "python,mqtt,one,0,6,1000,2000,1500002000,1500000.000,,late",
    ]
    assert len(samples.header.split(",")) == len(lines[0].split(","))
    measured = planned(p, p.cells[1])
    measured.more |= {"wire_us": 3230.0, **copies([3_500_000, None])}
    cell = entry(measured, store, p.rows(1))
    assert (cell["tests"], cell["answered"], cell["late"], cell["lost"]) == (3, 1, 1, 1)
    assert (cell["edge_tests"], cell["edge_answered"], cell["edge_lost"]) == (2, 1, 1)
    assert cell["edge_latency_us"]["avg"] == 3500.0
    assert cell["wire_us"] == 3230.0
    assert cell["valid"]


def test_a_cell_with_a_fitted_adapter_is_marked() -> None:
    for adapter, mark in (("ftdi-16", "*"), ("none", "")):
        p = parameters(ADAPTER=adapter)
        run = {"cells": [entry(planned(p, p.cells[0]), store_with({}, p), p.rows(0))]}
        assert LatencyCell(run["cells"][0]).text == f"python, serial, one{mark}"
        assert ["fitted" in line for line in LatencyCell.remarks(run)][:1] == [True] * len(mark)


def test_a_search_keeps_every_step() -> None:
    p = parameters(SCENARIO="asip-throughput")
    tried = ((100, 200, 200), (300, 600, 590), (200, 400, 400))
    rows = {
        at: {
            "sent_ns": 1, "frequency_uhz": hz * 1_000_000, "edges_in": into, "edges_out": out,
            "state": ANSWERED if into == out else WAITING,
        }
        for at, (hz, into, out) in enumerate(tried)
    }  # fmt: skip
    store = store_with(rows, p)
    (samples,) = files(p)
    assert list(samples.lines(store, p.rows(0)))[1] == "python,serial,one,0,1,-1,1,,300.000000,10,600,590,lost"
    cell = entry(planned(p, p.cells[0]), store, p.rows(0))
    assert (cell["tests"], cell["lost"], cell["tracked_hz"], cell["steps"]) == (3, 1, None, [])


def test_a_board_behind_real_time_is_seen() -> None:
    p = parameters(TRANSPORTS="serial")
    behind = AsipMeasurement(p.cells[0], board=BoardCounts({"max": 2_500.0, "mean": 10.0}, 0.0, "atmega2560"))
    clock = judge(p, [], [behind])[-1]
    assert (clock.what, clock.verified, clock.required) == ("board clock", False, False)
    assert "2.50 ms" in clock.found
    assert judge(p, [], [AsipMeasurement(p.cells[0])])[-1].found == "a real board"


def test_a_search_that_found_nothing_says_how_to_find_more(tmp_path: Path) -> None:
    run = json.loads((write_throughput_run(tmp_path) / "run.json").read_text())
    run["cells"][0] |= {"tracked_hz": None, "untracked_hz": 400.0}
    run["cells"][1] |= {"tracked_hz": None, "untracked_hz": 400.0, "valid": False}
    lines = run_table(EXPERIMENT, run).splitlines()
    assert "python, serial: not even 400.0 Hz was copied whole; set `LOW_HZ` below it." in lines
    assert sum("not even" in line for line in lines) == 1
    assert max(map(len, lines)) <= 80
