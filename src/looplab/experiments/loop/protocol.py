"""What controller and bridge agree on: topics, the request and the answer, factors of a run that both have.

Request `<command>-<run>-<sequence>`, answer `<run>,<sequence>,<status>,<R_ns>,<value>`.
Commands are E, and T, L and S: the robot's temperature, light and sound. Of a robot on two wheels they are U (upright,
motors off) and `B<level>`, the voltage of its wheels from 0 to 127; the value of an answer to these is
`<tilt> <rate> <way> <speed>`.
The bridge appends five fields to an answer, `<sequence>,<wire_R_ns>,<wait_ns>,<wake_up_ns>,<send_path_ns>`, about an
earlier one: how long it took between its request's bytes entering and its own bytes leaving the bridge's socket (known
only once sent), how long its request waited for the robot to be done with those before it, and by the kernel's time
stamps how long the request took from the network to the bridge and the answer from the bridge to the network. The last
two are empty where the kernel gave no stamp.

With MQTT 5 a request also names the topic of its answer, and has its sequence as correlation data, which the answer
brings back (MQTT 5, 4.10).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from looplab.mqtt.packets import CORRELATION_DATA, RESPONSE_TOPIC, V3_1_1, VERSIONS, property_bytes, read_properties
from looplab.spec.parameters import Option, Settings, choice, switch

TOPIC_REQUEST = "request/"
TOPIC_ANSWER = "answer/"
TOPIC_BRIDGE_STATUS = "lab/bridge/status"
TOPIC_ROBOT_STATUS = "lab/robot/status"
TOPIC_BRIDGE_INFO = "lab/bridge/info"
# The bridge publishes `<run> <sequence> …` here: requests whose answers merged into the one before.
TOPIC_BRIDGE_MERGED = "lab/bridge/merged"
ONLINE = b"online"
OFFLINE = b"offline"

# The bridge itself answers this one; every other command asks the robot.
COMMAND_EMULATED = "E"
# On the serial line a level of the wheels' voltage is this byte and those behind it.
LEVEL_BYTE, MOST_LEVEL = 128, 127

# By fidelity, bytes from the robot become answers in one of these ways.
RAW = "raw"
FRAMINGS = {"printed": RAW, "thesis": "burst", "corrected": "line"}
# By fidelity, the n-th answer is the n-th request's, or each is that of its own request.
COUNT = "count"
PAIRINGS = {"printed": COUNT, "thesis": "request"}
# Which legs of the loop have the cell's QoS, by fidelity: the publication of the request alone, or all four.
LEGS = {"thesis": "request", "corrected": "all"}
# A receiver's thread turns without a pause, or sleeps until something comes.
SPIN, SELECT = "spin", "select"
RECEIVERS = {"thesis": SELECT, "printed": SPIN}
# How many connections the controller has.
TWO, ONE = "two", "one"
CONNECTIONS = {TWO: 2, ONE: 1}


QOS_LEGS = Option("--qos-legs", "QOS_LEGS", "", "which of the loop's four legs have the QoS", tuple(LEGS.values()))


@dataclass(frozen=True, kw_only=True)
class BridgeFactors(Settings):
    """The factors of a run that its bridge has, too."""

    tcp_nodelay: bool = switch({"thesis": False, "corrected": True})
    robot_framing: str = choice(FRAMINGS, tuple(FRAMINGS.values()))
    pairing: str = choice(PAIRINGS, tuple(PAIRINGS.values()))
    serial_low_latency: bool = switch({"thesis": False, "corrected": True})
    # Request and response by MQTT 5's own means.
    mqtt_version: str = choice(V3_1_1, VERSIONS, factor=True)
    topic_alias: bool = switch(False, factor=True)
    qos_legs: str = choice(LEGS, tuple(LEGS.values()), option=QOS_LEGS)
    receiver: str = choice(RECEIVERS, (SPIN, SELECT))


def subscription_qos(legs: str, highest: int) -> int:
    """Return the QoS of bridge's and controller's subscriptions; the bridge answers at the QoS that it receives."""
    return 0 if legs == LEGS["thesis"] else highest


STATUS_OK = "ok"
STATUS_TIMEOUT = "timeout"
STATUS_OFFLINE = "offline"
STATUS_GARBLED = "garbled"

MAX_PAYLOAD_BYTES = 160

# A response topic: a wildcard would cost the bridge its connection.
_TOPIC = re.compile(r"[^+#\0]{1,100}")
_REQUEST = re.compile(rb"([TLSEU]|B[0-9]{1,3})-([A-Za-z0-9_.-]{1,64})-([0-9]{1,9})")
_ANSWER = re.compile(
    rb"([A-Za-z0-9_.-]{1,64}),([0-9]{1,9}),([a-z]{1,16}),([0-9]{1,18}),([ -+\--~]{0,32})"
    rb"(?:,([0-9]{1,9}),([0-9]{1,18}),([0-9]{1,18}),([0-9]{0,18}),([0-9]{0,18}))?"
)
_MERGED = re.compile(rb"([A-Za-z0-9_.-]{1,64})((?: [0-9]{1,9})+)")


class LoopRequest(NamedTuple):
    """One request as received: `command` as the serial line has it, `run` a token, `sequence` counts from 0."""

    command: bytes
    run: bytes
    sequence: int


class LoopAnswer(NamedTuple):
    """One answer as received.

    The fields from `wire_robot_ns` on describe an earlier answer, `wire_sequence`. They are -1 if the bridge sent none.
    """

    run: bytes
    sequence: int
    status: bytes
    robot_ns: int
    value: bytes
    wire_sequence: int
    wire_robot_ns: int
    wait_ns: int
    wake_up_ns: int
    send_path_ns: int


def parse_request(payload: bytes) -> LoopRequest | None:
    """Return the request in `payload`, None if it is malformed (to be counted and ignored)."""
    match = _REQUEST.fullmatch(payload) if len(payload) <= MAX_PAYLOAD_BYTES else None
    if match is None:
        return None
    command, run, sequence = match.groups()
    if len(command) > 1:
        level = int(command[1:])
        if level > MOST_LEVEL:
            return None
        command = bytes([LEVEL_BYTE + level])
    return LoopRequest(command, run, int(sequence))


def parse_answer(payload: bytes) -> LoopAnswer | None:
    """Return the answer in `payload`, None if it is malformed (to be counted and ignored)."""
    match = _ANSWER.fullmatch(payload) if len(payload) <= MAX_PAYLOAD_BYTES else None
    if match is None:
        return None
    run, sequence, status, robot_ns, value, *earlier = match.groups()
    return LoopAnswer(
        run, int(sequence), status, int(robot_ns), value, *(int(field) if field else -1 for field in earlier)
    )


def request_properties(payload: bytes) -> bytes:
    """Return MQTT 5's properties of a request."""
    number = payload.rpartition(b"-")[2]
    return property_bytes(RESPONSE_TOPIC, TOPIC_ANSWER.encode()) + property_bytes(CORRELATION_DATA, number)


def answer_to(properties: bytes) -> tuple[str, bytes]:
    """Return topic and properties of the answer to a request with these properties of MQTT 5, b"" without any.

    Raises ValueError or IndexError if they are malformed.
    """
    if not properties:
        return TOPIC_ANSWER, b""
    found = read_properties(properties, 0)[0]
    topic = found[RESPONSE_TOPIC].decode() if RESPONSE_TOPIC in found else TOPIC_ANSWER
    correlation = found.get(CORRELATION_DATA)
    if not _TOPIC.fullmatch(topic) or len(properties) > MAX_PAYLOAD_BYTES:
        raise ValueError("a response topic or correlation data that no answer can have")
    return topic, b"" if correlation is None else property_bytes(CORRELATION_DATA, correlation)


def merged_payload(run: bytes, sequences: Iterable[int]) -> bytes:
    """Return what the bridge publishes about merged requests of `run`."""
    return b" ".join([run, *(b"%d" % sequence for sequence in sequences)])


def parse_merged(payload: bytes) -> tuple[bytes, list[int]] | None:
    """Return (run, sequences), None if `payload` is malformed."""
    match = _MERGED.fullmatch(payload)
    return (match[1], [int(number) for number in match[2].split()]) if match else None
