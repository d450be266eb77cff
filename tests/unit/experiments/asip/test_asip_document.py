"""run.json and the CSV files of asip: every test counted once, edges in cycles, the wire's time of counted bytes."""

from looplab.experiments.asip.document import COLUMNS, copies, files, planned
from looplab.experiments.asip.parameters import AsipParameters
from looplab.run.cells import entry
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
    assert (cell["edge_latency_us"]["n"], cell["edge_lost"]) == (1, 1)
    assert cell["edge_latency_us"]["avg"] == 3500.0
    assert cell["wire_us"] == 3230.0
    assert cell["valid"]
