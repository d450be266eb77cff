"""Real parts on loopback: mosquitto, the lab's processes, an MQTT client. Each is ended by its id."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from looplab.experiments.loop.protocol import (
    ONLINE,
    TOPIC_ANSWER,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_STATUS,
    TOPIC_ROBOT_STATUS,
    LoopAnswer,
    parse_answer,
)
from looplab.system.json_service import Request, serve
from looplab.system.processes import cpu_s, processor_times
from looplab.treatments.service import treat
from support.places import ROOT
from support.ports import free_port
from support.tools import program
from support.waiting import LIMIT_S, PATIENCE, until

HOST = "127.0.0.1"
# When the bridge gives an answer up.
ANSWER_TIMEOUT_NS = 250_000_000 * PATIENCE
# What a person may have exported: the tests must not depend on it.
CLEARED = (
    "FIDELITY", "TCP_NODELAY", "ROBOT_FRAMING", "PAIRING", "QOS_LEGS", "CONNECTIONS", "APPLY_PRIORITY", "PACING",
    "MQTT_VERSION", "TOPIC_ALIAS",
    "INTERVALS_MS", "MESSAGES", "REPETITIONS", "ORDER", "ORDER_SEED", "QOS", "BROKER_TLS", "BROKER_PAIRING", "LINK",
    "COMMAND", "LOAD", "DEADLINE_MS", "WARMUP_MESSAGES", "LIVE_DIR", "LOOPLAB_EVENTS", "LOOPLAB_ENVIRONMENT", "LAB_OWN",
)  # fmt: skip
# The other tests use the processors, and no run waits until they are quiet.
BUSY = json.dumps({"busy_wanted": True})


class Child:
    """A process in a group of its own, its output in a file; `options` are those of Popen."""

    def __init__(
        self, command: list[str], log: Path, variables: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in CLEARED}
        environment.update({"PYTHONPATH": str(ROOT / "src"), "LOOPLAB_ENVIRONMENT": BUSY, **(variables or {})})
        self.log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
                **options,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(2 * LIMIT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it and what it started, if it still runs; its own end takes up to half a second."""
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def starter(folder: Path, at_end: contextlib.ExitStack) -> Callable[..., Child]:
    """Return a function that starts a command with these variables, its output in `folder`."""
    numbers = itertools.count()

    def start(command: list[str], **variables: str) -> Child:
        child = Child(command, folder / f"child-{next(numbers)}.log", variables)
        return at_end.enter_context(contextlib.closing(child))

    return start


class Broker(Child):
    """Debian's mosquitto on a port that stays the same over restarts; `within` starts it elsewhere, where `host` is."""

    def __init__(
        self,
        folder: Path,
        *,
        nodelay: bool = True,
        more: str = "",
        host: str = HOST,
        within: Sequence[str] = (),
    ) -> None:
        self.port, self.host, self._within = free_port(), host, within
        self._folder = folder
        self._configuration = folder / f"mosquitto-{self.port}.conf"
        # Mosquitto 2.0.11 loses messages at QoS 2 that it has confirmed if a client has as many under way as it allows.
        text = f"listener {self.port} {host}\nset_tcp_nodelay {str(nodelay).lower()}\nmax_inflight_messages 40\n"
        self._configuration.write_text(text + (more or "allow_anonymous true\n"))
        self.start()

    def start(self) -> None:
        """Returns once it listens."""
        command = [*self._within, program("mosquitto"), "-c", str(self._configuration)]
        super().__init__(command, self._folder / f"{self.port}.log")
        until(self._listens, f"mosquitto listens: {self.said()}")

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.said()
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0


