"""What a run says is missing at the bridge, and why the bridge was away."""

import json
from typing import Any

import pytest

from looplab import __version__
from looplab.experiments.loop import readiness
from looplab.experiments.loop.bridge_news import (
    AWAY,
    BROKER_RESTARTED,
    NETWORK,
    REBOOTED,
    RESTARTED,
    absences,
    noise,
    unnoticed,
)
from looplab.experiments.loop.document import delayed
from looplab.experiments.loop.parameters import read_parameters
from looplab.experiments.loop.protocol import TOPIC_BRIDGE_INFO, TOPIC_BRIDGE_STATUS, TOPIC_ROBOT_STATUS
from looplab.experiments.loop.table import table
from looplab.run.samples import ANSWERED, LATE, WAITING

GOOD = {
    "version": __version__, "tcp_nodelay": False, "framing": "burst", "subscription_qos": 0, "mqtt_version": "3.1.1",
    "robot_fault": "",
}  # fmt: skip


def missing(robot: str, status: str = "online", robot_status: str = "online", **info: Any) -> readiness.Missing | None:
    """What a run in thesis fidelity misses; "" for a status that nobody told."""
    parameters = read_parameters({"SCENARIO": "scenario1", "ROBOT": robot, "COMMAND": info.pop("command", "T")})
    told = {TOPIC_BRIDGE_STATUS: status, TOPIC_ROBOT_STATUS: robot_status}
    retained = {topic: text.encode() for topic, text in told.items() if text}
    return readiness.missing(parameters, {**retained, TOPIC_BRIDGE_INFO: json.dumps({**GOOD, **info}).encode()})


