"""A run of asip: where its board is, run.json and its files, and each factor judged by what the parts report."""

import socket
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from support.places import ROOT
from support.run_files import fill

from looplab.errors import MachineError, UsageError
from looplab.experiments.asip import AsipCell, LatencyCell, placement
from looplab.experiments.asip.bridge import read_settings
from looplab.experiments.asip.document import COLUMNS, copies, files, planned
from looplab.experiments.asip.oscilloscope import BoardCounts
from looplab.experiments.asip.parameters import AsipParameters
from looplab.experiments.asip.treatments import judge, judge_board, judge_reports
from looplab.run.cells import CellResult, entry
from looplab.run.samples import ABSENT, ANSWERED, LATE, WAITING, SampleStore
from looplab.treatments.judgement import Treatment


def test_each_test_has_one_line_and_one_outcome() -> None:
    p = AsipParameters.read({"MESSAGES": "4", "LANGUAGES": "python", "TRANSPORTS": "serial,mqtt", "ORDER": "published"})
    store = SampleStore(p.samples, more=COLUMNS)
    answer = {"received_ns": [3_402_000, ABSENT, 1_500_002_000], "edge_ns": [3_500_000, ABSENT, ABSENT]}
    fill(store, range(4, 7), due_ns=1000, sent_ns=2000, state=[ANSWERED, WAITING, LATE], **answer)
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


def judged(
    what: str,
    variables: dict[str, str],
    boards: Sequence[BoardCounts] = (),
    scans: Sequence[Any] = (),
    measured: Sequence[CellResult[AsipCell]] = (),
) -> Treatment:
    p = AsipParameters.read({"LANGUAGES": "python", "TRANSPORTS": "serial", **variables})
    found = [*(judge(p, scans) if scans else ()), judge_reports(p, measured), *judge_board(p, boards)]
    return next(one for one in found if one.what == what)


@pytest.mark.parametrize(
    ("adapter", "held_us", "verified"),
    [
        ("none", 0, True), ("none", 1_990, False),
        ("atmega16u2", 4_090, True), ("atmega16u2", 2_900, False), ("atmega16u2", 0, False),
        ("ch340", 1_990, True), ("ch340", 0, False), ("ch340", 2_900, False),
        ("ftdi-1", 2_900, True), ("ftdi-1", 1_990, False),
        ("ftdi-16", 17_400, True), ("ftdi-16", 2_900, False),
    ],
)  # fmt: skip
def test_an_adapter_is_known_by_how_long_it_holds_a_byte(adapter: str, held_us: float, verified: bool) -> None:
    found = judged("USB adapter", {"ADAPTER": adapter}, [BoardCounts(90.0, held_us, "atmega2560")])
    assert (found.verified, found.required) == (verified, True)
    assert f"{held_us / 1000:.2f} ms" in found.found


def test_a_board_is_known_by_its_processor_and_its_lag() -> None:
    late = [BoardCounts(2_500.0, 0.0, "atmega2560")]
    boards = [judged("board", {"BOARD": board}, late) for board in ("mega", "uno")]
    assert [(found.verified, found.found) for found in boards] == [(True, "atmega2560"), (False, "atmega2560")]
    clock = judged("board clock", {}, late)
    assert (clock.verified, clock.required) == (False, False)
    assert "2.50 ms" in clock.found


@pytest.mark.parametrize(
    ("reports", "per_s", "verified"),
    [("on", 20.0, True), ("on", 0.0, False), ("on", 12.0, False), ("off", 0.0, True), ("off", 0.5, False)],
)
def test_unasked_reports_are_counted_not_assumed(reports: str, per_s: float, verified: bool) -> None:
    cell = LatencyCell.keyed("python", "serial", "one")
    one = CellResult[AsipCell](cell, {"reports_per_s": per_s})
    found = judged("unasked reports", {"REPORTS": reports}, measured=[one])
    assert (found.verified, found.required) == (verified, True)
    assert not judged("unasked reports", {"REPORTS": reports}, measured=[CellResult(cell)]).required


