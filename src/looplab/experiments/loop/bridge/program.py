"""The bridge: requests from MQTT to the robot's serial port and back. It knows no scenario."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import sys
from collections import deque
from pathlib import Path
from time import perf_counter_ns
from typing import Any, NamedTuple

from looplab import __version__
from looplab.errors import EXIT_USAGE, LabError
from looplab.experiments.loop.bridge.robot_answers import Reply
from looplab.experiments.loop.bridge.robot_port import RobotPort
from looplab.experiments.loop.bridge.state import Counts
from looplab.experiments.loop.protocol import (
    FRAMINGS,
    OFFLINE,
    ONLINE,
    STATUS_GARBLED,
    STATUS_OFFLINE,
    STATUS_OK,
    STATUS_TIMEOUT,
    TOPIC_ANSWER,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_STATUS,
    TOPIC_REQUEST,
    TOPIC_ROBOT_STATUS,
    Request,
    parse_request,
)
from looplab.run.parameters import FIDELITIES
from looplab.system import machine_facts as environment
from looplab.system import processes

# The robot answers in about 4 ms; this is how long the bridge waits before it gives an answer up.
ANSWER_TIMEOUT_MS = 250
IDLE_NS = 300_000_000
# While the robot is away, so that its return is seen soon.
IDLE_OFFLINE_NS = 50_000_000
COUNTED = ("requests", "answers", "malformed", "queued", "timeouts", "merged", "skipped", "unasked")
# The bridge may be on another machine: the broker must soon say when it is gone. It never blocks for that long.
KEEPALIVE_S = 5
# Requests waiting for the robot at once; a flood on request/ must not grow memory without end.
MAX_OUTSTANDING = 1000

_REQUEST_TOPIC = TOPIC_REQUEST.encode()


class Waiting(NamedTuple):
    """A request on its way to the robot; times are monotonic ns of the bridge."""

    request: Request
    qos: int
    entered_ns: int
    wire_entered_ns: int


class Bridge:
    """Pairs requests and answers: the robot answers in order, so the oldest waiting request comes first."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tcp_nodelay: bool,
        robot: RobotPort,
        state_dir: Path | None = None,
        pairing: Path | None = None,
    ) -> None:
        # MQTT and TLS are most of what must be loaded: by now the robot's port is being opened (see `main`).
        from looplab.mqtt.client import MqttClient

        self.counts = Counts(COUNTED, state_dir)
        self._identity = {"instance": secrets.token_hex(4), "boot": environment.boot_id()[:8]}
        self._robot = robot
        self._waiting: deque[Waiting] = deque()
        self._arrived: list[Waiting] = []
        self._wire_run, self._wire_sequence, self._wire_ns, self._wait_ns = b"", 0, 0, 0
        self._free_ns = 0
        self._published: tuple[bytes, bytes] = (b"", b"")
        self._said_online = False
        self._logged: tuple[str, tuple[int, ...]] = ("", tuple(robot.faults.values()))
        self._troubles: set[str] = set()
        self._quiet_ns = 0
        self._stopping = False
        self._mqtt = MqttClient(
            host,
            port,
            # Not the host's name: containers of a cloned card share it, and two clients of one id put each other out.
            f"bridge-{self._identity['instance']}",
            tcp_nodelay=tcp_nodelay,
            subscriptions=[(TOPIC_REQUEST, 2)],
            on_message=self._request,
            will=(TOPIC_BRIDGE_STATUS, OFFLINE),
            on_connect=self._announce,
            keepalive_s=KEEPALIVE_S,
            pairing=pairing,
        )

    def run(self) -> None:
        """Serve until told to stop."""
        mqtt, robot = self._mqtt, self._robot
        while not self._stopping:
            readable = mqtt.wait(self._next_wake_ns(), robot.descriptors)
            if self._arrived:
                self._forward()
            if readable or robot.must_poll:
                self._collect(robot.read())
                if robot.take_restart():
                    self._give_up(STATUS_OFFLINE)
            if self._said_online != robot.online:
                # At once, for while requests come there is no idle moment.
                self._publish_state()
            now = perf_counter_ns()
            self.counts.beat(now)
            if self._waiting and now - self._waiting[0].entered_ns > ANSWER_TIMEOUT_MS * 1_000_000:
                self._give_up(STATUS_GARBLED if robot.garbled else STATUS_TIMEOUT)
                robot.resynchronise()
            elif now >= self._quiet_ns:
                self._idle(now)

    def stop(self, *_signal: object) -> None:
        """End `run` at its next turn, IDLE_NS from now at most; a signal handler.

        It raises nothing: an exception that a signal raises in a finalizer, as of a port just unplugged, is lost.
        """
        self._stopping = True

    def close(self) -> None:
        """Say goodbye: retained status offline, then disconnect."""
        if self._mqtt.connected:
            self._mqtt.publish(TOPIC_ROBOT_STATUS, OFFLINE, 1, retain=True)
            self._mqtt.publish(TOPIC_BRIDGE_STATUS, OFFLINE, 1, retain=True)
        self._mqtt.close()
        self._robot.close()

    def _request(self, topic: bytes, payload: bytes, qos: int) -> None:
        entered_ns = perf_counter_ns()
        request = parse_request(payload) if topic == _REQUEST_TOPIC else None
        if request is None:
            self.counts["malformed"] += 1
            return
        sock = self._mqtt.sock
        self._arrived.append(Waiting(request, qos, entered_ns, sock.received_ns if sock else entered_ns))

    def _forward(self) -> None:
        """Answer E at once, hand T to the robot; outside paho's callback, where publishing is immediate."""
        if self._robot.online:
            self._quiet_ns = perf_counter_ns() + IDLE_NS
        arrived, self._arrived = self._arrived, []
        for item in arrived:
            self.counts["requests"] += 1
            if item.request.command == b"E":
                self._answer(item, STATUS_OK, b"%.2f" % random.uniform(15.0, 35.0))
            elif len(self._waiting) < MAX_OUTSTANDING and self._robot.write(item.request.command):
                # It waits for those before it: R grows where requests come in bunches, whatever the robot does.
                self.counts["queued"] += bool(self._waiting)
                self._waiting.append(item)
            else:
                self._answer(item, STATUS_OFFLINE, b"")

    def _collect(self, replies: list[Reply]) -> None:
        for reply in replies:
            for _ in range(reply.skipped):
                self.counts["skipped"] += 1
                self._answer(self._waiting.popleft(), STATUS_GARBLED if reply.garbled else STATUS_TIMEOUT, b"")
            if not self._waiting or not reply.stands_for:
                self.counts["unasked"] += 1
                continue
            self._answer(self._waiting.popleft(), STATUS_OK if reply.value else STATUS_GARBLED, reply.value)
            for _ in range(min(reply.stands_for - 1, len(self._waiting))):
                self._waiting.popleft()
                self.counts["merged"] += 1

    def _give_up(self, status: str) -> None:
        while self._waiting:
            self.counts["timeouts"] += 1
            self._answer(self._waiting.popleft(), status, b"")

    def _answer(self, item: Waiting, status: str, value: bytes) -> None:
        request = item.request
        head = b"%s,%d,%s," % (request.run, request.sequence, status.encode())
        tail = b",%s" % value
        if self._wire_ns and self._wire_run == request.run:
            tail += b",%d,%d,%d" % (self._wire_sequence, self._wire_ns, self._wait_ns)
        answered_ns = perf_counter_ns()
        self._mqtt.publish(TOPIC_ANSWER, head + b"%d" % (answered_ns - item.entered_ns) + tail, item.qos)
        self.counts["answers"] += 1
        sock = self._mqtt.sock
        # An answer that was queued (no connection, too many unconfirmed) has not left the socket yet.
        left_ns = sock.sent_ns if sock is not None and sock.sent_ns >= answered_ns else 0
        self._wire_run, self._wire_sequence = request.run, request.sequence
        self._wire_ns = left_ns - item.wire_entered_ns if left_ns else 0
        # Answered beside the robot: E, and what it could not be asked.
        robot = request.command != b"E" and status != STATUS_OFFLINE
        self._wait_ns = max(0, self._free_ns - item.entered_ns) if robot else 0
        if robot:
            self._free_ns = answered_ns

    def _next_wake_ns(self) -> int:
        now = perf_counter_ns()
        if self._robot.must_poll and self._waiting:
            return now + 1_000_000
        if self._waiting:
            return self._waiting[0].entered_ns + ANSWER_TIMEOUT_MS * 1_000_000
        return max(self._quiet_ns, now + 1_000_000)

    def _idle(self, now: int) -> None:
        """Nothing asked for a while: see to the robot's port and to what is retained about us."""
        self._robot.maintain()
        self._quiet_ns = now + (IDLE_NS if self._robot.online else IDLE_OFFLINE_NS)
        if self._robot.take_restart():
            self._give_up(STATUS_OFFLINE)
        self._publish_state()

    def _announce(self) -> None:
        self._published = (b"", b"")
        # The robot's first: who sees the bridge online must not find what an earlier one said of the robot.
        self._publish_state()
        self._mqtt.publish(TOPIC_BRIDGE_STATUS, ONLINE, 1, retain=True)

    def _publish_state(self) -> None:
        self._said_online = self._robot.online
        self._log_robot()
        self._log_broker()
        info = self.info()
        self.counts.tell({**info, "robot_online": self._robot.online, **self._connection()})
        if not self._mqtt.connected:
            return
        state = (ONLINE if self._robot.online else OFFLINE, json.dumps(info).encode())
        if state[0] != self._published[0]:
            self._mqtt.publish(TOPIC_ROBOT_STATUS, state[0], 1, retain=True)
        if state[1] != self._published[1]:
            self._mqtt.publish(TOPIC_BRIDGE_INFO, state[1], 1, retain=True)
        self._published = state

    def _log_robot(self) -> None:
        """For who reads the log: what befell the robot, never more often than state is published."""
        robot = self._robot
        faults = tuple(robot.faults.values())
        if faults != self._logged[1]:
            print(f"bridge: robot: {robot.faults.last} ({_counted(robot.faults)} so far)", flush=True)
        state = robot.fault or f"online, {robot.identity}"
        if state != self._logged[0]:
            print(f"bridge: robot: {state}", flush=True)
        self._logged = (state, faults)

    def _log_broker(self) -> None:
        """Each cause once, however often it is met, until there was a connection again."""
        mqtt = self._mqtt
        if mqtt.connected:
            if self._troubles:
                print(f"bridge: broker: connected to {mqtt.target.host}:{mqtt.target.port}", flush=True)
            self._troubles.clear()
        elif mqtt.last_error and mqtt.last_error not in self._troubles:
            self._troubles.add(mqtt.last_error)
            print(f"bridge: broker: {mqtt.last_error}", flush=True)

    def info(self) -> dict[str, Any]:
        """What a run records about the bridge: how it was really set up, and its counts."""
        sock = self._mqtt.sock
        return {
            "framing": self._robot.framing,
            "tcp_nodelay": bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) if sock else None,
            "tls": sock.tls if sock else "",
            "scheduling": processes.own_scheduling(),
            "serial": self._robot.url,
            "robot": self._robot.identity,
            "robot_numbered": self._robot.numbered,
            "robot_fault": self._robot.fault,
            "robot_faults": self._robot.faults,
            "robot_last_fault": self._robot.faults.last,
            "reopened": self._robot.reopened,
            "disconnects": self._mqtt.disconnects,
            "version": __version__,
            # A bridge that was started anew is another instance; a machine that was, another boot.
            **self._identity,
            "counts": self.counts,
        }

    def _connection(self) -> dict[str, Any]:
        mqtt = self._mqtt
        return {
            "connected": mqtt.connected,
            "broker": f"{mqtt.target.host}:{mqtt.target.port}",
            "last_error": "" if mqtt.connected else mqtt.last_error,
        }


