"""The capture of what a cell sent: tcpdump takes the packets, in a container of its own; MQTT is counted after."""

import math
from typing import NamedTuple


class CapturedConnections(NamedTuple):
    """The local ports of a publisher and a subscriber, and the time in which their segments count (s since 1970)."""

    publisher: int
    subscriber: int
    since_s: float = 0.0
    until_s: float = math.inf