def scan(limit: float | None = None) -> dict[str, Any]:
    process = {"pid": 7, "started_ticks": 1, "container": {"cpu_limit": limit}, "threads": [], "sockets": []}
    found = {"before": [process], "processes": [process], "refused": []}
    return {"roles": {"controller": found, "python": found}}


@pytest.mark.parametrize(
    ("wanted", "limit", "verified"), [("0", None, True), ("0.25", 0.25, True), ("0.25", None, False)]
)
def test_a_clients_quota_is_that_of_its_container(wanted: str, limit: float | None, verified: bool) -> None:
    found = judged("python client processors", {"CLIENT_CPUS": wanted}, scans=[scan(limit)])
    assert (found.verified, found.required) == (verified, True)


def test_a_bridge_on_a_pi_is_taken_at_its_word() -> None:
    remote = {"ROBOT": "remote", "LAB_PI": "192.0.2.7", "TRANSPORTS": "tcp", "FIDELITY": "corrected"}
    found = judged("bridge TCP_NODELAY", remote, scans=[scan()])
    assert (found.wanted, found.found, found.required) == ("on", "on, as it reports", False)


@pytest.mark.parametrize("what", ["board", "USB adapter", "board clock"])
@pytest.mark.parametrize(("robot", "why"), [("usb", "a real board"), ("virtual", "not measured")])
def test_an_unknown_treatment_makes_nothing_invalid(what: str, robot: str, why: str) -> None:
    found = judged(what, {"ROBOT": robot})
    assert (found.found, found.verified, found.required) == (why, False, False)


ON_PI = {"ROBOT": "remote", "LAB_PI": "192.0.2.7", "TRANSPORTS": "tcp,mqtt"}


def test_a_board_on_a_pi_is_reached_at_its_bridge_there() -> None:
    p = AsipParameters.read(ON_PI)
    found = placement.addresses(p, ON_PI)
    assert (found["tcp"], found["mqtt"]) == ("192.0.2.7:5000", "broker:1883/asip/pi")
    assert "ASIP_TOPIC: asip/pi" in (ROOT / "rpi/compose.yaml").read_text()
    assert placement.addresses(AsipParameters.read({}), {})["tcp"] == "asip-bridge:5000"
    assert {cell.placement for cell in p.cells} == {"bridge"}


@pytest.mark.parametrize("other", [{"TRANSPORTS": "serial"}, {"LAB_PI": ""}])
def test_what_a_board_on_a_pi_does_not_have_is_wrong_use(other: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        AsipParameters.read({**ON_PI, **other})


def test_a_bridge_on_a_pi_must_have_the_broker_and_the_settings_of_the_run() -> None:
    there = AsipParameters.read(ON_PI)

    def check(p: AsipParameters, broker: str, **variables: str) -> None:
        """Check what answers as a bridge with these variables does."""
        facts = {"broker": broker, **read_settings({"BROKER_HOST": "broker", **variables}).variables()}
        answer = " ".join(f"{name}={value}" for name, value in facts.items()).encode()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 0))
            answering = threading.Thread(target=lambda: sock.sendto(answer, sock.recvfrom(100)[1]), daemon=True)
            answering.start()
            placement.check_bridge(p, "127.0.0.1:{1}".format(*sock.getsockname()))

    with pytest.raises(MachineError, match="has not connected to the broker"):
        check(there, "off")
    check(there, "on")
    check(AsipParameters.read({**ON_PI, "TRANSPORTS": "tcp"}), "off")
    for variables, named in (({"FIDELITY": "corrected"}, "TCP_NODELAY=on"), ({"QOS": "1"}, "QOS=1")):
        with pytest.raises(UsageError, match=f"runs with {named}, this run with"):
            check(there, "on", **variables)
        # Here Compose gives both the same, and the treatments are judged by what they did.
        check(AsipParameters.read({"TRANSPORTS": "tcp,mqtt"}), "on", **variables)