def _counted(faults: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in faults.items() if count)


def _settings(environment: dict[str, str]) -> tuple[bool, str]:
    fidelity = environment.get("FIDELITY", "").strip() or "thesis"
    if fidelity not in FIDELITIES:
        raise LabError(f"FIDELITY={fidelity!r}: expected thesis or corrected.", "Mend it in .env.", EXIT_USAGE)
    nodelay = environment.get("TCP_NODELAY", "").strip().lower() or ("on" if fidelity == "corrected" else "off")
    framing = environment.get("ROBOT_FRAMING", "").strip() or FRAMINGS[fidelity]
    if nodelay not in ("on", "off"):
        raise LabError(f"TCP_NODELAY={nodelay!r}: expected on or off.", "Mend it in .env.", EXIT_USAGE)
    if framing not in FRAMINGS.values():
        raise LabError(f"ROBOT_FRAMING={framing!r}: expected burst or line.", "Mend it in .env.", EXIT_USAGE)
    return nodelay == "on", framing


def _broker(environment: dict[str, str]) -> tuple[str, int, Path | None]:
    """Host, port, and the pairing file where BROKER_PAIRING names one; BROKER_HOST and BROKER_PORT go before it."""
    name = environment.get("BROKER_PAIRING", "").strip()
    pairing = Path(name) if name else None
    host, port = "broker", 1883
    if pairing is not None:
        from looplab.mqtt.pairing import read_pairing

        found = read_pairing(pairing)
        host, port = found.host, found.port
    return environment.get("BROKER_HOST", "").strip() or host, _port(environment, port), pairing


