"""The terminal view without a terminal: what it reads, and that it fits whatever it is given."""

import io
import json
import re
from pathlib import Path
from time import perf_counter_ns

import pytest
from looplab.lab.watch.data import parse
from looplab.lab.watch.plot import plot
from rich.console import Console
from support.run_files import Writer, publish_state, store
from support.simulated_delay_runs import write_delay_run

from looplab.errors import UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter.host import HostWatch
from looplab.exporter.server import Exporter
from looplab.lab.commands.watch import Screen, exporter_url
from looplab.run.samples import ANSWERED, SampleStore


def whole_page(live: Path, results: Path) -> str:
    exporter = Exporter(live, results, EXPERIMENTS, None, HostWatch({}))
    exporter.stored.refresh()
    return exporter.whole_page().decode()


@pytest.fixture
def live_page(tmp_path: Path) -> str:
    """A running run of two cells, and an older stored one of another scenario."""
    live, results = tmp_path / "live", tmp_path / "results"
    live.mkdir()
    store(results, "20250101T000000Z-scenario7")
    writer = Writer(live)
    for row in range(30):
        writer.send(row)
        writer.answer(row, ANSWERED, total_ms=5 + row % 7, robot_ms=4)
    found = [
        {"what": "stress load", "wanted": "running", "found": "not running", "verified": False, "required": True},
        {"what": "robot framing", "wanted": "burst", "found": "burst", "verified": True, "required": True},
    ]
    publish_state(live, "running", treatments=found)
    return whole_page(live, results)


def screen(page: str, width: int = 80, height: int = 24, **options: object) -> list[str]:
    """The lines a terminal of that size would show."""
    out = io.StringIO()
    settings = {"force_terminal": True, "color_system": "truecolor", **options}
    console = Console(file=out, width=width, height=height, **settings)  # type: ignore[arg-type]
    made = Screen(console, "127.0.0.1:9101")
    if page:
        made.take(page)
    console.print(made.draw())
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in out.getvalue().rstrip("\n").split("\n")]


def test_active_run_is_chosen_over_stored_ones(live_page: str) -> None:
    view = parse(live_page)
    assert (view.scenario, view.active, view.sent, view.planned) == ("scenario1", True, 30, 40)
    assert view.current == ("10", "0")
    assert view.cells["20", "0"].outcomes["answered"] == 20
    assert view.cells["20", "0"].quantiles_s["T", "1"] == pytest.approx(0.011)
    curve = view.cells["10", "0"].curves["O"]
    assert curve[-1] == (1.0, 1.0)
    assert [share for _s, share in curve] == sorted(share for _s, share in curve)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (100, 30), (80, 20), (40, 10), (300, 100)])
def test_it_fits(live_page: str, width: int, height: int) -> None:
    lines = screen(live_page, width, height)
    assert all(len(line) <= width for line in lines)
    assert len(lines) <= max(height, 14)


def test_what_is_shown_in_80_by_24(live_page: str) -> None:
    lines = screen(live_page)
    text = "\n".join(lines)
    assert len(lines) <= 24
    assert lines[0].startswith("scenario1 thesis  measuring")
    assert "30/40" in lines[0]
    assert "75%" in lines[0]
    assert "100%" in text
    assert "10 ms, QoS 0" in text
    assert re.search(r"20 ms +0 +20 +20 +0 +0 +0", text)
    assert "Not as wanted: stress load, wanted running, found not running" in text
    assert "broker down" in text
    assert any(0x2800 < ord(character) < 0x2900 for character in text)


def test_without_utf8_or_colours_letters_draw_the_curves(live_page: str) -> None:
    lines = screen(live_page, color_system=None)
    assert all(ord(character) < 128 for line in lines for character in line)
    drawn = "".join(line.partition("|")[2] for line in lines if "|" in line)
    assert {"R", "O"} <= set(drawn)


def test_nothing_running_says_what_to_do() -> None:
    text = " ".join(screen(""))
    assert "./lab run" in text
    assert "LAB_EXPORTER_PORT" in text


