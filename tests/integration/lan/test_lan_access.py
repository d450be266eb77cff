"""Who may come in over the LAN, what each may say, say again and hear: refused is refused, and the broker logs it.

A bridge that cannot reach its broker logs the cause once, and connects again when the cause is gone.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.lan_broker import LanBroker, Visit, visitor
from support.loop_lab import LoopLab
from support.parts import HOST, Child, Listener, until
from support.robot_double import RobotDouble
from support.run_checks import Ledger, treatments

from looplab.experiments.asip.transports import IN, OUT, SESSION, STATE
from looplab.experiments.loop import protocol
from looplab.experiments.loop.protocol import ONLINE, TOPIC_ANSWER, TOPIC_BRIDGE_STATUS, TOPIC_REQUEST
from looplab.mqtt.pairing import write_pairing
from looplab.run.identities import write

OF_FLOOD = "internal/looplab-flood/1"
OF_BROKER = "$SYS/broker/uptime"
OF_ASIP = "asip/pi"
STATES = {
    protocol.TOPIC_BRIDGE_STATUS, protocol.TOPIC_BRIDGE_INFO, protocol.TOPIC_BRIDGE_MERGED, protocol.TOPIC_ROBOT_STATUS,
}  # fmt: skip
SAYS = {
    "controller": {TOPIC_REQUEST, f"{OF_ASIP}/{IN}", f"{OF_ASIP}/{SESSION}"},
    "bridge": {TOPIC_ANSWER, *STATES, f"{OF_ASIP}/{OUT}", f"{OF_ASIP}/{STATE}"},
    "flood": {OF_FLOOD},
    "observer": set(),
}
HEARS = {
    # Its own requests, too: the printed publisher subscribes to them.
    "controller": {TOPIC_REQUEST, TOPIC_ANSWER, *STATES, OF_BROKER, f"{OF_ASIP}/{OUT}", f"{OF_ASIP}/{STATE}"},
    "bridge": {TOPIC_REQUEST, f"{OF_ASIP}/{IN}", f"{OF_ASIP}/{SESSION}"},
    "flood": {OF_FLOOD},
    "observer": {*STATES, OF_BROKER},
}
TOPICS = sorted(set().union(*SAYS.values(), *HEARS.values()))


def test_each_says_what_is_its_own_and_nothing_else(insider: Listener, visit: Visit) -> None:
    wanted = set()
    for who in SAYS:
        somebody = visit(who)
        for topic in TOPICS:
            somebody.say(topic, who)
            if topic in SAYS[who]:
                wanted.add((topic, who.encode()))
    insider.say("the/end", "")
    until(lambda: insider.payloads("the/end"), "the last message")
    assert {(one.topic, one.payload) for one in insider.messages} == {*wanted, ("the/end", b"")}


def heard(somebody: Listener) -> set[str]:
    """Return the topics of what has come so far."""
    return {message.topic for message in somebody.messages}


def test_each_hears_what_is_its_own_and_nothing_else(lan: LanBroker, insider: Listener, visit: Visit) -> None:
    """mosquitto 2.0 may grant a subscription and keep the messages back: what counts is what arrives."""
    visitors = {who: visit(who) for who in SAYS}
    for somebody in visitors.values():
        somebody.subscribe(*TOPICS)
    for topic in TOPICS:
        insider.say(topic, "secret")
    for who, somebody in visitors.items():
        until(lambda who=who, somebody=somebody: HEARS[who] <= heard(somebody), f"{who} hears {HEARS[who]}")
        assert heard(somebody) == HEARS[who]
    # Not refused in words, but to be seen: who wants to hear what.
    for somebody in visitors.values():
        for topic in TOPICS:
            assert f"{somebody.id} 1 {topic}" in lan.said()


@pytest.mark.parametrize(
    ("user", "password"), [(None, None), ("bridge", "guessed"), ("nobody", "guessed"), ("controller", "bridge's")]
)
def test_nobody_is_let_in_without_name_and_password(lan: LanBroker, user: str | None, password: str | None) -> None:
    word = lan.pairing("bridge").password if password == "bridge's" else password
    stranger = visitor(lan.tls_port, lan.pairing(), user, word)
    assert stranger.verdict == "Not authorized"
    stranger.close()
    until(lambda: "not authorised" in lan.said(), f"the broker logs it: {lan.said()}")


MESSAGES = 40


@pytest.mark.parametrize("who", ["bridge", "observer", "controller"])
def test_a_replayed_answer_is_a_bridges_duplicate_or_reaches_nobody(
    lan: LanBroker, insider: Listener, visit: Visit, robot: RobotDouble, start_bridge: Callable[..., Child],
    start_command: Callable[..., Child], at_end: contextlib.ExitStack, tmp_path: Path, who: str,
) -> None:  # fmt: skip
    """`who` says each answer of the Docker network again on the LAN, in a run over TLS at both ends."""
    start_bridge(BROKER_PAIRING=str(lan.pairing_file()))
    until(lambda: insider.bridge_status == ONLINE, "the bridge")
    ear = at_end.enter_context(contextlib.closing(Listener(lan.port, TOPIC_ANSWER)))
    visitor, said = visit(who), set()

    def say_again(_client: Any, _data: object, message: Any) -> None:
        if message.payload not in said:
            said.add(message.payload)
            visitor.client.publish(TOPIC_ANSWER, message.payload, 1)

    ear.client.on_message = say_again
    loop = at_end.enter_context(contextlib.closing(LoopLab(lan, robot, insider, start_command, tmp_path)))
    tls = {"BROKER_TLS": "on", "BROKER_PAIRING": str(lan.pairing_file("controller"))}
    once = {"MESSAGES": str(MESSAGES), "REPETITIONS": "1", "WARMUP_MESSAGES": "0", "INTERVALS_MS": "20"}
    loop.controller(**tls, **once).wait()
    run = Ledger(loop.run)
    assert said
    assert (run.cell["sent"], run.cell["answered"]) == (MESSAGES, MESSAGES)
    assert (0 < run.cell["duplicates"] <= MESSAGES) if who == "bridge" else run.cell["duplicates"] == 0
    for role in ("controller", "bridge"):
        found = treatments(run.document)[f"{role} TLS"]
        assert (found["found"], found["verified"]) == ("TLSv1.3", True)
    assert run.document["parameters"]["broker_tls"] is True
    # The kernel stamps encrypted bytes, the first of them those of the handshake: the parts of O add up.
    assert run.known()


# From the end of the cause to the retained `online`: TCP's own doubling pauses would take longer.
RECOVERY_S = 10.0
StartBridge = Callable[..., Child]


def await_return(lan: LanBroker, bridge: Child, repair: Callable[[], None]) -> None:
    """The bridge is online within RECOVERY_S of the moment when `repair` has done its work."""
    repair()
    mended_s = time.monotonic()
    # Somebody who arrives later than the bridge finds the retained word.
    insider = Listener(lan.port, TOPIC_BRIDGE_STATUS)
    until(lambda: insider.bridge_status == ONLINE, f"the bridge is back: {bridge.said()}")
    took_s = time.monotonic() - mended_s
    insider.close()
    assert took_s < RECOVERY_S
    until(lambda: "bridge: broker: connected to" in bridge.said(), "the bridge says so")


def troubles(bridge: Child) -> list[str]:
    return [line for line in bridge.said().splitlines() if line.startswith("bridge: broker: ")]


def hear_once(bridge: Child, words: str) -> None:
    """The cause is told, and not again with each of the next attempts."""
    until(lambda: words in bridge.said(), f"{words!r}: {bridge.said()}")
    # Attempts come five times a second.
    time.sleep(0.6)
    assert [words in line for line in troubles(bridge)].count(True) == 1, bridge.said()


def test_a_wrong_password_is_told_and_the_right_one_taken(lan: LanBroker, start_bridge: StartBridge) -> None:
    file = lan.pairing_file(password="guessed")
    bridge = start_bridge(BROKER_PAIRING=str(file))
    hear_once(bridge, "wrong user or password for bridge")
    await_return(lan, bridge, lambda: write(file, write_pairing(lan.pairing())))
    assert "guessed" not in bridge.said()


def test_identities_made_again_are_told_and_pairing_mends_it(lan: LanBroker, start_bridge: StartBridge) -> None:
    file = lan.pairing_file()
    bridge = start_bridge(BROKER_PAIRING=str(file))
    until(lambda: "as bridge-" in lan.said(), "the bridge has come")
    lan.renew()
    hear_once(bridge, "the broker's identity is not the one this machine was paired with")
    await_return(lan, bridge, lambda: write(file, write_pairing(lan.pairing())))


def test_a_client_on_the_other_port_is_told_so(lan: LanBroker, start_bridge: StartBridge) -> None:
    """A plain one comes to the TLS port, and one with TLS to the plain port."""
    bridge = start_bridge(BROKER_HOST=HOST, BROKER_PORT=str(lan.tls_port))
    until(lambda: troubles(bridge), "a word")
    # Some versions of TLS send an alert, some a reset, some just close.
    assert "TLS port" in troubles(bridge)[0] or "reset by peer" in troubles(bridge)[0], bridge.said()
    hear_once(start_bridge(BROKER_PAIRING=str(lan.pairing_file(port=lan.port))), "this is not its TLS port")


def test_nobody_there_is_not_taken_for_a_wrong_broker(lan: LanBroker, start_bridge: StartBridge) -> None:
    lan.stop()
    bridge = start_bridge(BROKER_PAIRING=str(lan.pairing_file()))
    hear_once(bridge, "Connection refused")
    await_return(lan, bridge, lan.start)
