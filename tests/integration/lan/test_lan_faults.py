"""What keeps a bridge from its broker: its log says which of these it is, once, and it is back when that is mended."""

import time
from collections.abc import Callable

from support.lan_broker import LanBroker
from support.parts import HOST, Child, Listener, until

from looplab.experiments.loop.protocol import ONLINE, TOPIC_BRIDGE_STATUS
from looplab.mqtt.pairing import write_pairing
from looplab.run.identities import write

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
    """A plain one on the TLS port, and one with TLS on the plain port."""
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
