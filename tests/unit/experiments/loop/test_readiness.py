"""What a run says is missing at the bridge, and why the bridge was away."""

import contextlib
import json
import re
from typing import Any

import pytest

from looplab import __version__
from looplab.errors import MachineError
from looplab.experiments.loop import readiness
from looplab.experiments.loop.bridge_news import AWAY, BROKER_RESTARTED, NETWORK, REBOOTED, RESTARTED, BridgeNews
from looplab.experiments.loop.losses import NEVER_NS
from looplab.experiments.loop.parameters import LoopParameters
from looplab.experiments.loop.protocol import (
    OFFLINE,
    ONLINE,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_STATUS,
    TOPIC_ROBOT_STATUS,
)

# By the robot, what the bridge reports, and what is missing.
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    **{f"nothing at a {robot} robot": (robot, {}, "") for robot in ("virtual", "usb", "remote")},
    # A bridge of this machine is of this version, if its image is.
    "an older version here": ("virtual", {"version": "0.0.9"}, ""),
    "never connected": ("remote", {"status": "", "robot_status": ""}, "did not connect, or went away within"),
    "went away": ("remote", {"status": "offline"}, "did not connect, or went away within"),
    "robot offline": ("remote", {"robot_status": "offline", "robot_fault": "no device"}, "offline (no device)"),
    "robot never told": ("remote", {"robot_status": ""}, "its robot is offline"),
    "an older version": ("remote", {"version": "0.0.9"}, "of version 0.0.9"),
    "a version that tells none": ("remote", {"version": None}, "of version None"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_missing_at_the_pi_has_its_words_and_remedy(case: str) -> None:
    """In thesis fidelity; a status of "" is one that nobody told."""
    robot, changes, problem = CASES[case]
    parameters = LoopParameters.read({"SCENARIO": "scenario1", "ROBOT": robot})
    info = {"version": __version__, "robot_fault": "", "status": "online", "robot_status": "online", **changes}
    told = {TOPIC_BRIDGE_STATUS: info["status"], TOPIC_ROBOT_STATUS: info["robot_status"]}
    heard = {topic: text.encode() for topic, text in told.items() if text}
    with pytest.raises(MachineError, match=re.escape(problem)) if problem else contextlib.nullcontext():
        readiness.check_version(parameters, info)
        readiness.check_robot(parameters, heard, info)


NEST = b'{"instance":' * 800
HOSTILE = [
    b"", b"{", b"3", b"[" * 9000, NEST,
    b'{"instance": NaN, "counts": 1e999, "tls": ["x"], "boot": {"a": {"b": 1}}}', b"\xff\xfe",
    b'{"instance": {"a": 1}, "tls": "\\ud800"}', b'{"counts": {"merged": "many", "x": 3}}',
    b'{"robot_fault": "\\u001b[2J' + b"x" * 5000 + b'", "\\u0007": 1}',
]  # fmt: skip


@pytest.mark.parametrize("payload", HOSTILE, ids=range(len(HOSTILE)))
def test_what_a_stolen_password_may_say_stops_nothing(payload: bytes) -> None:
    """Judged, shown and stored as what an honest bridge says."""
    info = readiness.bridge_info(payload)
    stored = json.dumps(info, allow_nan=False)
    assert len(stored) < 1000
    assert all(ord(letter) < 128 for letter in stored)
    assert "\\u001b" not in stored
    for name, value in info.items():
        assert name.isprintable()
        assert isinstance(value, str | int | dict | None), name
        if isinstance(value, dict):
            assert all(isinstance(count, int) for count in value.values())
    assert len(heard(payload, said()).instances) <= 2
    if info:
        with pytest.raises(MachineError):
            readiness.check_version(LoopParameters.read({"SCENARIO": "scenario1", "ROBOT": "remote"}), info)


def test_answers_of_one_bridge_may_come_twice_and_one_may_take_anothers_place() -> None:
    two = heard(said(0, "b"), said(0, "a"))
    assert readiness.other_bridges(two.instances, answered_twice=False) == []
    assert readiness.other_bridges(heard(said(1), b"{", b"{}").instances, answered_twice=True) == []


def said(disconnects: Any = 0, instance: str = "a", boot: str = "x") -> bytes:
    return json.dumps({"instance": instance, "boot": boot, "disconnects": disconnects, "last_loss": "cut"}).encode()


def heard(*payloads: bytes) -> BridgeNews:
    """What is known after these payloads: of the bridge's status, else its reports; the run begins at the first."""
    news = BridgeNews("run", 10)
    news.take(TOPIC_BRIDGE_INFO.encode(), said())
    news.take(TOPIC_BRIDGE_STATUS.encode(), ONLINE)
    news.begin()
    news.take(TOPIC_ROBOT_STATUS.encode(), OFFLINE)
    for payload in payloads:
        topic = TOPIC_BRIDGE_STATUS if payload in (ONLINE, OFFLINE) else TOPIC_BRIDGE_INFO
        news.take(topic.encode(), payload)
    return news


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize(
    ("back", "cause"),
    [(said(1), NETWORK), (said(0, "b"), RESTARTED), (said(0, "b", "y"), REBOOTED)],
    ids=["network", "restart", "reboot"],
)
def test_the_returned_bridge_shows_why_it_was_away(back: bytes, cause: str, noticed: bool) -> None:
    """The broker need not notice that it was."""
    news = heard(*[OFFLINE] * noticed, back, ONLINE, back)
    (absence,) = news.document(broker_restarted=False)["absences"]
    assert absence["cause"] == cause
    assert [absence["to_ns"]] == news.returns_ns()
    assert (absence["from_ns"] is not None) is noticed
    assert news.losses(broker_restarted=False) == ["cut" if cause == NETWORK else cause]
    assert news.losses(broker_restarted=True) == [BROKER_RESTARTED if cause == NETWORK else cause]


def test_a_bridge_that_comes_back_never_or_twice() -> None:
    away = heard(OFFLINE)
    assert (away.returns_ns(), away.losses(broker_restarted=True)) == ([NEVER_NS], [AWAY])
    twice = heard(OFFLINE, said(0, "b"), ONLINE, OFFLINE, ONLINE)
    assert twice.losses(broker_restarted=False) == [RESTARTED, "cut"]
    assert heard().losses(broker_restarted=False) == heard(ONLINE, said()).returns_ns() == []