class Listener:
    """Somebody else on the broker: hears everything, says what it is told to.

    `introduce` gives its client a name and what else the broker asks for. `verdict` is the broker's answer; who is not
    let in, or has no topic, hears nothing.
    """

    def __init__(self, port: int, topic: str = "#", introduce: Callable[[mqtt.Client], None] | None = None) -> None:
        self.messages: list[mqtt.MQTTMessage] = []
        self.verdict, self._topic = "", topic
        self._answered = threading.Event()
        self.id = f"listener-{time.monotonic_ns()}"
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=self.id)
        self.client.on_message = lambda _client, _data, message: self.messages.append(message)
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda *_: self._answered.set()
        if introduce is not None:
            introduce(self.client)
        self.client.connect(HOST, port)
        self.client.loop_start()
        assert self._answered.wait(LIMIT_S)

    def _connected(self, client: mqtt.Client, _data: object, _flags: object, reason: object, _more: object) -> None:
        self.verdict = str(reason)
        if self._topic and self.verdict == "Success":
            client.subscribe(self._topic, 2)
        else:
            self._answered.set()

    def subscribe(self, *topics: str) -> None:
        """Return once the broker has answered."""
        self._answered.clear()
        self.client.subscribe([(topic, 1) for topic in topics])
        assert self._answered.wait(LIMIT_S)

    def say(self, topic: str, payload: bytes | str, qos: int = 1, retain: bool = False) -> None:
        self.client.publish(topic, payload, qos, retain).wait_for_publish(LIMIT_S)

    def payloads(self, topic: str) -> list[bytes]:
        return [bytes(message.payload) for message in list(self.messages) if message.topic == topic]

    def last(self, topic: str) -> bytes:
        """The latest payload on `topic`, b"" where there was none."""
        return (self.payloads(topic) or [b""])[-1]

    @property
    def answers(self) -> list[LoopAnswer]:
        """All answers so far; fails where one is malformed."""
        found = [parse_answer(payload) for payload in self.payloads(TOPIC_ANSWER)]
        assert None not in found
        return [answer for answer in found if answer is not None]

    @property
    def bridge_info(self) -> dict[str, Any]:
        """What the bridge last said of itself, {} before that."""
        return dict(json.loads(self.last(TOPIC_BRIDGE_INFO) or b"{}"))

    @property
    def bridge_status(self) -> bytes:
        return self.last(TOPIC_BRIDGE_STATUS)

    @property
    def robot_status(self) -> bytes:
        return self.last(TOPIC_ROBOT_STATUS)

    def wait_online(self) -> None:
        """Until bridge and robot are, and the bridge has said which robot: that comes after its status."""
        until(lambda: self.bridge_status == ONLINE, "bridge online")
        until(lambda: self.robot_status == ONLINE, "robot online")
        until(lambda: self.bridge_info.get("robot"), "the bridge's word on its robot")

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class TreatmentsDouble:
    """Answers as the treatments service does, but finds the given processes only and applies `fifo` alone.

    The real one would find, and reschedule, every process of these names on the test's machine. `noise` is what the
    probes of a test saw; none unless it sets them.
    """

    ROLES = (
        "broker", "controller", "bridge", "robot", "stress", "flood", "link", "instance", "workers", "database",
        "clients",
    )  # fmt: skip

    def __init__(self, pids: Callable[[], dict[str, list[int]]], fifo: Mapping[str, int] | None = None) -> None:
        self._pids = pids
        self._fifo = {} if fifo is None else fifo
        self.noise: Callable[[], list[dict[str, Any]]] = list
        self._server = serve(HOST, 0, {"POST /facts": self._facts}, "free a port")
        self.url = f"http://{HOST}:{self._server.server_address[1]}/facts"

    def _facts(self, _request: Request) -> dict[str, Any]:
        pids = self._pids()
        roles = {role: treat(pids.get(role, []), self._fifo.get(role, 0)) for role in self.ROLES}
        times = {"processors": processor_times(), "clock_ns": time.perf_counter_ns(), "own_cpu_s": cpu_s()}
        return {"roles": roles, **times, "noise": self.noise()}

    def close(self) -> None:
        """Its thread looks up twice a second; nobody waits for that."""
        threading.Thread(target=self._server.shutdown).start()


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def bridge_command() -> list[str]:
    """The bridge; where everything is slower by PATIENCE, it waits as much longer for its robot."""
    package = "looplab.experiments.loop.bridge"
    if PATIENCE == 1:
        return python(f"{package}.program")
    patient = f"bridge.ANSWER_TIMEOUT_MS *= {PATIENCE}"
    return [
        sys.executable,
        "-c",
        f"import sys; from {package} import program as bridge; {patient}; sys.exit(bridge.main())",
    ]


__all__ = [
    "ANSWER_TIMEOUT_NS", "BUSY", "CLEARED", "HOST", "LIMIT_S", "ROOT", "Broker", "Child", "Listener",
    "TreatmentsDouble", "bridge_command", "free_port", "python", "signal", "starter", "until",
]  # fmt: skip