@pytest.mark.parametrize("goes_on", [True, False])
def test_old_picture_stays_and_says_so(live_page: str, goes_on: bool) -> None:
    console = Console(file=io.StringIO(), width=80, height=24)
    made = Screen(console, "127.0.0.1:9101")
    made.take(live_page if goes_on else re.sub(r"(loop_run_active\{[^}]*\}) 1", r"\1 0", live_page))
    made.miss("Connection refused")
    with console.capture() as captured:
        console.print(made.draw())
    assert "this picture is old" in captured.get()
    assert "scenario1" in captured.get()
    assert ("The run goes on." in captured.get()) == goes_on


@pytest.mark.parametrize("page", ["\n", "garbage\n{}{}", 'loop_run_info{scenario="a"', "lab_broker_up 1\n"])
def test_a_page_that_says_little_is_survived(page: str) -> None:
    assert "No run yet" in "\n".join(screen(page))


def test_curves_out_of_range_stay_inside() -> None:
    text = plot({"T": [(0.00001, 0.5), (0.0001, 0.0), (1.0, 1.0)]}, 60, 10, braille=True).plain.split("\n")
    assert len(text) == 10
    assert all(len(line) <= 60 for line in text)


def test_a_step_is_drawn_where_it_is() -> None:
    lines = plot({"T": [(0.0001, 0.0), (0.0099, 0.0), (0.0101, 1.0), (1.0, 1.0)]}, 107, 12, braille=False).plain.split(
        "\n"
    )
    bottom, top = lines[10], lines[0]
    # 10 ms is in the middle of the axis.
    assert bottom.rindex("T") == pytest.approx(6 + 50, abs=1)
    assert top.index("T") == pytest.approx(6 + 50, abs=1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "http://127.0.0.1:9101"),
        ({"LAB_EXPORTER_PORT": "9200", "LAB_BIND": "0.0.0.0"}, "http://127.0.0.1:9200"),
        ({"LAB_BIND": "192.0.2.7"}, "http://192.0.2.7:9101"),
    ],
)
def test_address_comes_from_env(settings: dict[str, str], expected: str) -> None:
    assert exporter_url(settings) == expected


@pytest.mark.parametrize("port", ["x", "0", "70000", "-1", "²"])
def test_wrong_port_names_its_variable(port: str) -> None:
    with pytest.raises(UsageError) as caught:
        exporter_url({"LAB_EXPORTER_PORT": port})
    assert "LAB_EXPORTER_PORT" in caught.value.message


def test_the_sweep_of_qos_delay_is_shown_by_links(tmp_path: Path) -> None:
    live, results = tmp_path / "live", tmp_path / "results"
    live.mkdir()
    write_delay_run(results, pairs=((2, 18),), messages=200)
    parameters = {
        "scenario": "qos-delay", "fidelity": "corrected", "pairs_ms": [[2, 18], [20, 20]], "qos": [0],
        "intervals_ms": [10], "messages": 20, "repetitions": 1, "deadline_ms": 5000,
    }  # fmt: skip
    columns = SampleStore(40, live / "samples.bin")
    now = perf_counter_ns()
    for row in range(30):
        columns["due_ns"][row] = columns["sent_ns"][row] = now
        columns["received_ns"][row], columns["state"][row] = now + 20_000_000 * (1 + row // 20), ANSWERED
    run = {"experiment": "qos-delay", "state": "running", "run_id": "20260301T000000Z-qos-delay", "treatments": []}
    (live / "state.json").write_text(json.dumps({**run, "parameters": parameters}))
    page = whole_page(live, results)
    view = parse(page)
    assert (view.scenario, view.fidelity, view.sent, view.planned) == ("qos-delay", "corrected", 30, 40)
    assert view.current == ("20-20", "0")
    lines = screen(page)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any("links of 20-20 ms, QoS 0" in line for line in lines)
    (row,) = (line for line in lines if line.startswith("20-20 ms") or " 20-20 ms " in line)
    assert "40.00" in row
    (live / "state.json").unlink()
    assert any("2-18 ms" in line for line in screen(whole_page(live, results)))
