"""The loop on loopback: broker, bridge, robot double and controller, and somebody who asks."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from looplab.experiments.loop.protocol import (
    ONLINE,
    TOPIC_ANSWER,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_STATUS,
    TOPIC_REQUEST,
    LoopAnswer,
)
from support.board import Board
from support.lan_broker import LanBroker
from support.parts import HOST, Broker, Child, Listener, TreatmentsDouble, bridge_command, python
from support.robot_double import RobotDouble
from support.waiting import until


class LoopLab:
    """The parts that a test starts; by role, `pids` is what the treatments double finds and `fifo` what it applies.

    `ask_until` asks for `command` again and again, `pause_s` after each; so far it has `asked` so often.
    """

    command, pause_s, asked = "T", 0.0, 0

    def __init__(
        self,
        broker: Broker | LanBroker,
        robot: RobotDouble | Board,
        listener: Listener,
        start: Callable[..., Child],
        folder: Path,
    ) -> None:
        self.broker, self.robot, self.listener, self.start = broker, robot, listener, start
        self.results = folder / "results"
        self.results.mkdir()
        self.pids: dict[str, list[int]] = {}
        self.fifo: dict[str, int] = {}
        self.treatments = TreatmentsDouble(lambda: {**self.pids, "broker": [broker.pid]}, self.fifo)

    def close(self) -> None:
        self.treatments.close()

    def bridge(self, command: list[str] | None = None, **variables: str) -> Child:
        """Start a bridge between the broker and the robot double; variables override."""
        settings = {"BROKER_HOST": HOST, "BROKER_PORT": str(self.broker.port), "SERIAL_URL": self.robot.url}
        return self.start(command or bridge_command(), **{**settings, "FIDELITY": "corrected", **variables})

    def online_bridge(self, **variables: str) -> Child:
        """Start a bridge and wait until it and its robot are online."""
        bridge = self.bridge(**variables)
        self.listener.wait_online()
        return bridge

    def controller(self, command: list[str] | None = None, **variables: str) -> Child:
        """Start a short run of E at 10 ms, corrected; variables override."""
        settings = {
            "BROKER_HOST": HOST, "BROKER_PORT": str(self.broker.port), "RESULTS_DIR": str(self.results),
            "SCENARIO": "scenario0", "FIDELITY": "corrected", "COMMAND": "E", "INTERVALS_MS": "10", "MESSAGES": "20",
            "REPETITIONS": "2", "WARMUP_MESSAGES": "5", "LOOPLAB_EVENTS": "json", "PARTS_TIMEOUT_S": "20",
            "TREATMENTS_URL": self.treatments.url,
        }  # fmt: skip
        words = command or python("looplab.experiments", "loop")
        child = self.start(words, **{**settings, **variables})
        self.pids["controller"] = [child.pid]
        return child

    @property
    def run(self) -> Path:
        """Return the folder of the only run."""
        (folder,) = self.results.iterdir()
        return folder

    def answers(self, run: str = "run") -> dict[int, LoopAnswer]:
        """Return the answers by sequence; fail where one is malformed or comes twice."""
        own = [answer for answer in self.listener.answers if answer.run == run.encode()]
        found = {answer.sequence: answer for answer in own}
        assert len(found) == len(own), own
        return found

    def ask(self, sequence: int, command: str = "T", run: str = "run", qos: int = 1) -> None:
        self.listener.say(TOPIC_REQUEST, f"{command}-{run}-{sequence}", qos)

    def answer_to(self, sequence: int, command: str = "T", run: str = "run") -> LoopAnswer:
        """Ask and return the answer."""
        self.ask(sequence, command, run)
        answer: LoopAnswer = until(lambda: self.answers(run).get(sequence), f"answer {sequence}")
        return answer

    def answers_to(self, count: int) -> dict[int, LoopAnswer]:
        """Ask so often without waiting; return all answers."""
        for sequence in range(count):
            self.listener.client.publish(TOPIC_REQUEST, f"T-run-{sequence}", 1)
        until(lambda: len(self.answers()) == count, "all answers")
        return self.answers()

    def ask_until(self, condition: Callable[[], Any], what: str) -> int:
        """Ask more often than the bridge is idle until `condition` holds; return the number of requests."""

        def step() -> Any:
            self.ask(self.asked, self.command)
            self.asked += 1
            time.sleep(self.pause_s)
            return condition()

        until(step, what)
        return self.asked

    def wait_for_counts(self, **wanted: int) -> None:
        """Wait until the bridge reports these counts."""

        def met() -> bool:
            counts = self.listener.bridge_info.get("counts", {})
            return all(counts.get(name) == value for name, value in wanted.items())

        until(met, f"counts {wanted}, found {self.listener.bridge_info.get('counts')}")


def patched(command: list[str], before: str) -> list[str]:
    """Return the command with a line of Python before it."""
    if command[1] == "-c":
        return [command[0], "-c", f"{before}{command[2]}"]
    code = f"{before}import runpy; runpy.run_module({command[2]!r}, run_name='__main__')"
    return [command[0], "-c", code, *command[3:]]


OK = "{run},{k},ok,1000,20.00"


def stand_in(listener: Listener, reply: Callable[[str, int], list[str]]) -> None:
    """Be the bridge: answer with the payloads of `reply(run, sequence)`, which may have {run} and {k}."""

    def answer(client: Any, _data: object, message: Any) -> None:
        _command, run, sequence = message.payload.decode().split("-")
        k = int(sequence)
        for payload in reply(run, k):
            client.publish(TOPIC_ANSWER, payload.format(run=run, k=k), message.qos)

    listener.client.on_message = answer
    info = {
        "tcp_nodelay": True, "framing": "line", "subscription_qos": 2, "mqtt_version": "3.1.1", "counts": {},
        "instance": "ab12", "boot": "cd34",
    }  # fmt: skip
    listener.say(TOPIC_BRIDGE_INFO, json.dumps(info), retain=True)
    listener.say(TOPIC_BRIDGE_STATUS, ONLINE, retain=True)


def events(child: Child) -> list[dict[str, Any]]:
    """Return what a controller reported with LOOPLAB_EVENTS=json."""
    lines = child.said().rpartition("\n")[0].splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def event(child: Child, kind: str) -> dict[str, Any]:
    """Return the first event of a kind, {} before it."""
    return next((found for found in events(child) if found["event"] == kind), {})
