"""The bridge: requests from MQTT to the robot's serial port and back. It knows no scenario."""

import os
import random
import sys
from collections import deque
from pathlib import Path
from time import perf_counter_ns

from looplab.experiments.loop.bridge.answer_times import AnswerTimes, Query
from looplab.experiments.loop.bridge.reporter import Reporter
from looplab.experiments.loop.bridge.robot_answers import Reply
from looplab.experiments.loop.bridge.robot_port import RobotPort
from looplab.experiments.loop.protocol import (
    COUNT,
    OFFLINE,
    SELECT,
    SPIN,
    STATUS_GARBLED,
    STATUS_OFFLINE,
    STATUS_OK,
    STATUS_TIMEOUT,
    TOPIC_BRIDGE_STATUS,
    TOPIC_REQUEST,
    BridgeFactors,
    answer_to,
    parse_request,
    subscription_qos,
)
from looplab.mqtt.kernel_stamps import ABSENT
from looplab.mqtt.packets import V5
from looplab.mqtt.pairing import read_broker
from looplab.spec.reader import Reader
from looplab.system import own_process

# The robot answers in about 4 ms; after this long the bridge gives up an answer.
ANSWER_TIMEOUT_MS = 250
# With PAIRING=count answers lag behind their requests until so long a pause ends the hundred.
PAUSE_MS = 500
IDLE_NS = 300_000_000
# While the robot is away, so that the bridge notices its return soon.
IDLE_OFFLINE_NS = 50_000_000
COUNTED = ("requests", "answers", "malformed", "queued", "timeouts", "merged", "skipped", "unasked")
# The bridge may be on another machine: the broker must soon publish that it is gone. It never blocks for that long.
KEEPALIVE_S = 5
# Requests waiting for the robot at once: a flood on request/ must not fill the memory.
MAX_OUTSTANDING = 1000

_REQUEST_TOPIC = TOPIC_REQUEST.encode()


