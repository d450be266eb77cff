"""Each factor is judged by what the parts report, not by what they were given."""

from collections.abc import Sequence
from typing import Any

import pytest

from looplab.experiments.asip import AsipCell, LatencyCell
from looplab.experiments.asip.oscilloscope import BoardCounts
from looplab.experiments.asip.parameters import AsipParameters
from looplab.experiments.asip.treatments import judge, judge_board, judge_reports
from looplab.run.cells import CellResult
from looplab.treatments.judgement import Treatment


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


def counted(*, held_us: float = 0.0, processor: str = "atmega2560", lag_us: float = 90.0) -> BoardCounts:
    return BoardCounts(lag_us, held_us, processor)


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
    found = judged("USB adapter", {"ADAPTER": adapter}, [counted(held_us=held_us)])
    assert (found.verified, found.required) == (verified, True)
    assert f"{held_us / 1000:.2f} ms" in found.found


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


@pytest.mark.parametrize(("board", "verified"), [("mega", True), ("uno", False)])
def test_a_board_is_known_by_its_processor(board: str, verified: bool) -> None:
    found = judged("board", {"BOARD": board}, [counted(processor="atmega2560")])
    assert (found.verified, found.found) == (verified, "atmega2560")


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


def test_a_board_behind_real_time_is_seen() -> None:
    clock = judged("board clock", {}, [counted(lag_us=2_500.0)])
    assert (clock.verified, clock.required) == (False, False)
    assert "2.50 ms" in clock.found


@pytest.mark.parametrize("what", ["board", "USB adapter", "board clock"])
@pytest.mark.parametrize(("robot", "why"), [("usb", "a real board"), ("virtual", "not measured")])
def test_an_unknown_treatment_makes_nothing_invalid(what: str, robot: str, why: str) -> None:
    found = judged(what, {"ROBOT": robot})
    assert (found.found, found.verified, found.required) == (why, False, False)
