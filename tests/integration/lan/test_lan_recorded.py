"""Who hears the LAN has the bridge's bytes, but cannot use them: played again they are refused, and the log says so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from support.lan_broker import LanBroker, Visitor
from support.parts import HOST, LIMIT_S, Child, until

from looplab.experiments.loop.protocol import ONLINE, TOPIC_ANSWER, TOPIC_BRIDGE_STATUS, TOPIC_REQUEST


class Tap:
    """A place on the way to `to_port` that passes on everything and keeps what one client sent."""

    def __init__(self, to_port: int) -> None:
        self.recorded = bytearray()
        self._server = socket.create_server((HOST, 0))
        self.port = int(self._server.getsockname()[1])
        self._to_port = to_port
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        client, _ = self._server.accept()
        broker = socket.create_connection((HOST, self._to_port))
        threading.Thread(target=self._pass_on, args=(broker, client), daemon=True).start()
        self._pass_on(client, broker, self.recorded)

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket, kept: bytearray | None = None) -> None:
        try:
            while data := source.recv(65536):
                if kept is not None:
                    kept += data
                sink.sendall(data)
        except OSError:
            pass
        sink.close()


def test_recorded_bytes_of_a_bridge_are_refused(lan: LanBroker, start_bridge: Callable[..., Child]) -> None:
    """Keys are of one connection: not even its log-in can be said again, nor the answer in it."""
    tap = Tap(lan.tls_port)
    insider = Visitor(lan.port)
    assert insider.verdict() == "Success"
    assert insider.subscribe(TOPIC_BRIDGE_STATUS)
    assert insider.subscribe(TOPIC_ANSWER)
    start_bridge(BROKER_PAIRING=str(lan.pairing_file(port=tap.port)))
    until(lambda: (TOPIC_BRIDGE_STATUS, ONLINE) in insider.messages, "the bridge")
    insider.say(TOPIC_REQUEST, "E-run-1")
    until(lambda: TOPIC_ANSWER in insider.heard(), "its answer")
    (answer,) = (payload for topic, payload in insider.messages if topic == TOPIC_ANSWER)
    recorded = bytes(tap.recorded)
    assert len(recorded) > 500
    assert answer not in recorded, "nothing can be read on the way"
    before = lan.said()
    with socket.create_connection((HOST, lan.tls_port), timeout=LIMIT_S) as thief:
        thief.sendall(recorded)
        try:
            while thief.recv(65536):
                pass
        except ConnectionResetError:
            pass
    until(lambda: "SSL routines:" in lan.said()[len(before) :], "the broker logs it")
    assert " as bridge-" not in lan.said()[len(before) :], "nobody was let in"
    insider.say(TOPIC_REQUEST, "E-run-2")
    until(lambda: b"run,2," in insider.messages[-1][1], "the next answer")
    assert len([1 for topic, _ in insider.messages if topic == TOPIC_ANSWER]) == 2
    insider.close()