class RobotBridge:
    """Pairs requests and answers: the robot answers in order, so the oldest waiting request comes first.

    Paired by count, as listing A.4: each answer is the oldest waiting request's, whatever requests it is of.
    `broker` is its address, and the file of its certificate and password, if it has one.
    """

    stopping = False

    def __init__(self, settings: BridgeFactors, robot: RobotPort, broker: tuple[str, int, Path | None]) -> None:
        # Imported here: loading MQTT and TLS takes longest, and by now the robot's port is being opened (see `main`).
        from looplab.mqtt.client import ClientOptions, MqttClient
        from looplab.mqtt.client_5 import Mqtt5Client
        from looplab.mqtt.dial import Target

        host, port, pairing = broker
        self.counts = dict.fromkeys(COUNTED, 0)
        self._spins, self._by_count = settings.receiver == SPIN, settings.pairing == COUNT
        self._robot = robot
        self._reporter = Reporter(robot, self.counts, settings.receiver, settings.pairing)
        self._waiting: deque[Query] = deque()
        # Requests that the robot has not begun to answer.
        self._owed = 0
        self._arrived: list[Query] = []
        self._times = AnswerTimes()
        self._free_ns = 0
        self._quiet_ns = 0
        kind = Mqtt5Client if settings.mqtt_version == V5 else MqttClient
        self._mqtt = self._reporter.mqtt = kind(
            Target(host, port, settings.tcp_nodelay, pairing),
            # Not the host's name: cloned cards share it, and a broker disconnects the older of two equal ids.
            f"bridge-{self._reporter.identity['instance']}",
            ClientOptions(
                [(TOPIC_REQUEST, subscription_qos(settings.qos_legs, 2))],
                will=(TOPIC_BRIDGE_STATUS, OFFLINE),
                keepalive_s=KEEPALIVE_S,
                topic_alias=settings.topic_alias,
            ),
            self._request,
            self._reporter.announce,
        )

    def run(self) -> None:
        """Serve until it is `stopping`: IDLE_NS from then at most."""
        mqtt, robot = self._mqtt, self._robot
        while not self.stopping:
            readable = mqtt.wait(0 if self._spins else self._next_wake_ns(), robot.descriptors)
            if self._arrived:
                self._forward()
            if readable or robot.must_poll:
                self._collect(robot.read())
                if robot.take_restart():
                    self._give_up(STATUS_OFFLINE)
            if self._reporter.stale:
                # Report now: there is no idle moment while requests come.
                self._reporter.report()
            now = perf_counter_ns()
            if self._waiting and now > self._time_over_ns:
                self._time_over()
            elif now >= self._quiet_ns:
                self._idle(now)

    def close(self) -> None:
        """Say goodbye: retained status offline, then disconnect."""
        self._reporter.say_goodbye()
        self._mqtt.close()
        self._robot.close()

    def _request(self, topic: bytes, payload: bytes, qos: int) -> None:
        entered_ns = perf_counter_ns()
        request = parse_request(payload) if topic == _REQUEST_TOPIC else None
        try:
            answer = answer_to(self._mqtt.properties)
        except (ValueError, IndexError):
            request = None
        if request is None:
            self.counts["malformed"] += 1
            return
        sock = self._mqtt.sock
        wire_ns, arrived_ns = (sock.received_ns, sock.arrived_ns) if sock else (entered_ns, ABSENT)
        wake_up_ns = ABSENT if arrived_ns == ABSENT else entered_ns - arrived_ns
        self._arrived.append(Query(request, qos, entered_ns, wire_ns, wake_up_ns, *answer))

    def _forward(self) -> None:
        """Answer E at once, ask the robot for others; outside the callback, where paho would only queue an answer."""
        if self._robot.online:
            self._quiet_ns = perf_counter_ns() + IDLE_NS
        arrived, self._arrived = self._arrived, []
        for item in arrived:
            self.counts["requests"] += 1
            if item.request.command == b"E":
                self._answer(item, STATUS_OK, b"%.2f" % random.uniform(15.0, 35.0))
            elif len(self._waiting) < MAX_OUTSTANDING and self._robot.write(item.request.command):
                # It waits for the requests before it: R grows if requests come in bunches, whatever the robot does.
                self.counts["queued"] += bool(self._waiting)
                self._waiting.append(item)
                self._owed += 1
            else:
                self._answer(item, STATUS_OFFLINE, b"")

    def _collect(self, replies: list[Reply]) -> None:
        for found in replies:
            self._owed = max(0, self._owed - found.skipped - found.stands_for)
            reply = Reply(found.value) if self._by_count else found
            for _ in range(reply.skipped):
                self.counts["skipped"] += 1
                self._answer(self._waiting.popleft(), STATUS_GARBLED if reply.garbled else STATUS_TIMEOUT, b"")
            if not self._waiting or not reply.stands_for:
                self.counts["unasked"] += 1
                continue
            self._answer(self._waiting.popleft(), STATUS_OK if reply.value else STATUS_GARBLED, reply.value)
            for _ in range(min(reply.stands_for - 1, len(self._waiting))):
                self._merge(self._waiting.popleft())

    def _merge(self, item: Query) -> None:
        self._reporter.note_merged(item.request)
        self.counts["merged"] += 1

    @property
    def _time_over_ns(self) -> int:
        """When the requests that wait are given up; counted from the newest where answers may lag."""
        if self._by_count:
            return self._waiting[-1].entered_ns + PAUSE_MS * 1_000_000
        return self._waiting[0].entered_ns + ANSWER_TIMEOUT_MS * 1_000_000

    def _time_over(self) -> None:
        """Give up what waits: with `by_count` the newest, as many as had their answers merged with others'."""
        while self._by_count and len(self._waiting) > self._owed:
            self._merge(self._waiting.pop())
        if self._waiting:
            self._give_up(STATUS_GARBLED if self._robot.answers.garbled else STATUS_TIMEOUT)
            self._robot.resynchronise()

    def _give_up(self, status: str) -> None:
        self._owed = 0
        while self._waiting:
            self.counts["timeouts"] += 1
            self._answer(self._waiting.popleft(), status, b"")

    def _answer(self, item: Query, status: str, value: bytes) -> None:
        request, sock = item.request, self._mqtt.sock
        head = b"%s,%d,%s," % (request.run, request.sequence, status.encode())
        earlier = self._times.take(request.run, not sock.unstamped, sock.take_departures) if sock else b""
        tail = b",%s%s" % (value, earlier)
        item.answered_ns = answered_ns = perf_counter_ns()
        payload = head + b"%d" % (answered_ns - item.entered_ns) + tail
        self._mqtt.publish(item.topic, payload, item.qos, properties=item.properties)
        self.counts["answers"] += 1
        # The bridge answers E, and requests that could not be asked, without the robot.
        if request.command != b"E" and status != STATUS_OFFLINE:
            item.wait_ns = max(0, self._free_ns - item.entered_ns)
            self._free_ns = answered_ns
        # An answer that was queued (no connection, too many unconfirmed) has not left the socket yet.
        if sock is not None and sock.sent_ns >= answered_ns:
            item.wire_robot_ns = sock.sent_ns - item.wire_entered_ns
            self._times.add(item)
            sock.on_departure(item.left)

    def _next_wake_ns(self) -> int:
        now = perf_counter_ns()
        if self._robot.must_poll and self._waiting:
            return now + 1_000_000
        if self._waiting:
            return self._time_over_ns
        return max(self._quiet_ns, now + 1_000_000)

    def _idle(self, now: int) -> None:
        """Maintain the robot's port and report, because no request came for a while."""
        self._robot.maintain()
        self._quiet_ns = now + (IDLE_NS if self._robot.online else IDLE_OFFLINE_NS)
        if self._robot.take_restart():
            self._give_up(STATUS_OFFLINE)
        self._reporter.report()


@own_process.program("lab-bridge")
def main() -> int:
    """Run from the environment: BROKER_PAIRING or BROKER_HOST, BROKER_PORT; SERIAL_URL, FIDELITY ….

    It spins only on a machine of its own, where OWN_MACHINE is set.
    """
    environment = dict(os.environ)
    reader = Reader(environment, "compose/scenarios/NAME")
    settings = BridgeFactors.of(reader, **({} if reader.given("OWN_MACHINE") else {"receiver": SELECT}))
    url = environment.get("SERIAL_URL", "").strip() or "socket://robot:4000"
    robot = RobotPort(url, settings.robot_framing, low_latency=settings.serial_low_latency)
    # A thread opens the port, which resets the board: its boot loader takes up to 2 s, and the rest goes on.
    robot.maintain()
    broker = host, port, pairing = read_broker(environment)
    bridge = RobotBridge(settings, robot, broker)
    tls = " (TLS)" if pairing else ""
    print(f"bridge: robot at {robot.url}, framing {robot.framing}, broker {host}:{port}{tls}", flush=True)
    return own_process.run_until_stopped(bridge)


if __name__ == "__main__":
    sys.exit(main())
