"""The capture of what a cell sent: tcpdump takes the packets, in a container of its own; MQTT is counted after."""

import math
from dataclasses import dataclass
from typing import NamedTuple


class CapturedConnections(NamedTuple):
    """The local ports of a publisher and a subscriber, and the time in which their segments count (s since 1970)."""

    publisher: int
    subscriber: int
    since_s: float = 0.0
    until_s: float = math.inf


@dataclass(frozen=True)
class Application:
    """What is a request and what its answer, and between which times (s since 1970) requests count.

    A `key` that begins with `topic+` also has what the wildcards of both filters stand for. An answer that comes later
    than `limit_s` belongs to no request; `most` is the number of requests that there is room for.
    """

    request_topic: str
    answer_topic: str
    key: str
    since_s: float
    until_s: float
    limit_s: float
    most: int
