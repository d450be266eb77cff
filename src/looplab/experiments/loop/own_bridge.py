"""OWN_BRIDGE: a bridge that somebody else wrote. It says nothing of itself, so the run goes by its answers."""

from contextlib import suppress
from dataclasses import replace
from socket import gethostbyname
from time import perf_counter_ns

from looplab.errors import MachineError
from looplab.experiments.loop import BRIDGE
from looplab.experiments.loop.parameters import LoopParameters
from looplab.experiments.loop.protocol import STATUS_OK, TOPIC_REQUEST, parse_answer
from looplab.run.open_loop import MessageCounts, Sender
from looplab.spec.roles import Role
from looplab.treatments.judgement import Treatment

PROBE_NS = 500_000_000


def bridge_role(parameters: LoopParameters) -> Role:
    """Return the bridge's role; a program in the user's image has any name, and is found by its address."""
    if not (parameters.own_bridge and parameters.own_image):
        return BRIDGE
    with suppress(OSError):
        return replace(BRIDGE, address=gethostbyname(BRIDGE.name))
    # It has ended already: `wait` reports that.
    return BRIDGE


class OwnBridge:
    """`heard` is what came on the answers' topic before the first message was sent."""

    def __init__(self, parameters: LoopParameters, token: str) -> None:
        self._parameters, self._token, self.heard = parameters, token, b""

    def wait(self, client: Sender) -> None:
        """Ask until the robot's answer comes. Raises LabError (exit code 3) where none comes in time."""
        p, count = self._parameters, 0
        end_ns = perf_counter_ns() + p.parts_timeout_s * 1_000_000_000
        while (answer := parse_answer(self.heard)) is None or answer.status != STATUS_OK.encode():
            if perf_counter_ns() > end_ns:
                said = f"answers {self.heard[:80]!r}" if self.heard else "answers nothing"
                raise MachineError(
                    f"The bridge {p.own_bridge} {said}: no good answer within {p.parts_timeout_s} s.",
                    "See what it printed, and docs/adding-an-experiment.md for the agreement.",
                )
            client.publish(TOPIC_REQUEST, f"{p.command}-p{self._token}-{count}".encode(), 0)
            client.wait(perf_counter_ns() + PROBE_NS)
            count += 1


def judge_own_bridge(counts: MessageCounts) -> Treatment:
    """Judge whether a bridge of OWN_BRIDGE answers each request once, in the form that was agreed."""
    wrong = {"malformed": counts.malformed, "of another run": counts.foreign, "twice": sum(counts.duplicates)}
    found = ", ".join(f"{count} {name}" for name, count in wrong.items() if count)
    return Treatment("own bridge's answers", "each once, in the agreed form", found or "all of them", not found)