def _port(environment: dict[str, str], default: int) -> int:
    text = environment.get("BROKER_PORT", "").strip() or str(default)
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise LabError(f"BROKER_PORT={text!r}: expected 1 to 65535.", "Mend it in .env.", EXIT_USAGE)
    return int(text)


def main() -> int:
    """Run from the environment: BROKER_PAIRING or BROKER_HOST, BROKER_PORT; SERIAL_URL, FIDELITY …, STATE_DIR."""
    processes.set_name("lab-bridge")
    settings = dict(os.environ)
    try:
        nodelay, framing = _settings(settings)
        robot = RobotPort(settings.get("SERIAL_URL", "").strip() or "socket://robot:4000", framing)
        # In a thread: opening resets the board, and its boot loader takes up to 2 s. All else is done meanwhile.
        robot.maintain()
        host, port, pairing = _broker(settings)
    except LabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    state_dir = Path(settings["STATE_DIR"]) if settings.get("STATE_DIR") else None
    bridge = Bridge(host, port, tcp_nodelay=nodelay, robot=robot, state_dir=state_dir, pairing=pairing)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, bridge.stop)
    print(
        f"bridge: robot at {robot.url}, framing {framing}, broker {host}:{port}{' (TLS)' if pairing else ''}",
        flush=True,
    )
    bridge.run()
    bridge.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
