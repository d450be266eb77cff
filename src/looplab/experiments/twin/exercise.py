"""What an exercise may ask about the cells of a run of twin."""

from looplab.experiments.twin.report.cell import FIGURES
from looplab.experiments.twin.report.findings import claims

__all__ = ["FIELDS", "FIGURES", "LINES", "MEANINGS", "METRICS", "claims"]

FIELDS = {
    "interval_ms": 10,
    "brokers": 1,
    "placement": "single",
    "write_mode": "published",
    "qos": 1,
    "repetition": 0,
}
METRICS = ("storage_delay", "arrival_delay", "commit_delay", "lateness")
MEANINGS = {
    "ms": "the interval between two messages in ms",
    "brokers": "how many, and whether they share a machine (central) or have one each (distributed)",
    "mode": "how the instance stores",
    "queue": "the most messages that were sent and not yet stored at one time",
    "drain": "from the last message sent to the last one stored, in s",
    "out/s": "messages stored a second; in twin-limit, at the highest rate that was sustained",
    "delay p99": "from sent to stored, in ms: 99 of 100 messages take less",
}
LINES = {
    "interval": "ms",
    "queue_max": "queue",
    "drained_s": "drain",
    "rate_out_per_s": "out/s",
    "storage_delay": "delay p99",
    "limit_per_s": "out/s",
}