CASES: dict[str, tuple[dict[str, Any], str, bool]] = {
    "never connected": ({"status": "", "robot_status": ""}, "No bridge has connected from the Pi", False),
    "went away": ({"status": "offline"}, "was here and went away", False),
    "robot offline": ({"robot_status": "offline", "robot_fault": "no such device"}, "offline (no such device)", False),
    "robot never told": ({"robot_status": ""}, "its robot is offline", False),
    "another framing": ({"framing": "line"}, "ROBOT_FRAMING=line, this run with ROBOT_FRAMING=burst", True),
    "another socket option": ({"tcp_nodelay": True}, "TCP_NODELAY=on, this run with TCP_NODELAY=off", True),
    "other legs": ({"subscription_qos": 2}, "QOS_LEGS=all, this run with QOS_LEGS=request", True),
    "another MQTT": ({"mqtt_version": "5"}, "MQTT_VERSION=5, this run with MQTT_VERSION=3.1.1", True),
    "topic aliases": ({"topic_alias": True}, "TOPIC_ALIAS=on, this run with TOPIC_ALIAS=off", True),
    "an older version": ({"version": "0.0.9"}, "of version 0.0.9", True),
    "a version that tells none": ({"version": None}, "of version None", True),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_missing_at_the_pi_has_its_words_and_remedy(case: str) -> None:
    told, problem, settled = CASES[case]
    found = missing("remote", **told)
    assert found is not None
    assert problem in found.problem
    assert found.settled is settled
    assert found.remedy


def test_a_missing_robot_on_usb_has_its_words_and_remedy() -> None:
    found = missing("usb", robot_status="offline", robot_fault="cannot open /dev/ttyUSB0: no such device")
    assert found is not None
    assert "cannot open /dev/ttyUSB0" in found.problem
    assert "docs/serial.md" in found.remedy


@pytest.mark.parametrize(
    ("robot", "told"),
    [
        ("virtual", {}), ("usb", {}), ("remote", {}),
        ("remote", {"robot_status": "offline", "command": "E"}),
        # The treatments alone judge a bridge of this machine.
        ("virtual", CASES["another framing"][0]), ("virtual", CASES["an older version"][0]),
    ],
)  # fmt: skip
def test_nothing_is_missing_where_all_is_there_that_a_run_needs(robot: str, told: dict[str, Any]) -> None:
    assert missing(robot, **told) is None


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
    info = readiness.bridge_info({TOPIC_BRIDGE_INFO: payload})
    stored = json.dumps(info, allow_nan=False)
    assert len(stored) < 1000
    assert all(ord(letter) < 128 for letter in stored)
    assert "\\u001b" not in stored
    for name, value in info.items():
        assert name.isprintable()
        assert isinstance(value, str | int | dict | None), name
        if isinstance(value, dict):
            assert all(isinstance(count, int) for count in value.values())
    assert readiness.other_bridges([payload, b'{"instance": "a"}'] * 2, answered_twice=True) is not None
    remote = {TOPIC_BRIDGE_STATUS: b"online", TOPIC_BRIDGE_INFO: payload}
    assert readiness.missing(read_parameters({"SCENARIO": "scenario1", "ROBOT": "remote"}), remote) is not None


def test_two_bridges_are_told_where_answers_came_twice() -> None:
    first, second = (json.dumps({**GOOD, "instance": name}).encode() for name in "ab")
    (found,) = readiness.other_bridges([first, second, first], answered_twice=True)
    assert (found.wanted, found.verified, found.required) == ("one", False, True)
    assert found.found.startswith("2: stop the second Pi")
    # One that took another's place answers nothing twice; answers of one bridge may be said again by somebody else.
    assert readiness.other_bridges([first, second], answered_twice=False) == []
    assert readiness.other_bridges([first, first, b"{", b"{}"], answered_twice=True) == []


def event(at_ns: int, status: str, instance: str = "a", boot: str = "x") -> dict[str, Any]:
    return {"at_ns": at_ns, "topic": TOPIC_BRIDGE_STATUS, "status": status, "instance": instance, "boot": boot}


ROBOT = {"at_ns": 1, "topic": TOPIC_ROBOT_STATUS, "status": "offline"}


@pytest.mark.parametrize(
    ("back", "cause"), [("ax", NETWORK), ("bx", RESTARTED), ("by", REBOOTED)], ids=["network", "restart", "reboot"]
)
def test_why_the_bridge_was_away_is_told_by_who_comes_back(back: str, cause: str) -> None:
    events = [event(1, "online"), ROBOT, event(5, "offline"), event(9, "online", *back)]
    assert absences(events) == [{"from_ns": 5, "to_ns": 9, "cause": cause}]
    (of_broker,) = absences(events, broker_restarted=True)
    assert of_broker["cause"] == (BROKER_RESTARTED if cause == NETWORK else cause)


def test_a_bridge_that_comes_back_never_or_twice() -> None:
    assert absences([event(1, "online"), event(5, "offline")]) == [{"from_ns": 5, "to_ns": None, "cause": AWAY}]
    twice = [event(1, "online"), event(2, "offline"), event(3, "online", "b"), event(4, "offline"), event(5, "online")]
    assert [absence["from_ns"] for absence in absences(twice)] == [2, 4]
    assert absences([event(1, "offline"), event(2, "online")]) == [], "it had not been here yet"


def test_a_disconnect_that_the_broker_did_not_tell_is_told() -> None:
    def said(disconnects: Any, instance: str = "a") -> dict[str, Any]:
        return {"instance": instance, "disconnects": disconnects}

    assert unnoticed(said(1), said(3), 0) == 2
    assert unnoticed(said(1), said(3), 1) == 1, "one of them is known"
    assert unnoticed(said(1), said(0, "b"), 0) == 0, "another bridge"
    heard = [{"instance": name, "robot_faults": {"noise": n}} for name, n in (("a", 2), ("a", 5), ("b", 4))]
    assert [noise(heard[0], after) for after in (heard[1], heard[2], heard[0], {})] == [3, 4, 0, 0]
    assert unnoticed(said(0), said(None), 0) == unnoticed({}, {}, 0) == 0
    assert "The robot's port brought unreadable bytes 3 times: a bad cable" in words(unreadable=3)
    assert "The bridge reconnected once without the broker reporting a disconnect" in words(reconnects=1)


def words(**notes: Any) -> str:
    """Return what the table of a run without cells says."""
    run = {"scenario": "s", "fidelity": "thesis", "run_id": "r", "cells": [], "valid": True}
    return " ".join(table({**run, **notes}).split())


def test_the_table_tells_of_absences() -> None:
    assert not any(word in words() for word in ("reconnected", "unreadable", "away", "came late"))
    found = [{"from_ns": 0, "to_ns": 3_400_000_000, "cause": NETWORK}, {"from_ns": 5, "to_ns": None, "cause": AWAY}]
    text = words(absences=found)
    assert f"The bridge was away for 3.4 s, as the broker saw it: {NETWORK}." in text
    assert f"The bridge was away: {AWAY}." in text
    many = words(absences=found * 500)
    assert "It was away 990 more times (run.json has them)." in many
    assert len(many) < 40 * 80


def test_late_answers_are_told_by_where_they_waited() -> None:
    """Of five messages, the second and third waited on the way, the fourth at the robot; the fifth never came."""
    second = 1_000_000_000
    columns = {
        "state": [ANSWERED, LATE, LATE, LATE, WAITING],
        "sent_ns": [0, 0, 0, 0, 0],
        "received_ns": [second // 2, 3 * second, 2 * second, 2 * second, -1],
        "robot_ns": [4_000_000, 4_000_000, 5_000_000, 2 * second - 1, -1],
    }
    found = delayed(columns, range(5))
    assert found == {"n": 2, "longest_T_us": 3_000_000.0, "longest_R_us": 5_000.0}
    assert delayed(columns, range(1)) == {}
    text = "2 answers came late, up to 3000 ms after their requests, though the bridge had each within 5.0 ms"
    assert text in words(delayed=found)
