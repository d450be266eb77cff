"""What the bridge reports about itself: retained MQTT messages, and lines in the log."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from looplab import __version__
from looplab.experiments.loop.bridge.robot_port import RobotPort
from looplab.experiments.loop.protocol import (
    OFFLINE,
    ONLINE,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_MERGED,
    TOPIC_BRIDGE_STATUS,
    TOPIC_REQUEST,
    TOPIC_ROBOT_STATUS,
    LoopRequest,
    merged_payload,
)
from looplab.system import own_process
from looplab.system.machine_facts import boot_id

if TYPE_CHECKING:
    from looplab.mqtt.client import MqttClient

# Merged requests are published when the bridge is idle, or once there are so many.
MOST_MERGED = 500


class Reporter:
    """Publishes and logs what has changed; `mqtt` is set once there is a client."""

    mqtt: MqttClient

    def __init__(self, robot: RobotPort, counts: Mapping[str, int], receiver: str, pairing: str) -> None:
        # A restarted bridge is another instance, a restarted machine another boot.
        self.identity = {"instance": secrets.token_hex(4), "boot": boot_id()[:8]}
        self._robot, self._counts, self._receiver, self._pairing = robot, counts, receiver, pairing
        self._published: tuple[bytes, bytes] = (b"", b"")
        self._reported_online = False
        self._logged: tuple[str, tuple[int, ...]] = ("", tuple(robot.faults.values()))
        self._logged_broker: set[str] = set()
        # Requests of one run whose answers met in a burst; not published yet.
        self._merged_run, self._merged = b"", list[int]()

    @property
    def stale(self) -> bool:
        """Whether the robot came or went since the last report."""
        return self._reported_online != self._robot.online

    def announce(self) -> None:
        """Publish everything to a broker that has just accepted the bridge."""
        self._published = (b"", b"")
        # Publish the robot's status first: a client that sees the bridge online must not read an earlier bridge's.
        self.report()
        self.mqtt.publish(TOPIC_BRIDGE_STATUS, ONLINE, 1, retain=True)

    def note_merged(self, request: LoopRequest) -> None:
        """Have a request published whose answer met another's: with the next report, or once there are MOST_MERGED."""
        if request.run != self._merged_run or len(self._merged) >= MOST_MERGED:
            self._publish_merged()
        self._merged_run = request.run
        self._merged.append(request.sequence)

    def _publish_merged(self) -> None:
        if self._merged:
            self.mqtt.publish(TOPIC_BRIDGE_MERGED, merged_payload(self._merged_run, self._merged), 1)
            self._merged = []

    def report(self) -> None:
        """Log and publish what has changed."""
        self._publish_merged()
        mqtt, online = self.mqtt, self._robot.online
        self._reported_online = online
        self._log_robot()
        self._log_broker()
        if not mqtt.connected:
            return
        state = (ONLINE if online else OFFLINE, json.dumps(self._info()).encode())
        for topic, now, before in zip((TOPIC_ROBOT_STATUS, TOPIC_BRIDGE_INFO), state, self._published, strict=True):
            if now != before:
                mqtt.publish(topic, now, 1, retain=True)
        self._published = state

    def say_goodbye(self) -> None:
        """Publish that robot and bridge are offline."""
        self._publish_merged()
        if self.mqtt.connected:
            self.mqtt.publish(TOPIC_ROBOT_STATUS, OFFLINE, 1, retain=True)
            self.mqtt.publish(TOPIC_BRIDGE_STATUS, OFFLINE, 1, retain=True)

    def _log_robot(self) -> None:
        """Log what happened to the robot, at most as often as state is published."""
        robot = self._robot
        faults = tuple(robot.faults.values())
        if faults != self._logged[1]:
            counted = ", ".join(f"{kind} {count}" for kind, count in robot.faults.items() if count)
            print(f"bridge: robot: {robot.faults.last} ({counted} so far)", flush=True)
        state = robot.fault or f"online, {robot.identity}"
        if state != self._logged[0]:
            print(f"bridge: robot: {state}", flush=True)
        self._logged = (state, faults)

    def _log_broker(self) -> None:
        """Log each cause once until there is a connection again."""
        connected = f"connected to {self.mqtt.target}"
        state = connected if self.mqtt.connected else self.mqtt.last_error
        if state and state not in self._logged_broker:
            self._logged_broker = {state} if self.mqtt.connected else {*self._logged_broker, state} - {connected}
            print(f"bridge: broker: {state}", flush=True)

    def _info(self) -> dict[str, Any]:
        """Return what a run records about the bridge: how it is set up, as found, and its counts."""
        robot, sock = self._robot, self.mqtt.sock
        return {
            "framing": robot.framing,
            "pairing": self._pairing,
            "receiver": self._receiver,
            "tcp_nodelay": bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) if sock else None,
            # As the broker granted it.
            "subscription_qos": self.mqtt.granted.get(TOPIC_REQUEST),
            "mqtt_version": self.mqtt.version,
            "topic_alias": self.mqtt.topic_alias,
            "tls": sock.tls if sock else "",
            "scheduling": own_process.scheduling(),
            "serial": robot.url,
            **({} if robot.latency_timer_ms is None else {"latency_timer_ms": robot.latency_timer_ms}),
            "robot": robot.identity,
            "robot_fault": robot.fault,
            "robot_faults": robot.faults,
            "reopened": robot.reopened,
            "disconnects": self.mqtt.disconnects,
            "last_loss": self.mqtt.last_loss,
            "version": __version__,
            **self.identity,
            "counts": self._counts,
        }
