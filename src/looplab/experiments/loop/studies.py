"""The scenarios that each claim of the thesis compares: what `./lab study NAME` runs."""

from looplab.spec import brokers

COMPARED = {
    "no-arduino-slower": ("scenario1", "scenario0"),
    "no-arduino-slower-stress": ("scenario2", "scenario3"),
    "stress": ("scenario1", "scenario2"),
    "stress-no-arduino": ("scenario0", "scenario3"),
    "broker-priority": ("scenario2", "scenario4"),
    "broker-priority-no-arduino": ("scenario3", "scenario6"),
    "client-priority": ("scenario4", "scenario5"),
}
STUDIES = {
    **COMPARED,
    brokers.STUDY: ("scenario1", "scenario2", "scenario5", "scenario8"),
    "loss-10-ms": ("scenario1", "scenario2", "scenario4", "scenario5"),
    "flood-qos-0": ("scenario7", "scenario8"),
    "flood-qos-1-2": ("scenario8",),
    "qos-2": ("scenario8",),
}
